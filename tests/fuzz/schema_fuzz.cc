// A JSON schema and choices: after the first line, which is the schema, each byte picks one of the
// tokens allowed. Any text gives either an error of one line or an answer that can always go on, and
// is JSON when it ends.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "io/json.h"

namespace cachalot {
namespace {

constexpr int32_t kStop = 256;

std::shared_ptr<const GrammarVocabulary> Vocabulary() {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.emplace_back(1, static_cast<char>(byte));
  }
  for (const char* token : {"", "{\"", "\":", ",\"", "[[", "]]", "\"}", "ab", "\\u00", "12"}) {
    bytes.emplace_back(token);
  }
  return GrammarVocabulary::Make(bytes, {kStop}).value();
}

void Answer(const std::shared_ptr<CompiledGrammar>& grammar, std::string_view choices) {
  GrammarConstraint constraint(grammar);
  std::string text;
  bool more = true;
  for (const char choice : choices) {
    const auto mask = constraint.Allowed();
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < grammar->vocabulary().size(); ++id) {
      if ((mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0) {
        allowed.push_back(id);
      }
    }
    CACHALOT_CHECK(!allowed.empty(), "a dead end after {}", text);
    const int32_t id = allowed[static_cast<uint8_t>(choice) % allowed.size()];
    if (id == kStop) {
      break;
    }
    text += grammar->vocabulary().bytes(id);
    more = constraint.Accept(id);
    if (!more) {
      break;
    }
  }
  CACHALOT_CHECK(!constraint.is_complete() || ParseJson(text, "answer").has_value(), "{}", text);
}

}  // namespace
}  // namespace cachalot

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto vocabulary = cachalot::Vocabulary();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\n'), size);
  const auto schema = cachalot::ParseOrderedJson(text.substr(0, end), "schema");
  if (!schema) {
    return 0;
  }
  auto grammar = cachalot::GrammarOfJsonSchema(*schema);
  if (!grammar) {
    const std::string& message = grammar.error().message;
    CACHALOT_CHECK(!message.empty() && message.find('\n') == std::string::npos, "{}", message);
    return 0;
  }
  const auto compiled = cachalot::CompiledGrammar::Make(*std::move(grammar), vocabulary);
  CACHALOT_CHECK(compiled.has_value(), "{}", compiled.error().message);
  cachalot::Answer(*compiled, text.substr(end));
  return 0;
}
