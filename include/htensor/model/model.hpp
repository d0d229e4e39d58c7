// An opened file: its catalog, and its tensors by name.
//
// A Model is a handle like a Tensor: copies share the files. Each tensor keeps what it needs alive by
// itself, so it may outlive the model. A const Model may be used from many threads.
#pragma once

#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/io/port.hpp>
#include <htensor/tensor/tensor.hpp>
#include <memory>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct OpenOptions {
  /// Users' own dtypes that the file may use: `{dtype_info<MyF8>()}`.
  std::vector<DTypeInfo> dtypes{};
  /// Also opens a file whose data is not all there; its tensors are listed, and reading one that is
  /// not whole is `truncated`.
  bool headers_only = false;
  /// Maps nothing, for those who want the catalog alone; looking a tensor up is `bad_state` then.
  bool catalog_only = false;
  /// The system, unless a test puts another in its place. It has to outlive the model.
  io::Port* port = nullptr;
};

class Model {
 public:
  // No move: copying costs a count, and what was moved from would be a trap.
  Model(const Model&) = default;
  Model& operator=(const Model&) = default;
  ~Model() = default;

  [[nodiscard]] static Result<Model> open(const std::filesystem::path& path, const OpenOptions& options = {});

  /// All tensors, in file order. Not of a temporary: the catalog would be gone with it.
  [[nodiscard]] const Catalog& catalog() const& noexcept;
  [[nodiscard]] const Catalog& catalog() const&& = delete;

  /// The files that the catalog's entries lie in.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const& noexcept;
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const&& = delete;

  /// What is known of a dtype that the catalog names, users' own included.
  [[nodiscard]] Result<DTypeInfo> dtype(DTypeTag tag) const;

  /// The tensor of that name in place, exactly as it is stored. `not_found`, `dtype_mismatch` and
  /// `shape_mismatch` say what is there instead.
  template <IsDType D, IsShape S>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<const D, S>> tensor(std::string_view name) const {
    const auto found = HT_TRY(find(name, dtype_info<D>()));
    const auto shape = HT_TRY(named(name, S::from(found.dims)));
    return named(name, Tensor<const D, S>::over(found.storage, shape));
  }

  /// All elements of the tensor of that name in row-major order, whatever its rank.
  template <IsDType D>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<const D, Rank<1>>> flat(std::string_view name) const {
    const auto found = HT_TRY(find(name, dtype_info<D>()));
    const auto count = HT_TRY(named(name, layout::count_elements(found.dims)));
    return named(name, Tensor<const D, Rank<1>>::over(found.storage, Rank<1>(count)));
  }

 private:
  struct State;
  struct Found {
    std::span<const std::int64_t> dims;
    Storage storage;
  };
  explicit Model(std::shared_ptr<const State> state) noexcept;
  [[nodiscard]] Result<Found> find(std::string_view name, const DTypeInfo& wanted) const;
  /// Adds the file and the tensor to an error.
  [[nodiscard]] Error located(Error error, std::string_view name) const;
  template <class T>
  [[nodiscard]] Result<T> named(std::string_view name, Result<T> result) const {
    if (!result) return fail(located(std::move(result).error(), name));
    return result;
  }

  std::shared_ptr<const State> state_;
};

static_assert(sizeof(Model) == 2 * sizeof(void*));

}  // namespace ht::inline v1
