// `embedding` reads only the requested rows: all pages without a byte of these rows are inaccessible.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <htensor/compute/embedding.hpp>
#include <vector>

#include "compute/nn/nn_test.hpp"

namespace ht::embedding_pages_test {
namespace {

using tests::must;
using tests::random_tensor;
using tests::same_bits;

const std::vector<std::int32_t> ids{17, 3, 17, 40};

/// A copy of stored rows. Only the pages of the rows `ids` can be read; access to another page ends the test.
class RowsInPages {
 public:
  RowsInPages(Bytes table, std::size_t rows) : bytes_(table.size()) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
    std::memcpy(memory_, table.data(), bytes_);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t row_bytes = bytes_ / rows;
    for (std::size_t at = 0; at < bytes_; at += page) {
      bool is_needed = false;
      for (const auto id : ids) {
        const std::size_t first = static_cast<std::size_t>(id) * row_bytes;
        is_needed = is_needed || (at < first + row_bytes && first < at + page);
      }
      if (is_needed) continue;
      EXPECT_EQ(mprotect(static_cast<std::byte*>(memory_) + at, page, PROT_NONE), 0);
      ++inaccessible_;
    }
  }
  RowsInPages(const RowsInPages&) = delete;
  RowsInPages& operator=(const RowsInPages&) = delete;
  ~RowsInPages() { munmap(memory_, bytes_); }

  [[nodiscard]] Storage storage() const {
    return must(Storage::borrowed_read_only({static_cast<const std::byte*>(memory_), bytes_}));
  }
  [[nodiscard]] int inaccessible_pages() const { return inaccessible_; }

 private:
  std::size_t bytes_;
  void* memory_;
  int inaccessible_ = 0;
};

constexpr std::int64_t count = 64;

template <class D>
void expect_reads_rows_of_dense() {
  SCOPED_TRACE(D::name);
  // Rows of half a page and of several pages.
  for (const std::int64_t columns : {2048 * 8 / D::bits, 12'000 * 8 / D::bits}) {
    const auto table = must(cast_lossy<D>(random_tensor<F32>(Rank<2>(count, columns), 1)));
    const auto bytes = must(table.bytes());
    const RowsInPages pages(bytes, count);
    EXPECT_GT(pages.inaccessible_pages(), 20);
    const auto view = must(Tensor<const D, Rank<2>>::over(pages.storage(), table.shape()));
    const auto expected = must(embedding(table, ids));
    EXPECT_TRUE(same_bits(must(embedding(view, ids)), expected));
    EXPECT_TRUE(same_bits(must(embedding(as<F32>(view), ids)), expected));
    // Columns that are not contiguous take another path.
    const auto reversed = must(view.template slice<1>(columns - 1, -1, -1));
    const auto rows = must(embedding(reversed, ids));
    EXPECT_TRUE(same_bits(must(rows.template slice<1>(columns - 1, -1, -1)), expected));
  }
}

template <class E>
void expect_reads_rows_of_blocks() {
  SCOPED_TRACE(E::name);
  const auto table = must(cast_lossy<E>(random_tensor<F32>(Rank<2>(count, 8192), 1)));
  const RowsInPages pages(table.bytes(), count);
  EXPECT_GT(pages.inaccessible_pages(), 20);
  const auto view = must(BlockTensor<E, Rank<2>>::over(pages.storage(), table.shape()));
  EXPECT_TRUE(same_bits(must(embedding(view, ids)), must(embedding(table, ids))));
  EXPECT_TRUE(same_bits(must(embedding<F64>(view, ids)), must(embedding<F64>(table, ids))));
}

TEST(EmbeddingPages, other_rows_are_not_read) {
  expect_reads_rows_of_dense<F32>();
  expect_reads_rows_of_dense<BF16>();
  expect_reads_rows_of_dense<F8_E4M3>();
  expect_reads_rows_of_dense<I4>();
  expect_reads_rows_of_blocks<Q8_0>();
  expect_reads_rows_of_blocks<Q4_K>();
  expect_reads_rows_of_blocks<Q6_K>();
}

}  // namespace
}  // namespace ht::embedding_pages_test
