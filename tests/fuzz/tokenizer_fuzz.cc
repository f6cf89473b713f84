// The input is a tokenizer.json. Whatever loads must encode, and give back what it encoded.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "io/utf8.h"
#include "tokenizer/incremental_decoder.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cachalot;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = Tokenizer::Parse(input, "fuzz");
  if (!tokenizer) {
    CACHALOT_CHECK(tokenizer.error().message.find('\n') == std::string::npos, "more than one line");
    return 0;
  }
  // Some text that any tokenizer must take, and the file itself: it holds the spellings of its own
  // added tokens.
  const std::string text =
      "The <think> 1234\r\n\n  中文 é😀" + ReplaceInvalidUtf8(input.substr(0, 4096));
  for (const bool special_tokens : {true, false}) {
    const auto ids = tokenizer->Encode(text, {.special_tokens = special_tokens});
    if (!ids) {
      continue;  // a pattern that explodes on this text
    }
    CACHALOT_CHECK(tokenizer->Decode(*ids).value() == text, "decoded text differs");
    IncrementalDecoder decoder(*tokenizer);
    std::string streamed;
    for (const int32_t id : *ids) {
      CACHALOT_CHECK(special_tokens || !tokenizer->IsSpecial(id),
                     "special token {} from plain text", id);
      streamed += decoder.Push(id).value();
    }
    CACHALOT_CHECK(streamed + decoder.Finish() == text, "streamed text differs");
  }
  return 0;
}
