// The completion parser over arbitrary bytes. The first three choose the mode, how it finishes and
// where to split; the rest is the completion. Whole or in two pieces or byte by byte, the events
// are the same, and what they promise holds.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "chat/completion.h"
#include "chat/markers.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

struct Setting {
  ThinkingMode mode;
  FinishReason reason;
  std::vector<std::string> stop;
};

std::vector<CompletionEvent> Parse(const Setting& setting,
                                   const std::vector<std::string_view>& pieces) {
  CompletionParser parser(setting.mode, {setting.stop});
  std::vector<CompletionEvent> events;
  for (const std::string_view piece : pieces) {
    for (CompletionEvent& event : parser.Push(piece)) {
      AppendEvent(events, std::move(event));
    }
  }
  for (CompletionEvent& event : parser.Finish(setting.reason)) {
    AppendEvent(events, std::move(event));
  }
  return events;
}

void CheckPromises(const std::vector<CompletionEvent>& events, FinishReason reason) {
  std::string arguments;
  bool is_open = false;
  for (const CompletionEvent& event : events) {
    CACHALOT_CHECK(event.text.find(kDsml) == std::string::npos, "markup in {}", event.text);
    CACHALOT_CHECK(!FindInvalidUtf8(event.text), "half a character");
    switch (event.kind) {
      case CompletionEvent::Kind::kCallStart:
        CACHALOT_CHECK(!is_open, "a call within a call");
        is_open = true;
        arguments.clear();
        break;
      case CompletionEvent::Kind::kCallArguments:
        arguments += event.text;
        break;
      case CompletionEvent::Kind::kCallEnd: {
        const auto json = ParseJson(arguments, "arguments");
        CACHALOT_CHECK(json && json->is_object(), "arguments {}", arguments);
        is_open = false;
        break;
      }
      default:
        CACHALOT_CHECK(!is_open, "text within a call");
    }
  }
  CACHALOT_CHECK(!is_open || reason != FinishReason::kEndOfSentence, "a call without an end");
}

void FuzzOne(std::string_view input) {
  if (input.size() < 3) {
    return;
  }
  const auto choice = static_cast<unsigned char>(input[0]);
  Setting setting;
  setting.mode = choice % 2 == 0 ? ThinkingMode::kChat : ThinkingMode::kThinking;
  setting.reason = choice / 2 % 2 == 0 ? FinishReason::kEndOfSentence : FinishReason::kLength;
  if (choice / 4 % 2 == 1) {
    setting.stop = {"\n\n", "a<", "ab"};
  }
  const std::string_view text = input.substr(3);
  const size_t split =
      (static_cast<unsigned char>(input[1]) * 256u + static_cast<unsigned char>(input[2])) %
      (text.size() + 1);
  const auto whole = Parse(setting, {text});
  CheckPromises(whole, setting.reason);
  CACHALOT_CHECK(Parse(setting, {text.substr(0, split), text.substr(split)}) == whole,
                 "split at {}", split);
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    bytes.push_back(text.substr(at, 1));
  }
  CACHALOT_CHECK(Parse(setting, bytes) == whole, "byte by byte");
}

}  // namespace
}  // namespace cachalot

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  cachalot::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
