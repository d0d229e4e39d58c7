// The files of an old set that a new one replaces.
#pragma once

#include <filesystem>
#include <htensor/convert/convert.hpp>
#include <vector>

namespace ht::inline v1 {

/// The files that a sharded plan removes because no new file has their names: the shards that the old index
/// names or, without an index, the files that are numbered as shards of the same name; and the index.
[[nodiscard]] Result<std::vector<std::filesystem::path>> shards_to_remove(const ConversionPlan& plan,
                                                                          io::Port& port);

/// Puts the files that a set is opened by before its other files, as a journal has them, each once.
void sort_old_files(std::vector<std::filesystem::path>& paths);

}  // namespace ht::inline v1
