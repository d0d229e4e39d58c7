// A program with its own dtype, device, source and strategy. They work wherever those of the library work.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <htensor/htensor.hpp>
#include <memory>
#include <string>
#include <vector>

namespace mine {

/// An 8-bit float with 3 exponent and 4 mantissa bits. The layout defines everything else.
struct F8_E3M4 {
  using Family = ht::family::MiniFloat;
  using Element = ht::SmallFloat<F8_E3M4>;
  static constexpr std::string_view name = "F8_E3M4";
  static constexpr int bits = 8;
  static constexpr ht::DTypeTag tag = ht::user_tag(0);
  static constexpr ht::FloatLayout layout{3, 4, 3, ht::FloatLayout::Specials::ieee};
  static constexpr ht::NumberFacts number = ht::number_facts(layout);
};
static_assert(ht::LosslessTo<F8_E3M4, ht::F16> && !ht::LosslessTo<F8_E3M4, ht::F8_E4M3>);

/// A device with host memory that counts the bytes that it allocates. Stores dtypes of at most 32 bits.
struct CountingDevice {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "CountingDevice";
  static constexpr bool is_host_accessible = true;
  template <class D>
  static constexpr bool stores = D::bits <= 32;

  static inline std::uint64_t allocated_bytes = 0;
  static ht::Result<ht::Storage> allocate(std::uint64_t bytes) {
    auto block = std::make_shared<std::vector<std::byte>>(bytes);
    allocated_bytes += bytes;
    const ht::MutableBytes all(*block);
    return ht::Storage::owned_by(std::move(block), all);
  }
};
static_assert(ht::Compatible<CountingDevice, ht::F32> && !ht::Compatible<CountingDevice, ht::F64>);

/// A device whose memory the host cannot read. It adds floats and has no other operation.
struct Adder {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "Adder";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = std::same_as<D, ht::F32>;

  // Addresses are byte offsets into this array, so a read by the host would fault.
  static inline std::vector<float> memory = std::vector<float>(64);
  static inline std::uint64_t next = 64;

  static ht::Result<ht::Storage> allocate(std::uint64_t bytes) {
    const auto address = next;
    next += bytes;
    if (next / sizeof(float) > memory.size()) memory.resize(next / sizeof(float));
    return ht::Storage::on_device(nullptr, {.device = "Adder", .bytes = bytes, .address = address});
  }
  static float* at(std::uint64_t address) { return &memory[address / sizeof(float)]; }
  static float* at(const float* address) { return at(reinterpret_cast<std::uintptr_t>(address)); }
  static ht::Result<void> copy_to_device(ht::Bytes from, const ht::Storage& to, std::uint64_t offset) {
    std::memcpy(at(ht::placement::first_address(to) + offset), from.data(), from.size());
    return {};
  }
  static ht::Result<void> copy_to_host(const ht::Storage& from, std::uint64_t offset, ht::MutableBytes into) {
    std::memcpy(into.data(), at(ht::placement::first_address(from) + offset), into.size());
    return {};
  }
  template <class Out, class A, class B>
  static ht::Result<void> run(std::plus<>, const ht::ComputeOptions&, const Out& out, const A& a,
                              const B& b) {
    // Only row-major operands are supported in this example.
    if (!a.is_contiguous() || !b.is_contiguous() || !out.is_contiguous())
      return ht::fail(
          ht::Error(ht::ErrorCode::bad_state, "operands_are_contiguous", "operand is not contiguous")
              .with_hint("copy the operand first"));
    for (std::int64_t i = 0; i < out.elements(); ++i) at(out.data())[i] = at(a.data())[i] + at(b.data())[i];
    return {};
  }
};
static_assert(ht::Computes<Adder, ht::slice::Core, ht::F32> &&
              !ht::Computes<Adder, ht::slice::Linear, ht::F32>);

/// A file stored with every bit flipped. It cannot be mapped, so tensors are read from it.
class FlippedFile final : public ht::io::Source {
 public:
  explicit FlippedFile(std::shared_ptr<const ht::io::Source> file) : file_(std::move(file)) {}

  const std::filesystem::path& path() const noexcept override { return file_->path(); }
  std::uint64_t size() const noexcept override { return file_->size(); }
  ht::io::Source::Identity identity() const noexcept override { return file_->identity(); }
  ht::io::Source::Capabilities capabilities() const override {
    return {.latency = ht::io::Source::Latency::near};
  }
  ht::Result<void> read(std::uint64_t offset, ht::MutableBytes into) const override {
    HT_TRY(file_->read(offset, into));
    for (auto& byte : into) byte = ~byte;
    return {};
  }

