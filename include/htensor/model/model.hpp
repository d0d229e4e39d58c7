// An opened model: a range of tensors, with look-up by name.
//
//   const auto model = HT_TRY(ht::Model::open("model.safetensors"));
//   for (const ht::AnyTensor& t : model) print(t.name(), t.dims());
//   const auto w = HT_TRY(model.tensor<ht::BF16, ht::Rank<2>>("wte.weight"));
//
// Opening reads headers only; a file is mapped when the first of its tensors is used. Functions such as
// ht::load, ht::seal, ht::verify and ht::convert take a Model; each is declared in the header of its folder.
//
// A Model is a handle like a Tensor: copies share the files. A tensor shares ownership of its file, so it may
// outlive the model. A const Model is thread-safe.
#pragma once

#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/io/source.hpp>
#include <htensor/model/any_tensor.hpp>
#include <htensor/tensor/tensor.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct ModelFiles;

/// Options of `Model::open`. The model copies them, but not the Port and not the texts of `dtypes` and
/// `formats`, which must outlive it.
///
///   const auto model = HT_TRY(ht::Model::open("m.gguf", {.allow_incomplete = true, .catalog_only = true}));
struct OpenOptions {
  /// User-defined dtypes that the file may use: `{dtype_info<MyF8>()}`.
  std::vector<DTypeInfo> dtypes{};
  /// The caller's formats, tried before those of the library.
  std::vector<Format> formats{};
  /// Also opens an incomplete file. All tensors are listed; reading an incomplete tensor is `truncated`,
  /// reading a tensor in a missing file is `missing_shard`.
  bool allow_incomplete = false;
  /// Reads only the catalog and keeps no file open; access to the bytes of a tensor is `bad_state`.
  bool catalog_only = false;
  /// The maximum size of a header or an index in bytes; 0 is the limit of the format (see ParseOptions).
  std::uint64_t max_header_bytes = 0;
  /// How an unreadable page of a mapped file is handled. By default it is an Error in functions of the
  /// library and under `ht::guarded`, and SIGBUS elsewhere (see base/fault.hpp).
  FaultPolicy faults = FaultPolicy::guarded;
  /// The operating system if null; tests substitute their own Port. The Port must outlive the model and all
  /// its tensors and storages.
  io::Port* port = nullptr;
};

/// The place of the bytes of a tensor, as ht::residency (load/load.hpp) returns it.
///
///   const auto all = HT_TRY(ht::residency(model));
///   for (const ht::TensorResidency& t : all) print(model.catalog()[t.index].name, t.cached_bytes, t.bytes);
struct TensorResidency {
  /// The state of a tensor's bytes (transitions: docs/io.md).
  enum class Residence : std::uint8_t {
    unbound,   ///< its file is missing, incomplete or not mapped yet
    mapped,    ///< its file is mapped: pages are read on first access
    loading,   ///< a load is in progress
    resident,  ///< in the model's own memory
    evicted,   ///< no longer resident
    failed,    ///< the last load failed; it can be repeated
  };

  /// Index in the catalog.
  std::size_t index = 0;
  /// The size of the tensor in the catalog; for a splat, the expanded size.
  std::uint64_t bytes = 0;
  /// Bytes in the page cache; 0 for a splat. nullopt if the kernel does not report it, as for a file that
  /// this user neither owns nor may write to. A page shared by two tensors counts for both.
  std::optional<std::uint64_t> cached_bytes = 0;
  /// Bytes in the model's own memory: all or 0.
  std::uint64_t resident_bytes = 0;
  Residence residence = Residence::unbound;
};

class Model {
 public:
  struct Diagnosis;

  // No move: a copy increments a reference count, and a moved-from Model would be unusable.
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;
  ~Model() = default;

  /// Opens a file of any format, any part of a split GGUF, the index of a sharded model, or a folder that
  /// holds one model; files may be symbolic links. A numbered safetensors shard opens alone. A folder with
  /// several models is `not_found`, and the error names them; `models_in` lists them. `open_failed`,
  /// `bad_magic` for an unknown format, `missing_shard`, `truncated`, `changed_underfoot` if other programs
  /// replace a set again and again, and the errors of the parser of the format.
  [[nodiscard]] static Result<Model> open(const std::filesystem::path& path, const OpenOptions& options = {});

  /// Opens one file in memory, without a copy. `owner` keeps the bytes alive; if it is empty, the caller
  /// keeps them alive as long as the model and its tensors. The bytes must not change. If the format names
  /// its tensor after the file, the name is "tensor".
  [[nodiscard]] static Result<Model> from_bytes(Bytes bytes, std::shared_ptr<const void> owner,
                                                const OpenOptions& options = {});
  /// Opens one file by its descriptor. The descriptor is duplicated: the caller may close its own.
  [[nodiscard]] static Result<Model> from_fd(int fd, const OpenOptions& options = {});
  /// Opens one file from a source, which may be a class of the caller. If the source cannot be mapped,
  /// `copy_to`, `cast`, `copy` and ht::load read from it; `bytes` and `tensor` require a loaded tensor.
  [[nodiscard]] static Result<Model> from_source(std::shared_ptr<const io::Source> source,
                                                 const OpenOptions& options = {});

