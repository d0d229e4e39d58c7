#include <htensor/convert/write.hpp>

#include <utility>

#include "base/format_text.hpp"
#include "convert/from_memory.hpp"
#include "format/ht/ht.hpp"

namespace ht::inline v1 {
namespace {

Result<void> write_file(const ConversionPlan& plan, const Pieces& pieces, std::vector<DTypeInfo> dtypes,
                        const WriteOptions& options) {
  HT_TRY(apply_from(plan, {.sources = {}, .pieces = &pieces},
                    {.if_exists = options.if_exists, .work = {.stop = options.stop}},
                    {.dtypes = std::move(dtypes), .port = options.port}));
  return {};
}

ConversionPlan plan_of(const std::filesystem::path& path, std::uint64_t bytes, Bytes header,
                       decltype(PlannedFile::finish) finish) {
  ConversionPlan plan;
  plan.target = path;
  plan.files.push_back({.path = path,
                        .bytes = bytes,
                        .header = {header.begin(), header.end()},
                        .parts = {},
                        .relayouts = {},
                        .finish = finish});
  return plan;
}

Result<void> write_ht(const std::filesystem::path& path, const format_ht::Header& header,
                      const DTypeInfo& dtype, const DataSource& source, bool is_dense,
                      const WriteOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    return write_file(
        plan_of(path, header.data_offset + header.data_bytes, format_ht::encode(header), format_ht::finish),
        {.source = source, .begin = header.data_offset, .bytes = header.data_bytes, .is_dense = is_dense},
        {dtype}, options);
  });
}

}  // namespace

Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                   std::span<const std::int64_t> dims, const DataSource& source,
                   const WriteOptions& options) {
  return write_ht(path, HT_TRY(format_ht::describe(dtype, dims)), dtype, source, false, options);
}

Result<void> write(const std::filesystem::path& path, const Encoded& file, const DataSource& source,
                   const WriteOptions& options) {
  if (file.header.size() > file.file_bytes) {
    return fail(
        ErrorCode::size_mismatch, "file_is_longer_than_its_header",
        format_text("the header has {} bytes but the file has {}", file.header.size(), file.file_bytes));
  }
  return without_bad_alloc([&]() -> Result<void> {
    return write_file(plan_of(path, file.file_bytes, file.header, file.finish),
                      {.source = source, .first = file.header.size(), .bytes = file.file_bytes}, {}, options);
  });
}

Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                   std::span<const std::int64_t> dims, Bytes data, const WriteOptions& options) {
  const auto header = HT_TRY(format_ht::describe(dtype, dims));
  if (header.data_bytes != data.size()) {
    return fail(
        ErrorCode::size_mismatch, "data_is_what_the_shape_needs",
        format_text("the shape needs {} bytes of data but {} were given", header.data_bytes, data.size()));
  }
  bool is_given = data.empty();
  const DataSource source = [&]() -> Result<std::optional<DataPiece>> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return DataPiece{0, data};
  };
  return write_ht(path, header, dtype, source, true, options);
}

}  // namespace ht::inline v1
