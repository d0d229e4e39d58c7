// Opens a small and an enormous file and prints the cost of each. Then seals a model, flips a bit in a copy
// and detects the flipped bit. Then converts the model between three formats.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <htensor/htensor.hpp>
#include <optional>
#include <string>
#include <vector>

namespace {

struct Cost {
  std::uint64_t file_bytes = 0;
  double microseconds = 0;
  std::int64_t resident_bytes = 0;
  std::int64_t page_faults = 0;
  float first = 0;
  float last = 0;
};

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// Writes a square matrix whose corners are 1.5 and 2.5; the rest is a hole in the file.
ht::Result<void> make(const std::filesystem::path& path, std::int64_t side) {
  const float corners[2] = {1.5F, 2.5F};
  const auto bytes = std::as_bytes(std::span(corners));
  const auto end = static_cast<std::uint64_t>(side * side) * sizeof(float);
  std::vector<ht::DataPiece> pieces{{0, bytes.first(4)}, {end - 4, bytes.last(4)}};
  std::size_t next = 0;
  const std::vector<std::int64_t> dims{side, side};
  return ht::write(path, ht::dtype_info<ht::F32>(), dims, [&]() -> ht::Result<std::optional<ht::DataPiece>> {
    if (next == pieces.size()) return std::nullopt;
    return pieces[next++];
  });
}

ht::Result<Cost> open_and_read(const std::filesystem::path& path) {
  Cost cost;
  const auto resident = resident_bytes();
  const auto faults = page_faults();
  const auto start = std::chrono::steady_clock::now();

  const auto model = HT_TRY(ht::Model::open(path));
  const auto matrix = HT_TRY(model.tensor<ht::F32, ht::Rank<2>>(model.catalog()[0].name));
  cost.first = HT_TRY(matrix.at(0, 0));
  cost.last = HT_TRY(matrix.at(matrix.extent(0) - 1, matrix.extent(1) - 1));

  const auto end = std::chrono::steady_clock::now();
  cost.microseconds = std::chrono::duration<double, std::micro>(end - start).count();
  cost.page_faults = page_faults() - faults;
  cost.resident_bytes = resident_bytes() - resident;
  cost.file_bytes = std::filesystem::file_size(path);
  return cost;
}

// Returns the fastest of several runs, to exclude noise from other processes.
ht::Result<Cost> best_of(int times, const std::filesystem::path& path) {
  Cost best = HT_TRY(open_and_read(path));
  for (int i = 1; i < times; ++i) {
    const Cost cost = HT_TRY(open_and_read(path));
    if (cost.microseconds < best.microseconds) best = cost;
  }
  return best;
}

void print_row(const char* label, const std::string& small, const std::string& large) {
  std::printf("  %-26s %16s %16s\n", label, small.c_str(), large.c_str());
}

std::string text(const char* format, auto value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

// Writes a model of a few layers as safetensors, 4 MiB per tensor.
ht::Result<void> make_layers(const std::filesystem::path& path) {
  const std::vector<std::int64_t> dims{1024, 1024};
  const std::vector<float> weights(1024 * 1024, 0.5F);
  ht::CatalogBuilder builder("safetensors");
  for (int layer = 0; layer < 8; ++layer) {
    const auto name = "blk." + std::to_string(layer) + ".attn_q.weight";
    HT_TRY(builder.add({.name = name, .dtype = ht::F32::tag, .dims = dims, .bytes = 4 * weights.size()}));
  }
  const auto catalog = HT_TRY(std::move(builder).build());
  const auto file = HT_TRY(ht::encode("safetensors", catalog));
  std::size_t next = 0;
  return ht::write(path, file, [&]() -> ht::Result<std::optional<ht::DataPiece>> {
    if (next == file.offsets.size()) return std::nullopt;
    return ht::DataPiece{*file.offsets[next++], std::as_bytes(std::span(weights))};
  });
}

// Seals a model, flips one bit of a copy, and detects it.
ht::Result<void> detect_flipped_bit(const std::filesystem::path& folder) {
  const auto good = folder / "model.safetensors";
  const auto copy = folder / "copy.safetensors";
  HT_TRY(make_layers(good));
  const auto model = HT_TRY(ht::Model::open(good));
  const auto sealed = HT_TRY(ht::seal(model));
  std::printf("\n  model.safetensors sealed: 8 tensors, 32 MiB, crc64nvme %s\n",
              to_hex(sealed.digest).c_str());
  std::filesystem::copy_file(good, copy);
  std::filesystem::copy_file(sealed.seal, ht::seal_path(copy));

  const auto start = std::chrono::steady_clock::now();
  const auto before = HT_TRY(ht::compare_with_seal(copy));
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  std::printf("  copy verified in %.1f ms: %s\n", elapsed.count(),
              std::string(to_string(before.verdict)).c_str());

  const std::uint64_t at = model.catalog()[5].offset + 1234;
  std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
  file.close();
  const auto after = HT_TRY(ht::compare_with_seal(copy));
  if (!before.is_intact() || after.bad.size() != 1 || after.bad[0].tensor != model.catalog()[5].name) {
    return ht::fail(ht::ErrorCode::internal, "flipped_bit_is_found", "the flipped bit was not found");
  }
  std::printf("  one bit flipped: %s, in tensor %s, bytes %llu to %llu\n",
              std::string(to_string(after.verdict)).c_str(), after.bad[0].tensor.c_str(),
              static_cast<unsigned long long>(after.bad[0].offset),
              static_cast<unsigned long long>(after.bad[0].offset + after.bad[0].bytes - 1));
  return {};
}

// Converts safetensors to an IREE archive and to GGUF, then the GGUF file to another archive. Checks that
// every tensor is the same.
ht::Result<void> convert_and_compare(const std::filesystem::path& folder) {
  const auto source = HT_TRY(ht::Model::open(folder / "model.safetensors"));
  const std::pair<const char*, const char*> steps[] = {{"model.safetensors", "model.irpa"},
                                                       {"model.safetensors", "model.gguf"},
                                                       {"model.gguf", "from_gguf.irpa"}};
  std::printf("\n");
  for (const auto& [from, to] : steps) {
    const auto start = std::chrono::steady_clock::now();
    const auto model = HT_TRY(ht::Model::open(folder / from));
    HT_TRY(ht::convert(model, folder / to));
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    const auto differences = HT_TRY(ht::diff(source, HT_TRY(ht::Model::open(folder / to))));
    if (!differences.is_same()) {
      return ht::fail(ht::ErrorCode::internal, "converted_tensors_are_equal",
                      "a converted tensor differs from its source");
    }
    std::printf("  %-17s to %-14s written and synced in %5.1f ms, all tensors equal\n", from, to,
                elapsed.count());
  }
  return {};
}

ht::Result<void> run(const std::filesystem::path& folder) {
  const auto small_path = folder / "small.ht";
  const auto large_path = folder / "large.ht";
  HT_TRY(make(small_path, std::int64_t{1} << 9));
  HT_TRY(make(large_path, std::int64_t{1} << 19));
  const Cost small = HT_TRY(best_of(50, small_path));
  const Cost large = HT_TRY(best_of(50, large_path));

  print_row("", "small.ht", "large.ht");
  print_row("size of the F32 matrix", "1 MiB", "1 TiB");
  print_row("open, read both corners", text("%.1f us", small.microseconds),
            text("%.1f us", large.microseconds));
  print_row("resident memory grew by", text("%lld KiB", static_cast<long long>(small.resident_bytes / 1024)),
            text("%lld KiB", static_cast<long long>(large.resident_bytes / 1024)));
  print_row("page faults", text("%lld", static_cast<long long>(small.page_faults)),
            text("%lld", static_cast<long long>(large.page_faults)));
  print_row("first element", text("%g", static_cast<double>(small.first)),
            text("%g", static_cast<double>(large.first)));
  print_row("last element", text("%g", static_cast<double>(small.last)),
            text("%g", static_cast<double>(large.last)));
  HT_TRY(detect_flipped_bit(folder));
  HT_TRY(convert_and_compare(folder));
  const bool right = small.first == 1.5F && small.last == 2.5F && large.first == 1.5F && large.last == 2.5F;
  if (!right)
    return ht::fail(ht::ErrorCode::internal, "corners_match_the_written_values",
                    "a corner differs from the written value");
  return {};
}

}  // namespace

int main() {
  std::string name = (std::filesystem::temp_directory_path() / "htensor-demo-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    std::perror("htensor_demo: cannot create a temporary folder");
    return 2;
  }
  const auto done = run(name);
  std::filesystem::remove_all(name);
  if (done) return 0;
  std::fprintf(stderr, "htensor_demo: %s\n", to_string(done.error()).c_str());
  if (const std::string hint(done.error().hint()); !hint.empty())
    std::fprintf(stderr, "  hint: %s\n", hint.c_str());
  return 2;
}
