#include "io/strategy/parallel_pass.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/file_source.hpp"
#include "io/strategy/mapped_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::fetch_pages_test {
namespace {

using testing::Call;

// The file is large enough to try all methods with pieces of one page.
class FetchPages : public ::testing::Test {
 protected:
  static constexpr std::uint64_t page = 4096;
  static constexpr std::uint64_t file_bytes = 2048 * page;

  void SetUp() override {
    testing::write_file(path_, std::string(file_bytes, 'x'));
    mapped_.emplace(FileSource::open(path_, port_).value());
    files_ = {&*mapped_};
  }

  Result<FetchSummary> fetch(const FetchOptions& options = {.piece_bytes = page}) {
    pieces_.clear();
    const std::vector<FileRange> ranges{{0, 100, 300 * page}, {0, 400 * page, 1600 * page}};
    return fetch_pages(
        files_, ranges,
        [&](const FileRange& piece) -> Result<void> {
          pieces_.push_back(piece);
          return {};
        },
        options);
  }
  // Expects all bytes of both ranges, in order.
  void expect_all_pieces() const {
    ASSERT_EQ(pieces_.size(), 1900U);
    EXPECT_EQ(pieces_.front(), (FileRange{0, 100, page}));
    EXPECT_EQ(pieces_[300], (FileRange{0, 400 * page, page}));
    for (std::size_t i = 1; i < pieces_.size(); ++i) EXPECT_GT(pieces_[i].offset, pieces_[i - 1].offset);
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
  testing::FaultyPort port_;
  std::optional<MappedFile> mapped_;
  std::vector<MappedFile*> files_;
  std::vector<FileRange> pieces_;
};

TEST_F(FetchPages, delivers_every_piece_in_order) {
  ASSERT_TRUE(mapped_->advise(0, file_bytes, Strategy::Advice::evict));
  const auto fetched = fetch();
  ASSERT_TRUE(fetched);
  expect_all_pieces();
  EXPECT_GT(fetched->bytes_per_second, 0);
  // More calls than pieces: some pieces were fetched after a readahead call.
  EXPECT_GT(port_.count(Call::advise), 1900);
}

TEST_F(FetchPages, continues_if_advice_is_refused) {
  port_.fail_from(Call::advise, 0, std::errc::invalid_argument);
  ASSERT_TRUE(fetch());
  expect_all_pieces();
}

TEST_F(FetchPages, reports_the_lowest_page_that_cannot_be_read) {
  std::filesystem::resize_file(path_, 500 * page);
  for (const bool cached : {false, true}) {
    const auto fetched = fetch({.piece_bytes = page, .cached = cached});
    ASSERT_FALSE(fetched);
    EXPECT_EQ(fetched.error().code(), ErrorCode::changed_underfoot);
    EXPECT_EQ(fetched.error().offset(), 500 * page);
    EXPECT_EQ(pieces_.size(), 400U);
  }
}

TEST_F(FetchPages, returns_the_error_of_the_callback) {
  const std::vector<FileRange> ranges{{0, 0, file_bytes}};
  const auto fetched = fetch_pages(files_, ranges,
                                   [&](const FileRange& piece) -> Result<void> {
                                     if (piece.offset == 7 * page)
                                       return fail(Error(ErrorCode::internal, "test", "enough"));
                                     return {};
                                   },
                                   {.piece_bytes = page});
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().rule(), "test");
}

TEST_F(FetchPages, ends_on_a_stop_request) {
  std::stop_source source;
  source.request_stop();
  for (const bool cached : {false, true}) {
    const auto fetched = fetch({.piece_bytes = page, .cached = cached, .stop = source.get_token()});
    ASSERT_FALSE(fetched);
    EXPECT_EQ(fetched.error().code(), ErrorCode::cancelled);
  }
}

TEST_F(FetchPages, accepts_an_empty_list_of_ranges) {
  EXPECT_TRUE(fetch_pages(files_, {}, [](const FileRange&) -> Result<void> { return {}; }));
}

}  // namespace
}  // namespace ht::io::fetch_pages_test
