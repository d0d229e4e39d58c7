// Open a file, read its last element or both its ends, close it.
#pragma once

#include <filesystem>

namespace ht::bench {

/// Two far ends of a large file need page tables of their own from the kernel, whoever maps it; one
/// element does not. Both are measured, to tell what is whose.
enum class Look : bool { last_element, both_ends };

/// What was read, added up: so that nothing can be left out. A failure is NaN.
float open_by_htensor(const std::filesystem::path& path, Look look);
/// The limit: the bare system calls, which check nothing and know where the data lies.
float open_by_mmap(const std::filesystem::path& path, Look look);

}  // namespace ht::bench
