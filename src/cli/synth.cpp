#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <htensor/base/checked.hpp>
#include <memory>
#include <vector>

#include "cli/cli.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::string preset;
  std::string dtype = "F32";
  std::uint64_t bytes = std::uint64_t{1} << 20;
  std::uint64_t seed = 0;
  bool sparse = false;
  bool force = false;
};

// SplitMix64: element i of a seed is the same on every machine and in every piece.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e37'79b9'7f4a'7c15;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

// About normal around 0 with a deviation of 0.02, as weights are: four uniform numbers added up.
double weight(std::uint64_t random) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((random >> (16 * i)) & 0xFFFF) / 65536.0 - 0.5;
  return sum * 0.02 * 1.7320508075688772;
}

template <class D>
typename D::Element element(std::uint64_t random) {
  using Element = typename D::Element;
  if constexpr (D::number.kind == NumberKind::boolean) {
    return Element((random & 1) != 0);
  } else if constexpr (D::number.kind == NumberKind::complex) {
    return Element(static_cast<float>(weight(random)), static_cast<float>(weight(mixed(random, 1))));
  } else if constexpr (IsIntegral<D> && std::is_integral_v<Element>) {
    return static_cast<Element>(random);
  } else if constexpr (IsIntegral<D>) {
    return Element::from_bits(static_cast<std::uint8_t>(random & 0xF));
  } else if constexpr (!D::number.has_zero) {
    return Element::from_bits(static_cast<std::uint8_t>(123 + random % 9));  // scales around 1
  } else if constexpr (D::number.digits < 8) {
    return Element(weight(random) * 50);  // of deviation 1: narrow types are used with a scale
  } else {
    return static_cast<Element>(weight(random));
  }
}

// Fills `into`, the elements from `first` on; `first` is a multiple of 8, so a byte begins there.
template <class D>
Result<void> fill(std::uint64_t seed, std::uint64_t first, std::uint64_t count, MutableBytes into) {
  auto tensor = HT_TRY((Tensor<D, Rank<1>>::over(HT_TRY(Storage::borrowed(into)), Rank<1>(count))));
  for (std::uint64_t i = 0; i < count; ++i) tensor(i) = element<D>(mixed(seed, first + i));
  return {};
}

/// A matrix of about that many bytes, its sides within a factor of two of each other.
Result<std::array<std::int64_t, 2>> matrix_of(std::uint64_t bytes, int bits) {
  const auto width = static_cast<std::uint64_t>(bits);
  const auto whole = checked::multiply(bytes / width, 8);
  const auto wanted = whole ? checked::add(*whole, bytes % width * 8 / width) : std::nullopt;
  if (!wanted || *wanted > INT64_MAX || bytes > INT64_MAX) {
    return fail(
        Error(ErrorCode::size_overflow, "size_fits_63_bits",
              fmt::format("a matrix of {} bytes has more bytes or elements than 63 bits can count", bytes))
            .with_hint("ask for less"));
  }
  const std::uint64_t elements = std::max<std::uint64_t>(*wanted, 1);
  const std::uint64_t columns = std::uint64_t{1} << ((63 - std::countl_zero(elements)) / 2);
  return std::array{static_cast<std::int64_t>(elements / columns), static_cast<std::int64_t>(columns)};
}

// Makes the data piece by piece. A sparse one has its first and last piece and a hole between them.
class Generator {
 public:
  Generator(const Options& options, const DTypeInfo& dtype, std::uint64_t elements, const Common& common)
      : options_(options),
        dtype_(dtype),
        elements_(elements),
        progress_(bytes_for(elements, dtype.bits).value_or(0), common) {}

