// Metadata as text and as JSON. Padding that an edit left in a header is not shown.
#pragma once

#include <htensor/format/metadata.hpp>
#include <string>

#include "cli/print/output.hpp"

namespace ht::cli {

/// Appends a value with its type: numbers as numbers, arrays as arrays, NaN and infinities as strings.
void append_json(OutputBuffer& out, const MetaValue& value);
/// Appends an object of all keys in file order.
void append_json(OutputBuffer& out, const Metadata& metadata);

/// One line: long strings are truncated and followed by their length. Long arrays, and arrays of strings or
/// of arrays, are shown as type and length.
[[nodiscard]] std::string value_text(const MetaValue& value);
/// Appends `key = value` lines and an empty line; nothing for empty metadata. With `whole`, shows all keys
/// and complete values. Otherwise shows the first hundred keys with values from `value_text`, in lines of at
/// most `max_columns` (0: unlimited), and the number of further keys.
void append_lines(OutputBuffer& out, const Metadata& metadata, bool whole, std::size_t max_columns = 0);
/// All keys except padding, in columns: key, type, value. Lines wider than `max_columns` are shortened (0:
/// unlimited).
[[nodiscard]] std::string aligned_text(const Metadata& metadata, std::size_t max_columns = 0);

}  // namespace ht::cli
