#include "chat/wording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "chat/prompt.h"
#include "chat/test_wording.h"

namespace cachalot {
namespace {

using testing::HasSubstr;

std::string Joined(const WordingTemplate& pieces) {
  std::string text;
  for (const WordingTemplate::Piece& piece : pieces.pieces) {
    text += piece.text + (piece.insert_after ? "@" : "");
  }
  return text;
}

constexpr const char* kPublishedShape = R"py("""Doc."""
import json
dsml_token: str = "｜DSML｜"
eos_token = "<end>"
assistant_template: str = "{reasoning}{content}" + eos_token
response_template: str = (
    "Format:\n{schema}"
)
REASONING_EFFORT_MAX = (
    "Try hard.\n"
    "Very hard.\n\n"
)
TOOLS = """Tools with {thinking_start_token}, e.g. {{x}}:
<{dsml_token}invoke>
{tool_schemas}
End.
"""
def f():
    return f"{x['tool_schemas']}"
)py";

TEST(Wording, ReadsAPublishedEncoder) {
  const auto wording = WordingFromPython(kPublishedShape, "e.py");
  ASSERT_TRUE(wording) << wording.error().message;
  EXPECT_EQ(Joined(wording->tools_template),
            "Tools with <think>, e.g. {x}:\n<｜DSML｜invoke>\n@\nEnd.\n");
  EXPECT_EQ(Joined(wording->response_format_template), "Format:\n@");
  EXPECT_EQ(wording->EffortPrefix("max"), "Try hard.\nVery hard.\n\n");
  EXPECT_EQ(wording->EffortPrefix("high"), "");
  EXPECT_EQ(wording->EffortPrefix(""), "");
  const auto unknown = wording->EffortPrefix("low");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "reasoning effort \"low\" is unknown: e.py has the levels high, max");
}

TEST(Wording, ReadsEffortsFromADictionary) {
  const auto wording = WordingFromPython(
      "F = '{schema}'\nT = '{tool_schemas}'\n"
      "REASONING_EFFORT_PROMPTS: Dict[str, str] = {'low': '', 'high': 'H', 'max': 'M'}\n"
      "DEFAULT_REASONING_EFFORT = 'high'\n",
      "e.py");
  ASSERT_TRUE(wording) << wording.error().message;
  EXPECT_EQ(wording->EffortPrefix(""), "H");
  EXPECT_EQ(wording->EffortPrefix("low"), "");
  EXPECT_EQ(wording->EffortPrefix("max"), "M");
}

struct FaultCase {
  const char* text;
  const char* message;
};

TEST(Wording, NamesWhatAPublishedEncoderLacks) {
  for (const auto& [text, message] : {
           FaultCase{"", "e.py: no module-level string constant holds {tool_schemas}"},
           FaultCase{"T = '{tool_schemas}'\n",
                     "e.py: no module-level string constant holds {schema}"},
           FaultCase{"T = '{tool_schemas}'\nU = 'a{tool_schemas}'\n",
                     "e.py: both T and U hold {tool_schemas}"},
           FaultCase{"T = '{tool_schemas}{y}'\n", "e.py: T: placeholder {y} at byte 14"},
           FaultCase{"T = '{tool_schemas} }'\n", "e.py: T: lone brace at byte 15"},
           FaultCase{"T = '{tool_schemas} {'\n", "e.py: T: lone brace at byte 15"},
           FaultCase{"dsml_token = 'D'\n", "e.py: dsml_token is \"D\", expected \"｜DSML｜\""},
           FaultCase{"T = '", "e.py: string of line 1 has no end"},
           FaultCase{"T = '{tool_schemas}'\nF = '{schema}'\nDEFAULT_EFFORT = 'x'\n",
                     "e.py: default effort \"x\" is none of the levels"},
       }) {
    const auto wording = WordingFromPython(text, "e.py");
    ASSERT_FALSE(wording) << text;
    EXPECT_THAT(wording.error().message, HasSubstr(message));
  }
}

TEST(Wording, NamesFaultsOfItsJsonForm) {
  for (
      const auto& [text, message] : {
          FaultCase{"[]", "w.json: array, expected an object"},
          FaultCase{"{", "w.json: JSON damaged"},
          FaultCase{"{}", "w.json: tools_template is missing, expected a string"},
          FaultCase{R"({"tools_template": 1})",
                    "w.json: tools_template is number, expected a string"},
          FaultCase{R"({"tools_template": "", "response_format_template": "{schema}"})",
                    "w.json: tools_template: placeholder {tool_schemas} is missing"},
          FaultCase{R"({"tools_template": "{tool_schemas}", "response_format_template": "{schema}",
                         "reasoning_effort": {"a": 1}})",
                    "w.json: reasoning_effort: a is number, expected a string"},
          FaultCase{R"({"tools_template": "{tool_schemas}", "response_format_template": "{schema}",
                         "reasoning_effort": []})",
                    "w.json: reasoning_effort is array, expected an object"},
          FaultCase{
              R"({"tools_template": "{tool_schemas}", "response_format_template": "{schema}", "x": 1})",
              "w.json: unknown key \"x\""},
          FaultCase{R"({"tools_template": "{tool_schemas}", "response_format_template": "{schema}",
                         "default_reasoning_effort": "x"})",
                    "w.json: default effort \"x\""},
      }) {
    const auto wording = WordingFromJson(text, "w.json");
    ASSERT_FALSE(wording) << text;
    EXPECT_THAT(wording.error().message, HasSubstr(message));
  }
}

TEST(Wording, SaysWhenThereAreNoEffortLevels) {
  const auto prefix = PlainWording().EffortPrefix("max");
  ASSERT_FALSE(prefix);
  EXPECT_EQ(prefix.error().message,
            "reasoning effort \"max\" is unknown: the plain wording has no levels");
}

class WordingFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/wording_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/encoding");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string folder_;
};

TEST_F(WordingFolder, PrefersOurOwnForm) {
  Write("encoding/encoding_dsv4.py", kPublishedShape);
  Write("prompt_format.json",
        R"({"tools_template": "own {tool_schemas}", "response_format_template": "{schema}"})");
  const auto wording = LoadPromptWording(folder_);
  ASSERT_TRUE(wording) << wording.error().message;
  EXPECT_EQ(Joined(wording->tools_template), "own @");
}

TEST_F(WordingFolder, ReadsThePublishedEncoder) {
  Write("encoding/encoding_dsv4.py", kPublishedShape);
  const auto wording = LoadPromptWording(folder_);
  ASSERT_TRUE(wording) << wording.error().message;
  EXPECT_THAT(Joined(wording->tools_template), HasSubstr("Tools with"));
}

TEST_F(WordingFolder, IsPlainWhereTheCheckpointHasNone) {
  const auto wording = LoadPromptWording(folder_);
  ASSERT_TRUE(wording) << wording.error().message;
  EXPECT_EQ(wording->source, "the plain wording");
  EXPECT_THAT(Joined(wording->tools_template), HasSubstr("<｜DSML｜tool_calls>"));
}

TEST_F(WordingFolder, DoesNotFallBackFromADamagedFile) {
  Write("encoding/encoding_dsv4.py", kPublishedShape);
  Write("prompt_format.json", "{");
  const auto wording = LoadPromptWording(folder_);
  ASSERT_FALSE(wording);
  EXPECT_THAT(wording.error().message, HasSubstr("prompt_format.json: JSON damaged"));
}

}  // namespace
}  // namespace cachalot
