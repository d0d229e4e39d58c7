#include <htensor/tensor/shape.hpp>

#include <algorithm>
#include <array>
#include <htensor/base/bytes.hpp>
#include <htensor/dtype/packed.hpp>
#include <limits>

#include "base/format_text.hpp"

namespace ht::inline v1::layout {

std::string to_text(Extents extents) { return format_text("[{}]", fmt::join(extents, ", ")); }

Result<std::int64_t> count_elements(Extents extents) {
  if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent < 0; })) {
    return fail(Error(ErrorCode::bad_shape, "extents_are_not_negative",
                      format_text("shape {} has a negative extent", to_text(extents)))
                    .with_hint("use extents of 0 or more"));
  }
  const auto count = element_count(extents);
  if (!count) {
    return fail(Error(ErrorCode::size_overflow, "elements_fit_63_bits",
                      format_text("shape {} has more than 2^63-1 elements", to_text(extents)))
                    .with_hint("use a smaller shape"));
  }
  return *count;
}

Result<void> check_against_static(Extents extents, Extents static_extents) {
  const auto agrees = [](std::int64_t extent, std::int64_t requested) {
    return requested < 0 || requested == extent;
  };
  if (std::ranges::equal(extents, static_extents, agrees)) return {};
  return without_bad_alloc([&]() -> Result<void> {
    std::string requested;
    for (const auto extent : static_extents) {
      if (!requested.empty()) requested += ", ";
      requested += extent < 0 ? "any" : std::to_string(extent);
    }
    return fail(Error(ErrorCode::shape_mismatch, "shape_matches_the_request",
                      format_text("shape is {} but [{}] was requested", to_text(extents), requested))
                    .with_hint("request the shape of the tensor, or Rank<N> for any extents"));
  });
}

Result<void> check_equal(Extents a, Extents b) {
  if (std::ranges::equal(a, b)) return {};
  return fail(Error(ErrorCode::shape_mismatch, "shapes_are_equal",
                    format_text("shapes {} and {} differ", to_text(a), to_text(b)))
                  .with_hint("slice, reshape or broadcast one of them"));
}

Result<void> check_index(Extents index, Extents extents) {
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (index[i] < 0 || index[i] >= extents[i]) {
      return fail(
          Error(ErrorCode::out_of_bounds, "index_is_within_bounds",
                format_text("index {} of dimension {} is outside shape {}", index[i], i, to_text(extents)))
              .with_hint("use an index from 0 to the extent of its dimension minus 1"));
    }
  }
  return {};
}

// The extents are not checked here. A stride that exceeds 2^63-1 becomes 0: it occurs in empty shapes, where
// no element uses it.
static std::int64_t next_stride(std::int64_t stride, std::int64_t extent) noexcept {
  return checked::multiply(stride, std::max<std::int64_t>(extent, 1)).value_or(0);
}

void fill_row_major_strides(Extents extents, std::span<std::int64_t> strides) noexcept {
  std::int64_t stride = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    strides[i] = stride;
    stride = next_stride(stride, extents[i]);
  }
}

void fill_column_major_strides(Extents extents, std::span<std::int64_t> strides) noexcept {
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    strides[i] = stride;
    stride = next_stride(stride, extents[i]);
  }
}

bool is_row_major(Extents extents, Extents strides) noexcept {
  if (std::ranges::find(extents, 0) != extents.end()) return true;
  std::optional<std::int64_t> expected = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    // The stride of a dimension of extent 1 is never used.
    if (extents[i] == 1) continue;
    if (!expected || strides[i] != *expected) return false;
    expected = checked::multiply(*expected, extents[i]);
  }
  return true;
}

Result<OffsetRange> offset_range(Extents extents, Extents strides) {
  OffsetRange result;
  const auto overflow = [&] {
    return fail(Error(ErrorCode::size_overflow, "strides_fit_63_bits",
                      format_text("strides {} over shape {} exceed 2^63-1 elements", to_text(strides),
                                  to_text(extents)))
                    .with_hint("use smaller strides"));
  };
  if (std::ranges::find(extents, 0) != extents.end()) return result;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto span = checked::multiply(extents[i] - 1, strides[i]);
    if (!span) return overflow();
    auto& end = *span < 0 ? result.lowest : result.highest;
    const auto moved = checked::add(end, *span);
    if (!moved) return overflow();
    end = *moved;
  }
  return result;
}

