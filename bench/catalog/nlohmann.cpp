#include <nlohmann/json.hpp>

#include "bench/catalog/task.hpp"

namespace ht::bench {

std::size_t parse_by_nlohmann(std::string_view json) { return nlohmann::json::parse(json).size(); }

}  // namespace ht::bench
