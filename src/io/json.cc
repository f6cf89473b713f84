#include "io/json.h"

#include "io/file.h"

namespace cachalot {
namespace {

// nlohmann's tree has no depth limit, and a tree some 100,000 levels deep overflows the stack when
// it is copied.
constexpr int kMaxDepth = 512;

template <typename J>
Result<J> Parse(std::string_view text, const std::string& source) {
  // nlohmann would take a NUL for the end of the text, whatever follows it, and skip a byte-order
  // mark.
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    return MakeError(StatusCode::kInvalidArgument, "{}: JSON damaged at byte {} of {}: a NUL byte",
                     source, nul + 1, text.size());
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{}: JSON begins with a byte-order mark, expected UTF-8 without one", source);
  }
  bool too_deep = false;
  const auto callback = [&](int depth, typename J::parse_event_t, J&) {
    too_deep = too_deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  try {
    J value = J::parse(text.begin(), text.end(), callback);
    if (too_deep) {
      return MakeError(StatusCode::kInvalidArgument, "{}: JSON nested deeper than {}", source,
                       kMaxDepth);
    }
    return value;
  } catch (const nlohmann::json::parse_error& error) {
    return MakeError(StatusCode::kInvalidArgument, "{}: JSON damaged at byte {} of {}", source,
                     error.byte, text.size());
  } catch (const nlohmann::json::exception& error) {
    return MakeError(StatusCode::kInvalidArgument, "{}: JSON out of bounds: {}", source,
                     error.what());
  }
}

}  // namespace

Result<Json> ParseJson(std::string_view text, const std::string& source) {
  return Parse<Json>(text, source);
}

Result<OrderedJson> ParseOrderedJson(std::string_view text, const std::string& source) {
  return Parse<OrderedJson>(text, source);
}

Result<Json> ReadJsonFile(const std::string& path, int64_t max_bytes) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_bytes));
  return ParseJson(text, path);
}

std::string DumpJson(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string DumpJson(const OrderedJson& value, int indent) {
  return value.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace cachalot