Result<std::int64_t> count_slice(std::int64_t extent, std::int64_t begin, std::int64_t end,
                                 std::int64_t step) {
  const auto outside = [&](std::string_view rule, std::string_view why) {
    return fail(
        Error(ErrorCode::out_of_bounds, rule,
              format_text("slice {}:{}:{} of a dimension of size {}: {}", begin, end, step, extent, why))
            .with_hint("use a begin and an end within the dimension, and a nonzero step"));
  };
  if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) {
    return outside("slice_step_is_valid", "the step is 0 or out of range");
  }
  if (step > 0) {
    if (begin < 0 || end > extent || begin > end) {
      return outside("slice_is_within_bounds", "0 ≤ begin ≤ end ≤ size is required");
    }
    return (end - begin) / step + ((end - begin) % step != 0 ? 1 : 0);
  }
  // Negative step: from `begin` down to `end`, exclusive.
  if (end < -1 || begin >= extent || begin < end) {
    return outside("slice_is_within_bounds", "size > begin ≥ end ≥ -1 is required for a negative step");
  }
  return (begin - end) / -step + ((begin - end) % -step != 0 ? 1 : 0);
}

namespace {

struct Axis {
  std::int64_t extent;
  std::int64_t stride;
};

// Removes axes of extent 1 and joins neighbours if the outer stride equals the inner extent times the inner
// stride.
std::size_t join_axes(Extents extents, Extents strides, std::span<Axis> joined) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 1) continue;
    std::int64_t whole = 0;
    const bool can_join = count > 0 && !__builtin_mul_overflow(strides[i], extents[i], &whole) &&
                          joined[count - 1].stride == whole;
    if (can_join) {
      joined[count - 1] = {joined[count - 1].extent * extents[i], strides[i]};
    } else {
      joined[count++] = {extents[i], strides[i]};
    }
  }
  return count;
}

}  // namespace

Result<void> reshape_strides(Extents extents, Extents strides, Extents new_extents,
                             std::span<std::int64_t> new_strides) {
  const auto elements = HT_TRY(count_elements(extents));
  const auto new_elements = HT_TRY(count_elements(new_extents));
  if (elements != new_elements) {
    return fail(Error(ErrorCode::shape_mismatch, "reshape_keeps_the_element_count",
                      format_text("shape {} has {} elements but {} has {}", to_text(extents), elements,
                                  to_text(new_extents), new_elements))
                    .with_hint("choose a shape with as many elements"));
  }
  fill_row_major_strides(new_extents, new_strides);
  if (elements == 0) return {};

  std::array<Axis, max_rank> joined{};
  const std::size_t count = join_axes(extents, strides, joined);
  // From the innermost axis outwards, a run of new extents must cover each joined axis exactly.
  std::size_t axis = count;
  std::int64_t left = 1;
  std::int64_t stride = 1;
  for (std::size_t i = new_extents.size(); i-- > 0;) {
    if (new_extents[i] == 1) continue;
    if (left == 1) {
      --axis;
      left = joined[axis].extent;
      stride = joined[axis].stride;
    }
    if (left % new_extents[i] != 0) {
      return fail(Error(ErrorCode::bad_shape, "reshape_needs_no_copy",
                        format_text("view of shape {} and strides {} cannot be reshaped to {} without a copy",
                                    to_text(extents), to_text(strides), to_text(new_extents)))
                      .with_hint("call contiguous() first"));
    }
    new_strides[i] = stride;
    left /= new_extents[i];
    if (left > 1) stride *= new_extents[i];  // otherwise the stride is never used and may overflow
  }
  return {};
}

Result<void> broadcast_strides(Extents extents, Extents strides, Extents new_extents,
                               std::span<std::int64_t> new_strides) {
  HT_TRY(count_elements(new_extents));
  const std::size_t added = new_extents.size() - std::min(extents.size(), new_extents.size());
  bool fits = extents.size() <= new_extents.size();
  for (std::size_t i = 0; fits && i < new_extents.size(); ++i) {
    const bool is_kept = i >= added && extents[i - added] == new_extents[i];
    fits = i < added || is_kept || extents[i - added] == 1;
    new_strides[i] = is_kept ? strides[i - added] : 0;
  }
  if (fits) return {};
  return fail(Error(ErrorCode::shape_mismatch, "extents_are_equal_or_one",
                    format_text("shape {} cannot be broadcast to {}", to_text(extents), to_text(new_extents)))
                  .with_hint("reshape the tensor so that each extent is 1 or equal to the new extent"));
}

}  // namespace ht::inline v1::layout