  Result<std::optional<DataPiece>> next() {
    if (interrupted()) return fail(interruption());
    if (at_ >= elements_) return std::nullopt;
    const std::uint64_t count = std::min(elements_ - at_, piece_elements());
    const std::uint64_t begin = *bytes_for(at_, dtype_.bits);
    buffer_.assign(static_cast<std::size_t>(*bytes_for(count, dtype_.bits)), std::byte{});
    HT_TRY(visit_dtype(
        dtype_.tag, [&]<class D>(D) { return fill<D>(options_.seed, at_, count, MutableBytes(buffer_)); }));
    progress_.update(begin);
    const std::uint64_t end = at_ + count;
    // The last piece starts at a multiple of 8 elements, as each does.
    const std::uint64_t last = elements_ > piece_elements() ? (elements_ - piece_elements() + 7) / 8 * 8 : 0;
    at_ = options_.sparse && end < last ? last : end;
    return DataPiece{begin, buffer_};
  }

 private:
  [[nodiscard]] std::uint64_t piece_elements() const {
    return options_.sparse ? 1024 : std::uint64_t{1} << 18;
  }

  const Options& options_;
  DTypeInfo dtype_;
  std::uint64_t elements_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> buffer_;
  Progress progress_;
};

Result<Exit> synthesize(const Options& options, const Common& common) {
  const auto dtype = find_dtype(options.dtype);
  if (!dtype) {
    return fail(Error(ErrorCode::bad_dtype, "dtype_name_is_known",
                      fmt::format("there is no dtype '{}'", options.dtype))
                    .with_hint("dtypes are spelled as in safetensors: F32, BF16, F8_E4M3, I8, BOOL, …"));
  }
  const auto dims = HT_TRY(matrix_of(options.bytes, dtype->bits));
  const auto elements = static_cast<std::uint64_t>(dims[0]) * static_cast<std::uint64_t>(dims[1]);
  Generator generator(options, *dtype, elements, common);
  HT_TRY(write(options.path, *dtype, dims, [&] { return generator.next(); },
               {.if_exists = options.force ? io::IfExists::replace : io::IfExists::fail}));
  const std::uint64_t bytes = *bytes_for(elements, dtype->bits);
  if (common.json || common.jsonl) {
    print(fmt::format(R"({{"written":{},"tensors":1,"bytes":{}}})"
                      "\n",
                      json_string(options.path), bytes));
  } else if (!common.quiet) {
    print(fmt::format("{}: {} {}, {}{}\n", printable(options.path), dtype->name, shape_text(dims),
                      size_text(bytes), options.sparse ? ", sparse" : ""));
  }
  return Exit::good;
}

}  // namespace

Action register_synth(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("out", options->path, "The file to make, a .ht")->required()->type_name("OUT");
  verb.add_option("--preset", options->preset, "What to make: matrix, one tensor of two dimensions")
      ->required()
      ->check(CLI::IsMember({"matrix"}))
      ->type_name("PRESET");
  verb.add_option("--dtype", options->dtype, "As in safetensors: F32, BF16, F8_E4M3, …")
      ->capture_default_str()

      ->type_name("DTYPE");
  verb.add_option_function<std::string>(
          "--size",
          [options](const std::string& text) {
            const auto bytes = parse_size(text);
            if (!bytes)
              throw CLI::ValidationError("--size",
                                         fmt::format("'{}' is no size such as 4K, 16M, 2.5G", text));
            options->bytes = *bytes;
          },
          "About how many bytes; 1M unless given")
      ->type_name("SIZE");
  verb.add_option_function<std::string>(
          "--seed",
          [options](const std::string& text) {
            const char* const begin = text.c_str();
            const char* const end = begin + text.size();
            const auto [after, error] = std::from_chars(begin, end, options->seed);
            if (error != std::errc{} || after != end) {
              throw CLI::ValidationError("--seed", fmt::format("'{}' is no whole number below 2^64", text));
            }
          },
          "Another seed gives other values; 0 unless given")
      ->type_name("N");
  verb.add_flag(
      "--sparse", options->sparse,
      "In an instant: the first and last 1024 elements have values, the rest is zero and takes no room");
  verb.add_flag("--force", options->force, "Replace OUT if it is there");
  return [options](const Common& common) { return synthesize(*options, common); };
}

}  // namespace ht::cli
