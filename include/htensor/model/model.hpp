// An opened model: a range of tensors, each of which can be looked up by name.
//
// A Model is a handle like a Tensor: copies share the files. Each tensor keeps what it needs alive by
// itself, so it may outlive the model. A const Model may be used from many threads.
#pragma once

#include <filesystem>
#include <htensor/base/index_iterator.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/integrity/verify.hpp>
#include <htensor/io/port.hpp>
#include <htensor/model/any_tensor.hpp>
#include <htensor/model/load.hpp>
#include <htensor/model/residency.hpp>
#include <htensor/model/seal.hpp>
#include <htensor/tensor/tensor.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

namespace io {
class Mapped;
}
struct FoundSeal;
struct ModelFiles;

struct OpenOptions {
  /// Users' own dtypes that the file may use: `{dtype_info<MyF8>()}`.
  std::vector<DTypeInfo> dtypes{};
  /// Also opens a file whose data is not all there; its tensors are listed, and reading one that is
  /// not whole is `truncated`, one in another file that is missing `missing_shard`.
  bool headers_only = false;
  /// Maps nothing, for those who want the catalog alone; looking a tensor up is `bad_state` then.
  bool catalog_only = false;
  /// The most bytes that are read of a header or an index; 0 is the format's own limit (see ParseOptions).
  std::uint64_t max_header_bytes = 0;
  /// Whether pages that cannot be read any more are an Error under `ht::guarded`, and in all of the library,
  /// instead of ending the process (see base/fault.hpp).
  bool fault_guard = true;
  /// The system, unless a test puts another in its place. It has to outlive the model and
  /// every tensor and storage that came from it.
  io::Port* port = nullptr;
};

class Model {
 public:
  // No move: copying costs a count, and what was moved from would be a trap.
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;
  ~Model() = default;

  /// A file of any format, any part of a split GGUF, the index of a sharded model, or a folder that holds one
  /// model; its files may be links. One numbered safetensors shard opens alone. `not_found` names the models
  /// of a folder that holds several: `models_in` lists them.
  [[nodiscard]] static Result<Model> open(const std::filesystem::path& path, const OpenOptions& options = {});

  /// Several models as one, in this order, to be converted into one file: `duplicate_tensor` where two have a
  /// tensor of the same name, `duplicate_key` where they have different values for one key. Keys that
  /// describe the layout of a file are those of the first model. A seal covers one model, so `seal` is
  /// `bad_state`.
  [[nodiscard]] static Result<Model> open_merged(std::span<const std::filesystem::path> paths,
                                                 const OpenOptions& options = {});

  /// All tensors, in file order. Not of a temporary: the catalog would be gone with it.
  [[nodiscard]] const Catalog& catalog() const& noexcept;
  [[nodiscard]] const Catalog& catalog() const&& = delete;

  /// The files that the catalog's entries lie in.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const& noexcept;
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const&& = delete;

  /// What is known of a dtype that the catalog names, users' own included.
  [[nodiscard]] Result<DTypeInfo> dtype(DTypeTag tag) const;

  // A range of tensors in file order: `for (const ht::AnyTensor& t : model)`. The model has to outlive its
  // iterators, not the tensors.
  [[nodiscard]] std::size_t size() const noexcept { return catalog().size(); }
  [[nodiscard]] IndexIterator<Model> begin() const& noexcept { return {*this, 0}; }
  [[nodiscard]] IndexIterator<Model> end() const& noexcept { return {*this, size()}; }
  [[nodiscard]] IndexIterator<Model> begin() const&& = delete;
  [[nodiscard]] IndexIterator<Model> end() const&& = delete;