  /// Opens several models as one, in this order, for conversion into one file. `duplicate_tensor` if two
  /// models have a tensor of the same name, `duplicate_key` if two models have different values for one key.
  /// Keys that describe the layout of a file are taken from the first model. A seal covers one model, so
  /// ht::seal of a merged model is `bad_state`. Empty `paths` are `bad_state` too.
  [[nodiscard]] static Result<Model> open_merged(std::span<const std::filesystem::path> paths,
                                                 const OpenOptions& options = {});

  /// All tensors, in file order. Deleted for temporaries: the reference would dangle.
  [[nodiscard]] const Catalog& catalog() const& noexcept;
  [[nodiscard]] const Catalog& catalog() const&& = delete;

  /// The files that contain the catalog's tensors.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const& noexcept;
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const&& = delete;

  /// The properties of a dtype in the catalog, including user-defined dtypes. `bad_dtype` for an unknown tag.
  [[nodiscard]] Result<DTypeInfo> dtype(DTypeTag tag) const;

  // A range of tensors in file order: `for (const ht::AnyTensor& t : model)`. The model must outlive its
  // iterators; tensors may outlive the model.
  [[nodiscard]] std::size_t size() const noexcept { return catalog().size(); }
  [[nodiscard]] detail::IndexIterator<Model> begin() const& noexcept;
  [[nodiscard]] detail::IndexIterator<Model> end() const& noexcept;
  [[nodiscard]] detail::IndexIterator<Model> begin() const&& = delete;
  [[nodiscard]] detail::IndexIterator<Model> end() const&& = delete;

  /// The index of the tensor with that name, in constant time; nullopt if there is none.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept {
    return catalog().find(name);
  }
  /// The tensor with that name. `not_found`, with the most similar name.
  [[nodiscard]] Result<AnyTensor> operator[](std::string_view name) const;
  /// The tensor at `index`, in file order. `out_of_bounds`.
  [[nodiscard]] Result<AnyTensor> at(std::size_t index) const;

  // Each function looks up a tensor by name and calls the function of AnyTensor with the same name.

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
  [[nodiscard]] Result<Storage> storage(std::string_view name) const;

  /// The Error of the first unreadable page of a mapped file that was replaced by zeros, even if a guarded
  /// section has since replaced the zeros by the page of the file (base/fault.hpp); nullopt if no page was
  /// replaced. For programs that read in place under FaultPolicy::zero_fill: call `fault` after the
  /// computation, and discard the results of the computation if `fault` returns an Error. Locks one mutex per
  /// file.
  [[nodiscard]] std::optional<Error> fault() const;

 private:
  friend struct ModelAccess;
  friend class detail::IndexIterator<Model>;
  explicit Model(std::shared_ptr<const ModelState> state) noexcept;
  /// `index` must be less than `size`.
  [[nodiscard]] AnyTensor operator[](std::size_t index) const noexcept;
  [[nodiscard]] Error unknown_tensor(std::string_view name) const;
  [[nodiscard]] static Model of_files(ModelFiles files, std::span<const std::filesystem::path> opened,
                                      const OpenOptions& options);

  std::shared_ptr<const ModelState> state_;
};

/// Returns the paths of the models in a folder, for `Model::open`: the folder itself if it holds one model. A
/// path that is not a folder is returned unchanged. Numbered shards without an index are listed one by one if
/// the folder also holds other models; `missing_shard` if a shard is missing. `not_found` if there are no
/// weights: the hint names a subfolder with weights, or says how to convert the files.
[[nodiscard]] Result<std::vector<std::filesystem::path>> models_in(const std::filesystem::path& path,
                                                                   const OpenOptions& options = {});

/// Returns the paths of a model's files, including missing files. For a shard index, they are the files that
/// it names; for one file of a numbered set, all files of the set; for a folder that holds one model, its
/// files; else the path itself. Parses an index but no header.
[[nodiscard]] Result<std::vector<std::filesystem::path>> files_of_model(const std::filesystem::path& path,
                                                                        const OpenOptions& options = {});

/// The format of a path and the problems of its files. A value.
///
///   const auto found = HT_TRY(ht::diagnose(path));
///   for (const ht::Error& problem : found.problems) print(ht::to_string(problem), problem.hint());
struct Model::Diagnosis {
  /// The format of the file or, if the file cannot be parsed, the format that its name suggests; empty if
  /// unknown.
  std::string format{};
  /// Whether `Model::open` accepts the path.
  bool is_readable = false;
  /// The model, opened with `catalog_only`. It is also set if the data is incomplete. nullopt if a header
  /// cannot be read or a file is missing.
  std::optional<Model> model{};
  /// Reasons why the file is incomplete or malformed. Each Error has a path and a hint.
  std::vector<Error> problems{};
  /// Properties that the format allows and other programs may refuse.
  std::vector<Error> warnings{};
  /// Files of a set that do not exist.
  std::vector<std::filesystem::path> missing_files{};
};

/// Examines a path by its headers and file sizes. A malformed file is a Diagnosis with problems.
/// `open_failed`, `read_failed` and `not_regular_file` if the path cannot be examined.
[[nodiscard]] Result<Model::Diagnosis> diagnose(const std::filesystem::path& path,
                                                const OpenOptions& options = {});

static_assert(sizeof(Model) == 2 * sizeof(void*));

}  // namespace ht::inline v1
