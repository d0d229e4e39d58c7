// Converts option structs of the C API to those of the C++ library.
#pragma once

#include <htensor/htensor.h>

#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/names.hpp>
#include <htensor/model/model.hpp>
#include <htensor/values/cast.hpp>
#include <optional>
#include <stop_token>

struct ht_cancel {  // NOLINT(readability-identifier-naming)
  std::stop_source stop;
};

namespace ht::c {

[[nodiscard]] Result<OpenOptions> open_options(const ht_open_options* given);
[[nodiscard]] Result<NameFilter> name_filter(const ht_filter* given);

/// Returns the rounding of the C++ library. HT_ROUND_NONE becomes nearest_even.
[[nodiscard]] Result<Rounding> rounding(ht_rounding mode, int saturate, std::uint64_t seed);

/// Returns the ht_type of the tags, also if the library lacks the type. HT_TYPE_UNKNOWN for `invalid` and
/// `dense`: the file states no type.
[[nodiscard]] constexpr ht_type c_type(DTypeTag dtype, EncodingTag encoding) noexcept {
  const auto block = static_cast<unsigned>(encoding);
  return static_cast<ht_type>(block != 0 ? 256 + block : static_cast<unsigned>(dtype));
}
/// Returns the type of a tag. Its name is empty if the library lacks the type.
[[nodiscard]] ElementType element_type(DTypeTag dtype, EncodingTag encoding) noexcept;
[[nodiscard]] ElementType element_type(ht_type type) noexcept;
/// Returns the type. Fails with `bad_dtype` if the library lacks it; `name` is the name of the argument for
/// the error message.
[[nodiscard]] Result<ElementType> known_type(ht_type type, std::string_view name);
/// Returns the tag of a dense type. Also fails with `bad_dtype` for a block encoding.
[[nodiscard]] Result<DTypeTag> known_dtype(ht_type type, std::string_view name);

/// Progress and cancellation of one C call. The options that `start` returns refer to this object, which must
/// therefore outlive the operation.
class Work {
 public:
  [[nodiscard]] Result<WorkOptions> start(const ht_work* given);

 private:
  struct StopForwarder {
    std::stop_source* to;
    void operator()() const noexcept { to->request_stop(); }
  };

  ht_work given_{};
  std::optional<std::stop_source> stop_;
  std::optional<std::stop_callback<StopForwarder>> forwarder_;
};

}  // namespace ht::c
