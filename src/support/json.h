// What a result that may be missing looks like in JSON: null, never a made-up number.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace nru {

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace nru
