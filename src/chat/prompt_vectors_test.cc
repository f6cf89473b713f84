// The published encoding vectors. Their tools wording is the checkpoint's, so the test takes it
// from the vectors too.
#include <gtest/gtest.h>

#include <filesystem>

#include "chat/prompt.h"
#include "chat/python_json.h"
#include "io/file.h"

namespace cachalot {
namespace {

constexpr std::int64_t kMaxBytes = 1 << 20;

std::string DataFile(const std::string& name) {
  return CACHALOT_SOURCE_DIR "/../shared/data/encoding/" + name;
}

std::string Read(const std::string& name) { return ReadFile(DataFile(name), kMaxBytes).value(); }

// The text from the first `begin` to the end of the next `end`.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  const size_t to = text.find(end, from);
  EXPECT_NE(from, std::string::npos) << begin;
  EXPECT_NE(to, std::string::npos) << end;
  return text.substr(from, to + end.size() - from);
}

PromptWording WordingOfVectors() {
  const std::string text = Read("test_output_1.txt");
  const std::string head = Between(text, "## Tools", "### Available Tool Schemas\n\n");
  const std::string tail = Between(text, "\n\nYou MUST strictly", ".\n");
  // Lengths of the published template's two parts.
  EXPECT_EQ(head.size(), 890);
  EXPECT_EQ(tail.size(), 99);
  PromptWording wording = PlainWording();
  wording.tools_template.pieces = {{head, true}, {tail, false}};
  return wording;
}

class PublishedVectors : public testing::TestWithParam<int> {};

TEST_P(PublishedVectors, AreEncodedByteForByte) {
  const int number = GetParam();
  const std::string input_name = fmt::format("test_input_{}.json", number);
  if (!std::filesystem::exists(DataFile(input_name))) {
    GTEST_SKIP() << DataFile(input_name) << " is absent";
  }
  const auto json = ParsePythonJson(Read(input_name), input_name);
  ASSERT_TRUE(json) << json.error().message;
  const auto messages = ParseChatInput(*json);
  ASSERT_TRUE(messages) << messages.error().message;
  PromptOptions options;
  options.thinking_mode = number == 4 ? ThinkingMode::kChat : ThinkingMode::kThinking;
  const auto prompt = EncodeMessages(*messages, options, WordingOfVectors());
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->Text(), Read(fmt::format("test_output_{}.txt", number)));
}

INSTANTIATE_TEST_SUITE_P(All, PublishedVectors, testing::Range(1, 5));

}  // namespace
}  // namespace cachalot
