// What a model says of itself, for people and as JSON.
#pragma once

#include <htensor/format/metadata.hpp>
#include <string>

namespace ht::cli {

/// Appends a value with its type: numbers as numbers, arrays as arrays, NaN and infinities as strings.
void append_json(std::string& out, const MetaValue& value);
/// Appends an object of all keys in file order.
void append_json(std::string& out, const Metadata& metadata);

/// A line: long texts are cut and say their length, long arrays say their type and length.
[[nodiscard]] std::string value_text(const MetaValue& value);
/// `key = value` a line; where there are very many keys, the first and how many more.
[[nodiscard]] std::string metadata_text(const Metadata& metadata);
/// All keys but padding, in columns: key, type, value.
[[nodiscard]] std::string aligned_text(const Metadata& metadata);

}  // namespace ht::cli