  /// The index of the tensor of that name.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept {
    return catalog().find(name);
  }
  /// `not_found` with the nearest name.
  [[nodiscard]] Result<AnyTensor> operator[](std::string_view name) const;
  /// `out_of_bounds`.
  [[nodiscard]] Result<AnyTensor> at(std::size_t index) const;

  // The tensor of that name by the functions of AnyTensor.

  template <IsDType D, IsShape S>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<const D, S>> tensor(std::string_view name) const {
    return HT_TRY((*this)[name]).template tensor<D, S>();
  }
  template <IsDType D, IsShape S>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<D, S>> copy(std::string_view name) const {
    return HT_TRY((*this)[name]).template copy<D, S>();
  }
  template <IsDType D>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<const D, Rank<1>>> flat(std::string_view name) const {
    return HT_TRY((*this)[name]).template flat<D>();
  }
  [[nodiscard]] Result<Storage> raw(std::string_view name) const;

  /// Loads all tensors whose names match and reports how. `mapped` brings their pages into the page cache.
  /// `read` copies them into the model's own memory; later look-ups return that memory, independent of the
  /// file. `automatic` takes one of the two, or streams the bytes through a ring (`Loaded::streamed_bytes`)
  /// if they exceed the memory budget; the tensors are mapped then. `budget_too_small` where `mapped` or
  /// `read` is named and exceeds the budget. `unsupported_strategy` for `staged` and `external`, which are
  /// the next two functions. After a failure or a stop the load can be repeated.
  [[nodiscard]] Result<Loaded> load(const LoadOptions& options = {}) const;
  /// Hands all bytes of the matching tensors to the consumer, once, in file order. `staged` needs memory for
  /// its ring only, however large the model is; `mapped` copies nothing that is in the page cache.
  [[nodiscard]] Result<Loaded> stream(const PieceConsumer& consumer, const LoadOptions& options = {}) const;
  /// Reads the stored bytes of tensors into the caller's memory. `size_mismatch` unless each target has the
  /// size of its tensor. The options' strategy, use and glob are ignored.
  [[nodiscard]] Result<Loaded> load_into(std::span<const Target> targets,
                                         const LoadOptions& options = {}) const;

  /// What of each tensor is in memory, in file order. One whose file is missing is `unbound`.
  [[nodiscard]] Result<std::vector<TensorResidency>> residency() const;
  /// The same of one tensor; there must be one of this index.
  [[nodiscard]] Result<TensorResidency> residency(std::size_t index) const;
  /// Brings the tensors whose names match into memory, so that touching them does not wait for the disk, and
  /// returns their number of bytes. `not_found` where no tensor matches.
  [[nodiscard]] Result<std::uint64_t> prefetch(const NameFilter& glob = {},
                                               const WorkOptions& options = {}) const;
  /// Takes them out of memory, and out of the page cache where no other process has them mapped. They can be
  /// used as before, and come from the disk again. Pages that a tensor shares with one that stays, stay. One
  /// that was loaded by `read` and is held by somebody is `in_use`; all others are gone then.
  [[nodiscard]] Result<std::uint64_t> evict(const NameFilter& glob = {}) const;

  /// Writes the seal of all files of the model to where `seal_path` says, in place of one that is there: what
  /// they hold now is what they are verified against from then on. `already_exists` where that is the seal of
  /// other files, which are still there; `header_too_large` if it would be larger than `Seal::max_bytes`.
  [[nodiscard]] Result<SealedModel> seal(const SealOptions& options = {}) const;
  /// The digests that a seal would have.
  [[nodiscard]] Result<ModelDigests> hash(const HashOptions& options = {}) const;
  /// Holds every byte of the files that are open against the seal, or a `.ht` against its own checksum, by
  /// all processors at once; an Error names the first tensor that is bad (`checksum_mismatch`, `truncated`,
  /// …), or says that there is no seal (`not_sealed`). `ht::verify` lists all that is bad, and also takes
  /// files that can no longer be opened as a model.
  [[nodiscard]] Result<void> verify(const VerifyOptions& options = {}) const;
  /// The tensor of that name as it is in memory at this moment, be it mapped or loaded.
  [[nodiscard]] Result<void> validate(std::string_view name) const;

 private:
  friend class ModelLoad;
  friend struct ModelAccess;
  friend class Window;
  friend Result<Verification> verify(const std::filesystem::path& path, const VerifyOptions& options);
  friend class IndexIterator<Model>;
  explicit Model(std::shared_ptr<const ModelState> state) noexcept;
  /// The nth; there must be one.
  [[nodiscard]] AnyTensor operator[](std::size_t index) const noexcept;
  [[nodiscard]] static Result<Model> map_files(ModelFiles files,
                                               std::span<const std::filesystem::path> opened,
                                               const OpenOptions& options);
  [[nodiscard]] Result<std::size_t> index_of(std::string_view name) const;
  [[nodiscard]] Result<std::vector<const io::Mapped*>> all_files() const;
  struct SealedParts;
  [[nodiscard]] Result<SealedParts> sealed_parts() const;
  [[nodiscard]] Result<void> check_all_sealed(const FoundSeal& found) const;
  /// The tensors that match, have bytes and are not splats; fails where one of their files is missing.
  /// `not_found` where no name matches, unless the filter takes every name.
  [[nodiscard]] Result<std::vector<std::size_t>> tensors_matching(const NameFilter& glob) const;
  /// Names the tensor that a fault is in.
  [[nodiscard]] Result<Loaded> placed(Result<Loaded> loaded) const;

  std::shared_ptr<const ModelState> state_;
};

/// The paths of the models that a folder holds, each of which `Model::open` takes: the folder itself if it
/// holds one model. A path that is not a folder is returned unchanged. Shards that are numbered but have no
/// index are listed one by one where the folder holds other models as well; `missing_shard` if one of them is
/// missing. `not_found` where there are no weights: the hint names a folder below that has some, or how to
/// convert the files that are there.
[[nodiscard]] Result<std::vector<std::filesystem::path>> models_in(const std::filesystem::path& path,
                                                                   const OpenOptions& options = {});

static_assert(sizeof(Model) == 2 * sizeof(void*));

}  // namespace ht::inline v1
