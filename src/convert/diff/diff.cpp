#include <htensor/convert/diff.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <htensor/base/bytes.hpp>
#include <htensor/base/fault.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/format/metadata.hpp>
#include <limits>
#include <mutex>
#include <set>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "base/workers.hpp"
#include "convert/diff/number_gap.hpp"
#include "format/irpa/irpa.hpp"
#include "model/model_access.hpp"
#include "model/relayout.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {
namespace {

// A tensor is compared in runs: ranges of adjacent elements. A run has at most this many bytes of each
// tensor, unless `run_step` elements have more. The stop token is polled after each run.
constexpr std::uint64_t run_bytes = std::uint64_t{4} << 20;

// Two tensors to compare, the method, and the result so far.
struct TensorPair {
  // Runs begin at a multiple of this number of elements. It is a whole number of bytes and blocks of every
  // type.
  static constexpr std::uint64_t run_step = 256;

  // Positions in the catalogs.
  std::size_t a = 0;
  std::size_t b = 0;
  // The first difference found.
  std::optional<Differences::Kind> differ{};
  std::optional<std::uint64_t> first_byte{};
  // Whether equal bytes imply equal elements.
  bool by_bytes = false;
  // Whether differing elements have a numeric distance.
  bool by_gap = false;
  // Whether that distance is reported.
  bool reports_gap = false;
  double max_abs = 0;
  // One gap per run; nullopt for runs of equal bytes. Their sums are added up in a fixed order, so that the
  // result is deterministic.
  std::vector<std::optional<Gap>> gaps{};
  // The number of elements to compare, and the number of elements in a run.
  std::uint64_t elements = 0;
  std::uint64_t run_elements = run_step;
  // Types of the elements; U8 if the file does not name a type.
  ElementType type_a{};
  ElementType type_b{};
  // Whether stored bytes are compared: blocks, or bytes of unknown dtype, of the same byte order.
  bool as_stored = false;