 private:
  std::shared_ptr<const ht::io::Source> file_;
};

/// Loads each tensor into memory of `CountingDevice`.
class CountingStrategy final : public ht::io::Strategy {
 public:
  explicit CountingStrategy(std::shared_ptr<const ht::io::Source> source) : source_(std::move(source)) {}

  std::string_view name() const noexcept override { return "into counted memory"; }
  ht::io::Strategy::Answer answer(const ht::io::Strategy::Request& request) override {
    if (const auto* const load = std::get_if<ht::io::Strategy::LoadRequest>(&request)) {
      const auto storage = CountingDevice::allocate(load->range.bytes);
      if (!storage) return ht::io::request_failed(storage.error());
      const auto owner = std::make_shared<ht::Storage>(*storage);
      const auto read = source_->read(load->range.offset, *owner->writable_bytes());
      if (!read) return ht::io::request_failed(read.error());
      return ht::io::Strategy::LoadDone{{owner->bytes(), owner}};
    }
    if (const auto* const release = std::get_if<ht::io::Strategy::ReleaseRequest>(&request)) {
      *release->memory = {};
      return ht::io::Strategy::ReleaseDone{};
    }
    return ht::io::not_supported(*this, "answer this request");
  }

 private:
  std::shared_ptr<const ht::io::Source> source_;
};

}  // namespace mine

namespace {

ht::Result<void> run(const std::filesystem::path& path) {
  using Matrix = ht::Tensor<mine::F8_E3M4, ht::Rank<2>, mine::CountingDevice>;
  const auto weights = HT_TRY(Matrix::zeros(ht::Rank<2>(2, 3)));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) weights(i, j) = mine::F8_E3M4::Element(0.5 * (3 * i + j));
  }
  const auto doubled = HT_TRY(weights + weights);
  HT_TRY(ht::write(path, doubled.transpose()));

  const auto model = HT_TRY(ht::Model::open(path, {.dtypes = {ht::dtype_info<mine::F8_E3M4>()}}));
  const auto name = model.catalog()[0].name;
  const auto mapped = HT_TRY(model.tensor<mine::F8_E3M4, ht::Shape<3, 2>>(name));
  const auto wide = HT_TRY(ht::cast<ht::F16>(mapped));
  std::printf("%.*s: %s", static_cast<int>(name.size()), name.data(), "[");
  for (const float value : wide) std::printf(" %g", static_cast<double>(value));
  std::printf(" ], %llu bytes allocated\n",
              static_cast<unsigned long long>(mine::CountingDevice::allocated_bytes));
  return {};
}

ht::Result<void> add_on_device() {
  const auto host = HT_TRY(ht::Tensor<ht::F32, ht::Rank<1>>::of(ht::Rank<1>(3), {1.0F, 2.0F, 3.0F}));
  const auto on_device = HT_TRY(ht::to_device<mine::Adder>(host));
  const auto sum = HT_TRY(on_device + on_device);
  const auto back = HT_TRY(ht::to_host(sum));
  std::printf("added on the device: %g %g %g\n", static_cast<double>(back(0)), static_cast<double>(back(1)),
              static_cast<double>(back(2)));
  return {};
}

// Loads the same model from a custom source with a custom strategy.
ht::Result<void> load_flipped(const std::filesystem::path& path) {
  const auto plain = HT_TRY(ht::io::open_file(path));
  std::vector<std::byte> bytes(plain->size());
  HT_TRY(plain->read(0, bytes));
  for (auto& byte : bytes) byte = ~byte;
  const auto flipped_path = path.parent_path() / "flipped";
  {
    std::ofstream file(flipped_path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const auto source = std::make_shared<mine::FlippedFile>(HT_TRY(ht::io::open_file(flipped_path)));
  const auto model = HT_TRY(ht::Model::from_source(source, {.dtypes = {ht::dtype_info<mine::F8_E3M4>()}}));
  const auto loaded = HT_TRY(ht::load(model, {.custom = std::make_shared<mine::CountingStrategy>(source)}));
  const auto any = HT_TRY(model.at(0));
  const auto tensor = HT_TRY(any.flat<mine::F8_E3M4>());
  std::printf("flipped: %llu bytes loaded by '%s', first %g\n", static_cast<unsigned long long>(loaded.bytes),
              loaded.choice.reason.c_str(), static_cast<double>(static_cast<float>(tensor(1))));
  return {};
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "htensor-consumer-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  const auto path = std::filesystem::path(folder) / "consumer.ht";
  auto done = run(path);
  if (done) done = load_flipped(path);
  if (done) done = add_on_device();
  std::filesystem::remove_all(folder);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return 1;
}
