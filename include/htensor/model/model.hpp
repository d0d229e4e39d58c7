// An opened model: a range of tensors, each of which can be looked up by name.
//
//   const auto model = HT_TRY(ht::Model::open("model.safetensors"));
//   for (const ht::AnyTensor& t : model) print(t.name(), t.dims());
//   const auto w = HT_TRY(model.tensor<ht::BF16, ht::Rank<2>>("wte.weight"));
//
// Opening reads headers only; a file is mapped when the first of its tensors is used. ht::load, ht::seal,
// ht::verify, ht::convert and others take a Model and are declared in the headers of their folders.
//
// A Model is a handle like a Tensor: copies share the files. A tensor keeps its bytes alive by itself, so it
// may outlive the model. A const Model may be used from many threads.
#pragma once

#include <filesystem>
#include <htensor/base/index_iterator.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <htensor/io/source.hpp>
#include <htensor/model/any_tensor.hpp>
#include <htensor/tensor/tensor.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct ModelFiles;

struct OpenOptions {
  /// Users' own dtypes that the file may use: `{dtype_info<MyF8>()}`.
  std::vector<DTypeInfo> dtypes{};
  /// Formats of the caller's, which are tried before the library's.
  std::vector<Format> formats{};
  /// Also opens a file whose data is not all there; its tensors are listed, and reading one that is
  /// not whole is `truncated`, one in another file that is missing `missing_shard`.
  bool headers_only = false;
  /// Keeps no file open, for callers that want the catalog alone; the bytes of its tensors are `bad_state`.
  bool catalog_only = false;
  /// The most bytes that are read of a header or an index; 0 is the format's own limit (see ParseOptions).
  std::uint64_t max_header_bytes = 0;
  /// What a page of a mapped file that cannot be read becomes: by default an Error in routines of the library
  /// and under `ht::guarded`, and the process's own fault elsewhere (see base/fault.hpp).
  FaultPolicy faults = FaultPolicy::guarded;
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

  /// One file that is in memory already. `owner` keeps the bytes alive; empty where the caller guarantees
  /// that. The bytes must not change. A format that names a tensor by its file calls it "tensor".
  [[nodiscard]] static Result<Model> from_bytes(Bytes bytes, std::shared_ptr<const void> owner,
                                                const OpenOptions& options = {});
  /// One file by its descriptor, which is duplicated: the caller may close its own.
  [[nodiscard]] static Result<Model> from_fd(int fd, const OpenOptions& options = {});
  /// One file by a source, which may be a class of the caller's. Where the source cannot be mapped,
  /// `copy_to`, `cast`, `copy` and ht::load read it; `bytes` and `tensor` need a loaded tensor.
  [[nodiscard]] static Result<Model> from_source(std::shared_ptr<const io::Source> source,
                                                 const OpenOptions& options = {});

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

  /// The first page of a mapped file that could not be read and was replaced by zeros, also for a moment;
  /// nullopt where there is none. For programs that read in place under FaultPolicy::zero_fill: ask it when
  /// the results are there, and discard them if it returns an Error. Costs a mutex for each file.
  [[nodiscard]] std::optional<Error> fault() const;

 private:
  friend struct ModelAccess;
  friend class IndexIterator<Model>;
  explicit Model(std::shared_ptr<const ModelState> state) noexcept;
  /// There must be a tensor of this index.
  [[nodiscard]] AnyTensor operator[](std::size_t index) const noexcept;
  [[nodiscard]] Error unknown_tensor(std::string_view name) const;
  [[nodiscard]] static Model of_files(ModelFiles files, std::span<const std::filesystem::path> opened,
                                      const OpenOptions& options);

  std::shared_ptr<const ModelState> state_;
};

/// The paths of the models that a folder holds, each of which `Model::open` takes: the folder itself if it
/// holds one model. A path that is not a folder is returned unchanged. Shards that are numbered but have no
/// index are listed one by one where the folder holds other models as well; `missing_shard` if one of them is
/// missing. `not_found` where there are no weights: the hint names a folder below that has some, or how to
/// convert the files that are there.
[[nodiscard]] Result<std::vector<std::filesystem::path>> models_in(const std::filesystem::path& path,
                                                                   const OpenOptions& options = {});

/// The files of a model by their names, also the missing ones: the files that a shard index names, all files
/// of a numbered set for one of them, the files of a folder that holds one model, or the path itself. Parses
/// an index but no header.
[[nodiscard]] Result<std::vector<std::filesystem::path>> files_of_model(const std::filesystem::path& path,
                                                                        const OpenOptions& options = {});

static_assert(sizeof(Model) == 2 * sizeof(void*));

}  // namespace ht::inline v1
