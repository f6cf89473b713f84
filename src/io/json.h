// JSON by nlohmann, without its exceptions. OrderedJson keeps the order of keys, as prompts need
// it; where a key stands twice, both keep the last value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cachalot {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// `source` names the text in the error: "config.json: JSON damaged at byte 17 of 40", counted from
// 1. The text is one value and blanks: anything else, a NUL or a byte-order mark included, is
// refused, and so is nesting deeper than 512 levels.
Result<Json> ParseJson(std::string_view text, const std::string& source);
Result<OrderedJson> ParseOrderedJson(std::string_view text, const std::string& source);
Result<Json> ReadJsonFile(const std::string& path, int64_t max_bytes);

// JSON text with invalid UTF-8 replaced by U+FFFD instead of an exception; indent < 0 means one
// line.
std::string DumpJson(const Json& value, int indent = -1);
std::string DumpJson(const OrderedJson& value, int indent = -1);

}  // namespace cachalot