  [[nodiscard]] std::uint64_t runs() const noexcept {
    return elements / run_elements + (elements % run_elements != 0 ? 1 : 0);
  }
};

bool is_dense(const Entry& entry) {
  return entry.dtype != DTypeTag::invalid && entry.encoding == EncodingTag::dense;
}

// For an unknown dtype, each byte is an element.
ElementType compared_type(const AnyTensor& tensor) noexcept {
  const ElementType type = tensor.type();
  return type.is_known() ? type : ElementType{.dtype = U8::tag, .name = U8::name, .bits = U8::bits};
}

Result<std::uint64_t> elements_of(const AnyTensor& tensor) {
  if (!tensor.type().is_known()) return tensor.byte_size();
  return static_cast<std::uint64_t>(HT_TRY(layout::count_elements(tensor.dims())));
}

std::uint64_t stored_size(const ElementType& type, std::uint64_t elements) noexcept {
  return values::stored_bytes(type, static_cast<std::int64_t>(elements));
}

// Returns a number of elements after which two splats of these types repeat. In each type, these elements
// fill whole blocks and a multiple of 16 bytes. They also fill whole patterns, because a pattern has 1, 2, 4,
// 8 or 16 bytes.
std::uint64_t splat_period(const ElementType& a, const ElementType& b) noexcept {
  // Sizes of blocks are powers of two, and 8 elements of a dense type are whole bytes.
  return 16 * std::uint64_t{std::max({8U, a.block_elements, b.block_elements})};
}

// Computes the root mean square of the gaps and the cosine between the two tensors.
void describe_gap(Differences::Tensor& found, const TensorPair& pair) {
  Gap all;
  for (const auto& gap : pair.gaps) {
    if (!gap) continue;
    all.squares += gap->squares;
    all.product += gap->product;
    all.norm_a += gap->norm_a;
    all.norm_b += gap->norm_b;
  }
  found.max_abs = pair.max_abs;
  if (pair.elements != 0) found.rms = std::sqrt(all.squares / static_cast<double>(pair.elements));
  const double norms = std::sqrt(all.norm_a) * std::sqrt(all.norm_b);
  if (norms > 0 && std::isfinite(norms) && std::isfinite(all.product))
    found.cosine = std::clamp(all.product / norms, -1.0, 1.0);
}

// Formats of a single tensor do not store its name; the tensor is named by its file.
bool is_named_by_its_file(const Model& model) {
  if (model.catalog().size() != 1) return false;
  const Entry entry = model.catalog()[0];
  return entry.name == to_utf8(model.files()[entry.file].stem().string());
}

Differences::Metadata compare(const Metadata& a, const Metadata& b) {
  Differences::Metadata found;
  for (const auto& item : a) {
    if (describes_layout(item)) continue;
    const auto& [key, value] = item;
    const auto other = b.find(key);
    if (!other) {
      found.only_a.emplace_back(key);
    } else if (value.type() != other->type() || !std::ranges::equal(value.bytes(), other->bytes())) {
      found.differ.emplace_back(key);
    }
  }
  for (const auto& item : b) {
    if (!a.find(item.key) && !describes_layout(item)) found.only_b.emplace_back(item.key);
  }
  return found;
}

// The first byte that differs. If `last_bits` is not 0, only the low `last_bits` of the last byte count.
std::optional<std::size_t> first_difference(Bytes a, Bytes b, unsigned last_bits) {
  const std::size_t whole = last_bits == 0 ? a.size() : a.size() - 1;
  if (std::memcmp(a.data(), b.data(), whole) != 0) {
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  }
  const std::byte mask{static_cast<unsigned char>((1U << last_bits) - 1U)};
  if (last_bits != 0 && ((a.back() ^ b.back()) & mask) != std::byte{0}) return whole;
  return std::nullopt;
}

// The value of `Run::first_byte` if no difference was found; greater than every offset.
constexpr std::uint64_t no_difference = UINT64_MAX;

// A run of a pair's elements, and the differences found in it.
struct Run {
  TensorPair& pair;
  std::uint64_t first;
  std::uint64_t count;
  std::uint64_t first_byte = no_difference;
  std::optional<Gap> gap{};
};

// Buffers of one worker for data that cannot be compared in place.
struct Buffers {
  std::vector<std::byte> a;
  std::vector<std::byte> b;
};

class ModelComparison {
 public:
  ModelComparison(const Model& a, const Model& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  Result<Differences> find_differences() {
    HT_TRY(pair_tensors());
    count_runs();
    HT_TRY(check_unchanged());
    HT_TRY(compare_all());
    HT_TRY(check_unchanged());
    compare_notes();
    for (const auto& pair : pairs_) {
      if (!pair.differ) continue;
      auto& found =
          found_.differ.emplace_back(Differences::Tensor{.name = std::string(a_.catalog()[pair.a].name),
                                                         .why = *pair.differ,
                                                         .first_byte = pair.first_byte});
      if (pair.reports_gap && pair.differ != Differences::Kind::note) describe_gap(found, pair);
    }
    found_.metadata = compare(a_.catalog().metadata(), b_.catalog().metadata());
    return std::move(found_);
  }

 private:
  void compare_notes() {
    for (auto& pair : pairs_) {
      if (pair.differ) continue;
      const auto of_a = format_irpa::note_beyond_type(a_.catalog()[pair.a]);
      if (of_a != format_irpa::note_beyond_type(b_.catalog()[pair.b])) pair.differ = Differences::Kind::note;
    }
  }

  // Pairs the tensors that are in both models, in the order of `a`.
  Result<void> pair_tensors() {
    if (is_named_by_its_file(a_) && is_named_by_its_file(b_)) return add_pair(0, 0);
    for (std::size_t i = 0; i < a_.catalog().size(); ++i) {
      const auto name = a_.catalog()[i].name;
      if (const auto other = b_.catalog().find(name)) {
        HT_TRY(add_pair(i, *other));
      } else {
        found_.only_a.emplace_back(name);
      }
    }
    for (const Entry& entry : b_.catalog()) {
      if (!a_.find(entry.name)) found_.only_b.emplace_back(entry.name);
    }
    return {};
  }

  // Compares the catalog entries of two tensors and chooses how to compare their data.
  Result<void> add_pair(std::size_t index_a, std::size_t index_b) {
    TensorPair pair{.a = index_a, .b = index_b};
    const Entry a = a_.catalog()[index_a];
    const Entry b = b_.catalog()[index_b];
    const bool same_dims = std::ranges::equal(a.dims, b.dims);
    pair.type_a = compared_type(HT_TRY(a_.at(index_a)));
    pair.type_b = compared_type(HT_TRY(b_.at(index_b)));
    const bool are_typed = a.is_typed() && b.is_typed();
    const bool allows_other_dtype =
        options_.tolerance && are_typed && is_inexact(pair.type_a) && is_inexact(pair.type_b);
    pair.by_gap = are_typed && same_dims && have_distance(pair.type_a, pair.type_b);
    pair.reports_gap = pair.by_gap && pair.type_a.dtype != C64::tag;
    if (is_dense(a) && is_dense(b)) {
      // The same user tag may mean different dtypes in the two models.
      const auto dtype_a = HT_TRY(a_.dtype(a.dtype));
      const bool same_dtype = dtype_a == HT_TRY(b_.dtype(b.dtype));
      if (!same_dtype && !allows_other_dtype) pair.differ = Differences::Kind::dtype;
      pair.by_bytes = same_dims && same_dtype;
    } else if (is_dense(a) != is_dense(b) || a.encoding != b.encoding) {
      if (!allows_other_dtype) pair.differ = Differences::Kind::dtype;
    } else if (same_dims) {
      // Blocks, and bytes of unknown dtype.
      pair.as_stored = a.byte_order == b.byte_order;
      pair.by_bytes = true;
      // If the sizes differ, the first missing byte is the difference, unless an earlier byte differs.
      if (a.bytes != b.bytes) {
        pair.differ = Differences::Kind::contents;
        pair.first_byte = std::min(a.bytes, b.bytes);
      }
    }
    if (!same_dims && !pair.differ) pair.differ = Differences::Kind::shape;
    if (pair.by_bytes || pair.by_gap) HT_TRY(plan_runs(pair));
    pairs_.push_back(pair);
    return {};
  }

  // Sets the number of elements to compare, and checks that the data exists.
  Result<void> plan_runs(TensorPair& pair) {
    const auto a = HT_TRY(a_.at(pair.a));
    const auto b = HT_TRY(b_.at(pair.b));
    pair.elements = std::min(HT_TRY(elements_of(a)), HT_TRY(elements_of(b)));
    if (pair.elements == 0) return {};
    for (const auto& tensor : {a, b}) {
      if (tensor.is_splat()) continue;
      HT_TRY(ModelAccess::check_available(ModelAccess::state(tensor), tensor.entry()));
      if (!ModelAccess::is_resident(tensor)) sources_.insert(&ModelAccess::source_of(tensor));
      if (!pair.as_stored) HT_TRY(relayout_of(tensor.entry()));  // an error if the layout is not supported
    }
    const std::uint64_t step_bytes = std::max(stored_size(pair.type_a, TensorPair::run_step),
                                              stored_size(pair.type_b, TensorPair::run_step));
    pair.run_elements =
        std::max<std::uint64_t>(std::bit_floor(run_bytes / step_bytes), 1) * TensorPair::run_step;
    // Both splats repeat after this number of elements, so comparing that many is enough.
    if (a.is_splat() && b.is_splat())
      pair.elements = std::min(pair.elements, splat_period(pair.type_a, pair.type_b));
    if (pair.reports_gap) pair.gaps.resize(static_cast<std::size_t>(pair.runs()));
    return {};
  }

  void count_runs() {
    std::uint64_t runs = 0;
    ends_.reserve(pairs_.size());
    for (const auto& pair : pairs_) {
      runs += pair.runs();
      ends_.push_back(runs);
      const auto bytes = stored_size(pair.type_a, pair.elements);
      progress_.total_bytes = checked::add(progress_.total_bytes, bytes).value_or(UINT64_MAX);
    }
  }

  [[nodiscard]] Result<void> check_unchanged() const {
    for (const auto* const source : sources_) HT_TRY(source->check_unchanged());
    return {};
  }

  Result<void> compare_all() {
    Jobs jobs{.count = ends_.empty() ? 0 : static_cast<std::size_t>(ends_.back()),
              .threads = 0,
              .run = {},
              .meanwhile = [this] { return report_and_poll(); }};
    std::vector<Buffers> buffers(workers_for(jobs));
    jobs.run = [&](std::size_t job, std::size_t worker) { return compare_run(job, buffers[worker]); };
    HT_TRY(run_all(jobs));
    // Equal runs of differing tensors are still needed for the cosine.
    std::vector<std::uint64_t> equal_runs;
    std::uint64_t run = 0;
    for (const auto& pair : pairs_) {
      for (std::uint64_t i = 0; i < pair.runs(); ++i, ++run) {
        if (pair.differ && !pair.gaps.empty() && !pair.gaps[static_cast<std::size_t>(i)])
          equal_runs.push_back(run);
      }
    }
    compares_values_of_equal_runs_ = true;
    jobs.count = equal_runs.size();
    jobs.run = [&](std::size_t job, std::size_t worker) {
      return compare_run(equal_runs[job], buffers[worker]);
    };
    return run_all(jobs);
  }

  Result<void> compare_run(std::uint64_t job, Buffers& buffers) {
    const auto place = std::ranges::upper_bound(ends_, job) - ends_.begin();
    auto& pair = pairs_[static_cast<std::size_t>(place)];
    const std::uint64_t number = job - (ends_[static_cast<std::size_t>(place)] - pair.runs());
    const std::uint64_t first = number * pair.run_elements;
    Run run{.pair = pair, .first = first, .count = std::min(pair.run_elements, pair.elements - first)};
    const auto a = HT_TRY(a_.at(pair.a));
    const auto b = HT_TRY(b_.at(pair.b));
    HT_TRY(fetch(a, run));
    HT_TRY(fetch(b, run));
    const Bytes bytes_a = HT_TRY(read(a, run, buffers.a));
    const Bytes bytes_b = HT_TRY(read(b, run, buffers.b));
    HT_TRY(guarded(std::array{bytes_a, bytes_b}, [&] { return compare_bytes(run, bytes_a, bytes_b); }));
    if (!pair.gaps.empty()) pair.gaps[static_cast<std::size_t>(number)] = run.gap;
    record(run);
    if (!compares_values_of_equal_runs_) done_bytes_ += stored_size(pair.type_a, run.count);
    if (options_.work.stop.stop_requested()) return fail(stopped());
    return {};
  }

  // Brings the pages of a run into memory.
  static Result<void> fetch(const AnyTensor& tensor, const Run& run) {
    // The elements of a run are scattered over a column-major tensor.
    if (!tensor.entry().is_row_major()) return {};
    const ElementType type = compared_type(tensor);
    return ModelAccess::fetch(tensor, stored_size(type, run.first), stored_size(type, run.count));
  }

  Result<Bytes> read(const AnyTensor& tensor, const Run& run, std::vector<std::byte>& buffer) const {
    const ElementType type = compared_type(tensor);
    const std::uint64_t begin = stored_size(type, run.first);
    const auto count = static_cast<std::size_t>(stored_size(type, run.count));
    if (!tensor.is_splat() && (run.pair.as_stored || tensor.is_plain()))
      return tensor.view(begin, count, buffer);
    buffer.resize(count);
    // Each element of a column-major tensor may be on a different page, so a run takes long.
    const bool is_scattered = !tensor.is_splat() && !tensor.entry().is_row_major();
    const std::size_t step_bytes = is_scattered ? 16384 : count;
    for (std::size_t done = 0; done < count; done += step_bytes) {
      if (options_.work.stop.stop_requested()) return fail(stopped());
      const auto step = std::span(buffer).subspan(done, std::min(step_bytes, count - done));
      HT_TRY(tensor.copy_to(step, begin + done));
    }
    return Bytes(buffer);
  }

  Result<void> compare_bytes(Run& run, Bytes a, Bytes b) const {
    const ElementType& type = run.pair.type_a;
    // Padding bits in the last byte are ignored. All runs but the last end at a byte boundary.
    const auto last_bits = static_cast<unsigned>(run.count % 8) * static_cast<unsigned>(type.bits) % 8;
    const std::uint64_t begin = stored_size(type, run.first);
    if (run.pair.by_bytes) {
      const auto at = first_difference(a, b, last_bits);
      if (at) run.first_byte = begin + *at;
      if (!at && !compares_values_of_equal_runs_) return {};
    }
    if (!run.pair.by_gap) return {};
    constexpr double any = std::numeric_limits<double>::infinity();
    run.gap =
        HT_TRY(gap_between({type, a}, {run.pair.type_b, b}, run.count, options_.tolerance.value_or(any)));
    if (options_.tolerance) {
      run.first_byte = no_difference;
      const auto beyond = run.gap->first_beyond;
      if (beyond)
        run.first_byte = begin + stored_size(type, *beyond - (type.is_dense() ? *beyond % 8 : 0)) +
                         (type.is_dense() ? *beyond % 8 * static_cast<unsigned>(type.bits) / 8 : 0);
    }
    return {};
  }

  void record(const Run& run) {
    const double max_abs = run.gap ? run.gap->largest : 0;
    if (run.first_byte == no_difference && max_abs == 0) return;
    const std::scoped_lock lock(mutex_);
    auto& pair = run.pair;
    pair.max_abs = std::max(pair.max_abs, max_abs);
    const bool has_other_kind = pair.differ && pair.differ != Differences::Kind::contents;
    if (run.first_byte == no_difference || has_other_kind) return;
    pair.differ = Differences::Kind::contents;
    pair.first_byte = std::min(pair.first_byte.value_or(no_difference), run.first_byte);
  }

  [[nodiscard]] Error stopped() const {
    return Error(ErrorCode::cancelled, "work_is_completed",
                 format_text("stopped: {} of {} bytes compared", done_bytes_.load(), progress_.total_bytes))
        .at_path(a_.files()[0].native());
  }

  Result<void> report_and_poll() {
    if (options_.work.on_progress) {
      progress_.done_bytes = done_bytes_;
      progress_.elapsed = std::chrono::steady_clock::now() - begin_;
      options_.work.on_progress(progress_);
    }
    if (options_.work.stop.stop_requested() && done_bytes_ < progress_.total_bytes) return fail(stopped());
    return {};
  }

  const Model& a_;
  const Model& b_;
  const DiffOptions& options_;
  std::vector<TensorPair> pairs_;
  std::vector<std::uint64_t> ends_;      // cumulative number of runs, by pair
  std::set<const io::Source*> sources_;  // sources that are read
  Differences found_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool compares_values_of_equal_runs_ = false;
  std::atomic<std::uint64_t> done_bytes_ = 0;
  Progress progress_;
  std::mutex mutex_;
};

Result<void> check(const DiffOptions& options) {
  if (!options.tolerance || (*options.tolerance >= 0 && std::isfinite(*options.tolerance))) return {};
  return fail(Error(ErrorCode::out_of_bounds, "tolerance_is_finite_and_not_negative",
                    format_text("tolerance {} is not a finite number of 0 or more", *options.tolerance))
                  .with_hint("use --tolerance 0 for equal values in different encodings"));
}

}  // namespace

bool Differences::Metadata::is_same() const noexcept {
  return only_a.empty() && only_b.empty() && differ.empty();
}

bool Differences::has_same_tensors() const noexcept {
  return only_a.empty() && only_b.empty() && differ.empty();
}

bool Differences::is_same() const noexcept { return has_same_tensors() && metadata.is_same(); }

std::string_view to_string(Differences::Kind kind) noexcept {
  switch (kind) {
    case Differences::Kind::dtype: return "dtype";
    case Differences::Kind::shape: return "shape";
    case Differences::Kind::note: return "note";
    case Differences::Kind::contents: break;
  }
  return "contents";
}

Result<Differences> diff(const Model& a, const Model& b, const DiffOptions& options) {
  return without_bad_alloc([&]() -> Result<Differences> {
    HT_TRY(check(options));
    return ModelComparison(a, b, options).find_differences();
  });
}

}  // namespace ht::inline v1
