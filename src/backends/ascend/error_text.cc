#include "backends/ascend/error_text.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace cachalot::ascend {
namespace {

struct KnownCode {
  int code;
  const char* name;
  const char* meaning;
};

constexpr KnownCode kKnownCodes[] = {
#define CACHALOT_ACL_ERROR(code, name, meaning) {code, name, meaning},
#include "backends/ascend/error_codes.def"
#undef CACHALOT_ACL_ERROR
};

bool IsExhaustion(int code) {
  constexpr int kCodes[] = {200000, 207001, 207005, 207007, 207008, 207018};
  return std::ranges::find(kCodes, code) != std::end(kCodes);
}

// One line, however many the library has written.
std::string OneLine(const char* text) {
  std::string line = text == nullptr ? "" : text;
  std::ranges::replace(line, '\n', ' ');
  while (!line.empty() && line.back() == ' ') {
    line.pop_back();
  }
  return line;
}

}  // namespace

Error ExplainCode(const SymbolTable& symbols, std::string_view what, int code) {
  const auto known = std::ranges::find(kKnownCodes, code, &KnownCode::code);
  const std::string text = known == std::end(kKnownCodes)
                               ? fmt::format("code {}", code)
                               : fmt::format("{} ({}), {}", known->name, code, known->meaning);
  const std::string recent = OneLine(symbols.aclGetRecentErrMsg());
  return {IsExhaustion(code) ? StatusCode::kResourceExhausted : StatusCode::kDeviceFault,
          fmt::format("{}: {}{}{}", what, text, recent.empty() ? "" : ": ", recent)};
}

}  // namespace cachalot::ascend
