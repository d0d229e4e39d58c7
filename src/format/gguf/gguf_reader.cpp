#include "format/gguf/gguf_reader.hpp"

#include "base/format_text.hpp"

namespace ht::inline v1::format_gguf {
namespace {

// What is asked for at first, and the least that is asked for at all.
constexpr std::uint64_t first_bytes = std::uint64_t{64} * 1024;

// Of headers with a vocabulary; Llama 3 has 57.
constexpr std::uint64_t vocabulary_bytes_per_token = 60;
// A count in a header decides about no more than this.
constexpr std::uint64_t max_guess = std::uint64_t{64} << 20;

}  // namespace

std::optional<Bytes> Reader::take(std::uint64_t bytes, std::string_view what) {
  if (bytes > left()) {
    stop(broken(ErrorCode::truncated, "header_is_all_there",
                format_text("header is incomplete: {} at byte {} needs {} bytes but the file has {} bytes",
                            what, at_, bytes, file_bytes_),
                file_bytes_));
    return std::nullopt;
  }
  if (!checked::range_fits(at_, bytes, max_header_bytes_)) {
    stop(Error(ErrorCode::header_too_large, "gguf_header_is_within_the_limit",
               format_text("header exceeds the limit of {} bytes: {} at byte {} has {} bytes",
                           max_header_bytes_, what, at_, bytes))
             .at_offset(at_)
             .with_hint("raise the limit with --max-header SIZE if you trust the file"));
    return std::nullopt;
  }
  if (bytes > seen_left()) {
    wanted_ = at_ + bytes;
    return std::nullopt;
  }
  const Bytes taken = seen_.subspan(at_, static_cast<std::size_t>(bytes));
  at_ += taken.size();
  return taken;
}

std::optional<std::string_view> Reader::text(std::string_view what) {
  const std::uint64_t begin = at_;
  const auto length = number<std::uint64_t>(what);
  if (!length) return std::nullopt;
  if (*length > max_text_bytes) {
    stop(broken(ErrorCode::bad_header, "gguf_strings_have_at_most_2_30_bytes",
                format_text("{} has {} bytes but the limit is {}", what, *length, max_text_bytes), begin));
    return std::nullopt;
  }
  const auto bytes = take(*length, what);
  if (!bytes) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

// Vocabularies are most of a header; this does nothing but add up lengths. It ends before a string that is
// not to be taken like the others.
template <std::endian Order>
std::uint64_t Reader::pass_texts(std::uint64_t count) noexcept {
  const Bytes seen =
      seen_.first(static_cast<std::size_t>(std::min<std::uint64_t>(seen_.size(), max_header_bytes_)));
  // Each address depends on the length before it, so the loop takes as long as a load and an addition: the
  // bytes of the lengths are added by the addressing.
  std::size_t at = at_;
  std::uint64_t passed = 0;
  for (; passed < count; ++passed) {
    const std::size_t begin = at + passed * least_text_bytes;
    if (begin + least_text_bytes > seen.size()) break;
    const auto length = load<std::uint64_t, Order>(seen.subspan(begin, least_text_bytes));
    if (length > std::min<std::uint64_t>(seen.size() - begin - least_text_bytes, max_text_bytes)) break;
    at += static_cast<std::size_t>(length);
  }
  at_ = at + passed * least_text_bytes;
  return passed;
}

bool Reader::skip_texts(std::uint64_t count, std::string_view what) {
  const std::size_t begin = at_;
  const std::uint64_t passed =
      order_ == ByteOrder::big ? pass_texts<std::endian::big>(count) : pass_texts<std::endian::little>(count);
  if (passed == count) return true;
  const std::uint64_t average = passed == 0 ? least_text_bytes : (at_ - begin) / passed + 1;
  const std::uint64_t rest = (count - passed) * average;
  // The next one cannot be taken, and this says why.
  static_cast<void>(text(what));
  // The types, scores and merges of a vocabulary follow it. Reading some bytes too many costs less than a
  // second walk.
  guess(std::min(max_guess, begin < first_bytes ? std::max(rest, count * vocabulary_bytes_per_token)
                                                : rest + rest / 16 + first_bytes));
  return false;
}

bool Reader::has_room_for(std::uint64_t count, std::uint64_t least, std::string_view what) {
  if (count <= left() / least) return true;
  stop(broken(ErrorCode::truncated, "gguf_counts_fit_in_the_file",
              format_text("header declares {} {} but only {} bytes follow", count, what, left()), at_));
  return false;
}

void Reader::guess(std::uint64_t bytes) noexcept {
  if (wanted_ != 0) wanted_ = std::max(wanted_, checked::add<std::uint64_t>(at_, bytes).value_or(0));
}

Result<Parsed> Reader::stopped() && {
  if (error_) return fail(*std::move(error_));
  const std::uint64_t larger = std::max<std::uint64_t>(first_bytes, 2 * seen_.size());
  return Need{0, std::min({std::max(wanted_, larger), file_bytes_, max_header_bytes_})};
}

}  // namespace ht::inline v1::format_gguf
