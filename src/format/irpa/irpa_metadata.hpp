// A model's metadata in an archive, which has no place of its own for it: the metadata of an entry to be
// skipped.
//
//   name "htensor.metadata"
//   metadata "METADATAv0:", u64 count, then as GGUF has them: u64 length and bytes of the key, u32 type, the
//   value
//
// IREE and others pass over such entries.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/metadata.hpp>
#include <string>
#include <string_view>

namespace ht::inline v1::format_irpa {

inline constexpr std::string_view metadata_name = "htensor.metadata";

/// `would_lose` for what could not be read back.
[[nodiscard]] Result<std::string> metadata_text(const Metadata& metadata);

/// Adds what the text says. `offset` is where its entry is, for the Error.
[[nodiscard]] Result<void> read_metadata_text(std::string_view text, std::uint64_t offset,
                                              Metadata& metadata);

}  // namespace ht::inline v1::format_irpa
