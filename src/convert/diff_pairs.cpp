#include "convert/diff_pairs.hpp"

#include <algorithm>
#include <bit>
#include <htensor/base/utf8.hpp>
#include <htensor/format/metadata_edit.hpp>

#include "convert/number_gap.hpp"
#include "format/gguf/gguf.hpp"

namespace ht::inline v1 {
namespace {

// What is read of each tensor before anybody is asked whether to go on.
constexpr std::uint64_t run_bytes = std::uint64_t{4} << 20;

bool is_dense(const Entry& entry) {
  return entry.dtype != DTypeTag::invalid && entry.encoding == EncodingTag::dense;
}

bool same_dims(const Entry& a, const Entry& b) { return std::ranges::equal(a.dims, b.dims); }

// Of dense tensors: what a difference of their elements would be.
Result<void> plan_dense(TensorPair& pair, const Model& model_a, const Model& model_b, bool tolerant) {
  const Entry a = model_a.catalog()[pair.a];
  const Entry b = model_b.catalog()[pair.b];
  // A user's tag need not mean the same to both.
  const auto dtype_a = HT_TRY(model_a.dtype(a.dtype));
  const auto dtype_b = HT_TRY(model_b.dtype(b.dtype));
  const bool same_dtype = dtype_a == dtype_b;
  const bool forgiven = tolerant && is_floating(a.dtype) && is_floating(b.dtype);
  if (!same_dtype && !forgiven) pair.differ = DifferenceKind::dtype;
  if (!same_dims(a, b)) {
    if (!pair.differ) pair.differ = DifferenceKind::shape;
    return {};
  }
  pair.by_bytes = same_dtype;
  pair.by_gap = have_gap(a.dtype, b.dtype);
  pair.tells_gap = pair.by_gap && !is_complex(a.dtype);
  return {};
}

// Of blocks, and of bytes that nobody knows the dtype of.
Result<void> plan_bytes(TensorPair& pair, const Model& model_a, const Model& model_b) {
  const Entry a = model_a.catalog()[pair.a];
  const Entry b = model_b.catalog()[pair.b];
  if (!same_dims(a, b)) {
    pair.differ = DifferenceKind::shape;
    return {};
  }
  if (a.byte_order == b.byte_order) pair.order = PlainTensor::Order::stored;
  pair.by_bytes = true;
  // What one has and the other has not is the difference, unless there is one before.
  if (a.bytes != b.bytes) {
    pair.differ = DifferenceKind::contents;
    pair.first_byte = std::min(a.bytes, b.bytes);
  }
  return {};
}

// The models, and what is collected of them.
class Pairing {
 public:
  Pairing(const Model& a, const Model& b, bool tolerant) : a_(a), b_(b), tolerant_(tolerant) {}

  Result<void> add(std::size_t a, std::size_t b) {
    TensorPair pair{.a = a, .b = b};
    const Entry entry_a = a_.catalog()[a];
    const Entry entry_b = b_.catalog()[b];
    if (is_dense(entry_a) && is_dense(entry_b)) {
      HT_TRY(plan_dense(pair, a_, b_, tolerant_));
    } else if (is_dense(entry_a) != is_dense(entry_b) || entry_a.encoding != entry_b.encoding) {
      pair.differ = DifferenceKind::dtype;
    } else {
      HT_TRY(plan_bytes(pair, a_, b_));
    }
    if (pair.by_bytes || pair.by_gap) HT_TRY(plan_runs(pair));
    pairs.both.push_back(pair);
    return {};
  }

  Pairs pairs;

 private:
  // How far the elements have to be looked at, and whether they are there.
  Result<void> plan_runs(TensorPair& pair) {
    const auto a = HT_TRY(PlainTensor::of(a_, pair.a, pair.order));
    const auto b = HT_TRY(PlainTensor::of(b_, pair.b, pair.order));
    for (const auto* const file : {a.stored().file, b.stored().file}) {
      if (file != nullptr) pairs.files.insert(file);
    }
    pair.elements = std::min(a.elements(), b.elements());
    pair.bits = a.bits();
    const auto bits = static_cast<std::uint64_t>(std::max(a.bits(), b.bits()));
    pair.run_elements = std::max(std::bit_floor(run_bytes * 8 / bits), PlainTensor::run_step);
    // Two patterns begin anew together, however often they are repeated.
    if (a.entry().is_splat() && b.entry().is_splat()) {
      pair.elements = std::min(pair.elements, PlainTensor::run_step);
    }
    return {};
  }

  const Model& a_;
  const Model& b_;
  bool tolerant_;
};

// A format of a single tensor has no name for it, and it is called as its file is.
bool is_named_by_its_file(const Model& model) {
  if (model.catalog().size() != 1) return false;
  const Entry entry = model.catalog()[0];
  return entry.name == to_utf8(model.files()[entry.file].stem().string());
}

}  // namespace

Result<Pairs> pair_up(const Model& a, const Model& b, const DiffOptions& options) {
  Pairing pairing(a, b, options.tolerance.has_value());
  auto& pairs = pairing.pairs;
  if (is_named_by_its_file(a) && is_named_by_its_file(b)) {
    HT_TRY(pairing.add(0, 0));
    return std::move(pairs);
  }
  for (std::size_t i = 0; i < a.catalog().size(); ++i) {
    const auto name = a.catalog()[i].name;
    if (const auto other = b.catalog().find(name)) {
      HT_TRY(pairing.add(i, *other));
    } else {
      pairs.only_a.emplace_back(name);
    }
  }
  for (std::size_t i = 0; i < b.catalog().size(); ++i) {
    const auto name = b.catalog()[i].name;
    if (!a.catalog().find(name)) pairs.only_b.emplace_back(name);
  }
  return std::move(pairs);
}

namespace {

// Says how a file is laid out, and nothing of the model.
bool is_layout(const Metadata::Item& item) {
  return is_padding(item) ||
         (item.key != format_gguf::pad_key && format_gguf::describes_the_layout(item.key));
}

}  // namespace

MetadataDifferences compare(const Metadata& a, const Metadata& b) {
  MetadataDifferences found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_layout(a[i])) continue;
    const auto [key, value] = a[i];
    const auto other = b.find(key);
    if (!other) {
      found.only_a.emplace_back(key);
    } else if (value.type() != other->type() || !std::ranges::equal(value.bytes(), other->bytes())) {
      found.differ.emplace_back(key);
    }
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!a.find(b[i].key) && !is_layout(b[i])) found.only_b.emplace_back(b[i].key);
  }
  return found;
}

}  // namespace ht::inline v1
