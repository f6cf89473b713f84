// What chat reads from strangers. The first byte chooses: a request (JSON to messages to prompt), a
// published encoder's Python file, or a prompt_format.json; the rest is the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "chat/prompt.h"
#include "chat/python_json.h"
#include "chat/wording.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

void FuzzRequest(std::string_view text, unsigned choice) {
  static const PromptWording wording = PlainWording();
  const auto json = ParsePythonJson(text, "request");
  if (!json) {
    return;
  }
  // Written and read again, a value writes the same text.
  const std::string dumped = DumpPythonJson(*json);
  const auto again = ParsePythonJson(dumped, "again");
  CACHALOT_CHECK(again && DumpPythonJson(*again) == dumped, "{}", dumped);

  const auto messages = ParseChatInput(*json);
  if (!messages) {
    return;
  }
  PromptOptions options;
  options.thinking_mode = choice % 2 == 0 ? ThinkingMode::kThinking : ThinkingMode::kChat;
  options.drop_thinking = choice / 2 % 2 == 0;
  const size_t num_context = choice / 4 % 4;
  const auto begin =
      messages->begin() + static_cast<std::ptrdiff_t>(std::min(num_context, messages->size()));
  options.context.assign(messages->begin(), begin);
  const auto prompt = EncodeMessages({begin, messages->end()}, options, wording);
  CACHALOT_CHECK(prompt.has_value(), "messages that were accepted cannot be encoded");
  CACHALOT_CHECK(!FindInvalidUtf8(prompt->Text()), "the prompt is not UTF-8");
  for (size_t i = 0; i < prompt->segments().size(); ++i) {
    CACHALOT_CHECK(!prompt->segments()[i].text.empty(), "segment {} is empty", i);
    CACHALOT_CHECK(i == 0 || prompt->segments()[i].trusted != prompt->segments()[i - 1].trusted,
                   "segments {} and {} are of one kind", i - 1, i);
  }
}

void FuzzOne(std::string_view input) {
  if (input.empty()) {
    return;
  }
  const auto choice = static_cast<unsigned char>(input[0]);
  const std::string_view text = input.substr(1);
  if (choice % 4 == 0) {
    (void)WordingFromPython(text, "encoder");
  } else if (choice % 4 == 1) {
    (void)WordingFromJson(text, "format");
  } else {
    FuzzRequest(text, choice / 4);
  }
}

}  // namespace
}  // namespace cachalot

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  cachalot::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
