#include <simdjson.h>

#include "bench/catalog/task.hpp"

namespace ht::bench {

std::size_t parse_by_simdjson(std::string_view padded_json) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const auto error = parser.parse(padded_json.data(), padded_json.size(), false).get(object);
  return error == simdjson::SUCCESS ? object.size() : 0;
}

}  // namespace ht::bench
