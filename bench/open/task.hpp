// Open a file, read its last element or its first and last, close it.
#pragma once

#include <filesystem>

namespace ht::bench {

/// Accessing both ends of a large file makes the kernel allocate additional page tables for any mapping; one
/// element does not. Measuring both separates that cost from the library's.
enum class Access : bool { last_element, both_ends };

/// Returns the sum of the elements read, so that the compiler keeps the reads. NaN on failure.
float open_by_htensor(const std::filesystem::path& path, Access access);
/// The limit: plain system calls without checks, with a known data offset.
float open_by_mmap(const std::filesystem::path& path, Access access);

}  // namespace ht::bench
