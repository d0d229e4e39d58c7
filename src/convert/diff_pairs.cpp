#include "convert/diff_pairs.hpp"

#include <algorithm>
#include <bit>
#include <htensor/base/utf8.hpp>
#include <htensor/format/metadata_edit.hpp>

#include "convert/number_gap.hpp"
#include "model/model_access.hpp"
#include "model/relayout.hpp"

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
  pair.as_stored = a.byte_order == b.byte_order;
  pair.by_bytes = true;
  // What one has and the other has not is the difference, unless there is one before.
  if (a.bytes != b.bytes) {
    pair.differ = DifferenceKind::contents;
    pair.first_byte = std::min(a.bytes, b.bytes);
  }
  return {};
}

Result<std::uint64_t> elements_of(const AnyTensor& tensor) {
  if (!tensor.type().is_dense()) return tensor.byte_size();
  return static_cast<std::uint64_t>(HT_TRY(layout::count_elements(tensor.dims())));
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
    const auto a = HT_TRY(a_.at(pair.a));
    const auto b = HT_TRY(b_.at(pair.b));
    pair.elements = std::min(HT_TRY(elements_of(a)), HT_TRY(elements_of(b)));
    pair.bits = compared_bits(a);
    if (pair.elements == 0) return {};
    for (const auto& tensor : {a, b}) {
      if (tensor.is_splat()) continue;
      HT_TRY(ModelAccess::check_is_there(ModelAccess::state(tensor), tensor.entry()));
      if (!ModelAccess::is_resident(tensor)) pairs.sources.insert(&ModelAccess::source_of(tensor));
      if (!pair.as_stored) HT_TRY(relayout_of(tensor.entry()));  // whether it can be
    }
    const auto bits = static_cast<std::uint64_t>(std::max(pair.bits, compared_bits(b)));
    pair.run_elements = std::max(std::bit_floor(run_bytes * 8 / bits), TensorPair::run_step);
    // Two patterns begin anew together, however often they are repeated.
    if (a.is_splat() && b.is_splat()) pair.elements = std::min(pair.elements, TensorPair::run_step);
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

int compared_bits(const AnyTensor& tensor) noexcept {
  const ElementType type = tensor.type();
  return type.is_dense() ? type.bits : 8;
}

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
  for (const Entry& entry : b.catalog()) {
    if (!a.find(entry.name)) pairs.only_b.emplace_back(entry.name);
  }
  return std::move(pairs);
}

MetadataDifferences compare(const Metadata& a, const Metadata& b) {
  MetadataDifferences found;
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

}  // namespace ht::inline v1
