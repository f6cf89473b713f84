#include "chat/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cachalot {
namespace {

using testing::ElementsAre;

constexpr const char* kEnd = "<｜end▁of▁sentence｜>";

// Events as one line: R and C for reasoning and content, [name arguments] for a call, an unfinished
// one without "]".
std::string Line(ThinkingMode mode, std::string_view text,
                 FinishReason reason = FinishReason::kEndOfSentence,
                 CompletionOptions options = {}) {
  CompletionParser parser(mode, std::move(options));
  std::vector<CompletionEvent> events = parser.Push(text);
  for (CompletionEvent& event : parser.Finish(reason)) {
    AppendEvent(events, std::move(event));
  }
  std::string line;
  for (const CompletionEvent& event : events) {
    switch (event.kind) {
      case CompletionEvent::Kind::kReasoning:
        line += "R(" + event.text + ")";
        break;
      case CompletionEvent::Kind::kContent:
        line += "C(" + event.text + ")";
        break;
      case CompletionEvent::Kind::kCallStart:
        line += fmt::format("{}[{} ", event.call, event.text);
        break;
      case CompletionEvent::Kind::kCallArguments:
        line += event.text;
        break;
      case CompletionEvent::Kind::kCallEnd:
        line += "]";
        break;
    }
  }
  return line;
}

std::string Chat(std::string_view text) { return Line(ThinkingMode::kChat, text); }
std::string Thinking(std::string_view text) { return Line(ThinkingMode::kThinking, text); }
std::string Cut(std::string_view text) {
  return Line(ThinkingMode::kChat, text, FinishReason::kLength);
}

std::string Block(const std::string& inside) {
  return "\n\n<｜DSML｜tool_calls>\n" + inside + "</｜DSML｜tool_calls>";
}
std::string Invoke(const std::string& inside) {
  return "<｜DSML｜invoke name=\"f\">\n" + inside + "</｜DSML｜invoke>\n";
}
std::string Parameter(const std::string& key, const std::string& is_string,
                      const std::string& value) {
  return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + is_string + "\">" + value +
         "</｜DSML｜parameter>\n";
}

TEST(Completion, SeparatesReasoningAndContent) {
  EXPECT_EQ(Thinking("r</think>c"), "R(r)C(c)");
  EXPECT_EQ(Thinking("r</think>c" + std::string(kEnd)), "R(r)C(c)");
  EXPECT_EQ(Thinking("\n\nr\n\nr\n\n</think>\n\nc\n\nc\n"), "R(r\n\nr)C(c\n\nc\n)");
  EXPECT_EQ(Thinking("</think>c"), "C(c)");
  EXPECT_EQ(Thinking("only thoughts"), "R(only thoughts)");
  EXPECT_EQ(Chat("c"), "C(c)");
  EXPECT_EQ(Chat(""), "");
  EXPECT_EQ(Chat(kEnd), "");
}

TEST(Completion, DropsStrayThinkCloses) {
  EXPECT_EQ(Chat("</think>c"), "C(c)");
  EXPECT_EQ(Thinking("r</think>a</think>b"), "R(r)C(ab)");
  EXPECT_EQ(Chat("\n</think>\n\nc"), "C(c)");
}

TEST(Completion, TheEndMarkIsOneOnlyAtTheEnd) {
  EXPECT_EQ(Chat(std::string("a") + kEnd + "b" + kEnd), std::string("C(a") + kEnd + "b)");
  EXPECT_EQ(Chat(std::string("a\n") + kEnd + "\n"), "C(a\n)");
  EXPECT_EQ(
      Chat("<｜DSML｜invoke name=\"f\">\n" + Parameter("a", "true", "x" + std::string(kEnd) + "y")),
      std::string("0[f {\"a\": \"x") + kEnd + "y\"}]");
}

TEST(Completion, ReadsCalls) {
  EXPECT_EQ(Chat("c" + Block(Invoke(Parameter("a", "true", "x\"\\\n\té</b>") +
                                    Parameter("b", "false", "[1, {\"k\": null}]")))),
            R"(C(c)0[f {"a": "x\"\\\n\té</b>", "b": [1, {"k": null}]}])");
  EXPECT_EQ(Thinking("r</think>" + Block(Invoke("") + Invoke("\n"))), "R(r)0[f {}]1[f {}]");
  EXPECT_EQ(Chat(Block(Invoke(Parameter("a", "true", "")))), R"(0[f {"a": ""}])");
  EXPECT_EQ(
      Chat(Block(Invoke(Parameter("k\"y", "false", "-1.50e3") + Parameter("a>b", "true", "")))),
      R"(0[f {"k\"y": -1.50e3, "a>b": ""}])");
  EXPECT_EQ(Chat(Block("") + "more"), "");
}

TEST(Completion, AcceptsOtherNamesOfTheBlock) {
  EXPECT_EQ(Chat("<｜DSML｜function_calls>\n" + Invoke("") + "</｜DSML｜function_calls> more"),
            "0[f {}]");
  EXPECT_EQ(Chat("c\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter "
                 "name=\"a\" string=\"true\">x"
                 "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"),
            R"(C(c)0[f {"a": "x"}])");
  EXPECT_EQ(Chat("c\n" + Invoke("") + "lost"), "C(c)0[f {}]");
}

TEST(Completion, CallsEndReasoningToo) {
  EXPECT_EQ(Thinking("r" + Block(Invoke(""))), "R(r)0[f {}]");
  EXPECT_EQ(Thinking("r\n" + Invoke(Parameter("a", "false", "1"))), R"(R(r)0[f {"a": 1}])");
}

TEST(Completion, WhatIsNoJsonBecomesAString) {
  for (const char* value : {"x", "", "{\"a\": }", "1 2", "NaN", "'a'",
                            "\xEF\xBB\xBF"
                            "1"}) {
    std::string quoted;
    for (const char c : std::string(value)) {
      quoted += c == '"' ? "\\\"" : std::string(1, c);
    }
    EXPECT_EQ(Chat(Block(Invoke(Parameter("a", "false", value)))),
              fmt::format("0[f {{\"a\": \"{}\"}}]", quoted));
  }
  const std::string nul("1\0junk", 6);
  EXPECT_EQ(Chat(Block(Invoke(Parameter("a", "false", nul)))), R"(0[f {"a": "1\u0000junk"}])");
  EXPECT_EQ(Chat(Block(Invoke(
                "<｜DSML｜parameter name=\"a\">x</｜DSML｜parameter><｜DSML｜parameter name=\"b\">7"
                "</｜DSML｜parameter>"))),
            R"(0[f {"a": "x", "b": 7}])");
}

TEST(Completion, KeepsTheFirstOfARepeatedParameter) {
  EXPECT_EQ(Chat(Block(Invoke(Parameter("a", "true", "1") + Parameter("a", "false", "2") +
                              Parameter("b", "true", "3")))),
            R"(0[f {"a": "1", "b": "3"}])");
}

TEST(Completion, BearsMissingCloses) {
  const std::string open =
      "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x";
  EXPECT_EQ(Chat(open), R"(0[f {"a": "x"}])");
  EXPECT_EQ(Chat(open + "</｜DSML｜invoke>"), R"(0[f {"a": "x"}])");
  EXPECT_EQ(Chat(open + "</｜DSML｜tool_calls>y"), R"(0[f {"a": "x"}])");
  EXPECT_EQ(Chat(open + "</｜DSML｜param>\n</｜DSML｜invoke>"), R"(0[f {"a": "x"}])");
  EXPECT_EQ(Chat(open + Parameter("b", "false", "2")), R"(0[f {"a": "x", "b": 2}])");
  EXPECT_EQ(Chat(open + "<｜DSML｜invoke name=\"g\">"), R"(0[f {"a": "x"}]1[g {}])");
  EXPECT_EQ(Chat("<｜DSML｜invoke name=\"f\">\n<｜DSML｜invoke name=\"g\">\n"), "0[f {}]1[g {}]");
  EXPECT_EQ(Chat("<｜DSML｜invoke name=\"f\n" + Parameter("a", "true", "x")), R"(0[f {"a": "x"}])");
  EXPECT_EQ(Chat("<｜DSML｜invoke name=\"f\"\n" + Parameter("a", "true", "x")),
            R"(0[f {"a": "x"}])");
  EXPECT_EQ(Chat("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
                 "string=\"true\"</｜DSML｜parameter>"),
            R"(0[f {"a": ""}])");
  EXPECT_EQ(
      Chat("<｜DSML｜invoke>\n" + Parameter("a", "true", "x") + "<｜DSML｜invoke name=\"g\">"),
      "0[g {}]");
}

TEST(Completion, TakesArgumentsWrittenAsJson) {
  EXPECT_EQ(Chat(Block(Invoke("{\"a\": [1]}\n"))), R"(0[f {"a": [1]}])");
  EXPECT_EQ(Chat(Block(Invoke("[1]\n"))), "0[f {}]");
  EXPECT_EQ(Chat(Block(Invoke(std::string("{}\0x\n", 5)))), "0[f {}]");
}

TEST(Completion, MarkupNeverBecomesText) {
  EXPECT_EQ(Chat("a</｜DSML｜tool_calls>b"), "C(ab)");
  EXPECT_EQ(Chat("a<｜DSML｜parameter name=\"k\" string=\"true\">v</｜DSML｜parameter>b"),
            "C(avb)");
  EXPECT_EQ(Chat("a ｜DSML｜ b"), "C(a  b)");
  EXPECT_EQ(Chat("a<｜DSML｜other x=\"1\">b<｜DSML｜\nc"), "C(ab\nc)");
  EXPECT_EQ(Thinking("a<｜DSML｜other>b"), "R(ab)");
  EXPECT_EQ(Chat("｜DS<｜DSML｜other>ML｜"), "C(｜DSML)");
  EXPECT_EQ(Chat("a<｜DSML｜tool_ca"), "C(a)");
  EXPECT_EQ(Chat("a<｜DSML｜"), "C(a)");
  EXPECT_EQ(Chat(Block(Invoke(Parameter("a", "true", "x<｜DSML｜odd>y ｜DSML｜z")))),
            R"(0[f {"a": "xy z"}])");
}

TEST(Completion, NearMissesStayText) {
  for (const char* text : {"a<b", "</thin", "</thinking>", "<｜", "<｜DSM", "｜", "｜DSML",
                           "<｜end▁of", "，<", "<<</", "\n\nx\n<"}) {
    EXPECT_EQ(Chat(std::string("t") + text), fmt::format("C(t{})", text));
    EXPECT_EQ(Chat(std::string("t") + text + "!"), fmt::format("C(t{}!)", text));
  }
}

TEST(Completion, ACallCutByLengthStaysOpen) {
  EXPECT_EQ(Cut("<｜DSML｜invoke name=\"f"), "");
  EXPECT_EQ(Cut("<｜DSML｜invoke name=\"f\">"), "0[f ");
  EXPECT_EQ(Cut("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x</"),
            R"(0[f {"a": "x</)");
  EXPECT_EQ(Cut("<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"false\">[1"),
            R"(0[f {"a": [1)");
  EXPECT_EQ(Cut("<｜DSML｜invoke name=\"f\">\n" + Parameter("a", "true", "x")), R"(0[f {"a": "x")");
  EXPECT_EQ(Cut("a\n\n</thi"), "C(a\n\n</thi)");
}

TEST(Completion, StopStringsCountInContentAlone) {
  CompletionOptions options;
  options.stop = {"", "STOP", "\n\n"};
  const auto line = [&](std::string_view text) {
    return Line(ThinkingMode::kThinking, text, FinishReason::kStop, options);
  };
  EXPECT_EQ(line("a STOP b</think>c STOP d"), "R(a STOP b)C(c )");
  EXPECT_EQ(line("</think>a\n\nb"), "C(a)");
  EXPECT_EQ(line("</think>a STO"), "C(a STO)");
  EXPECT_EQ(line("</think>a ST" + Block(Invoke(Parameter("a", "true", "STOP")))),
            R"(C(a ST)0[f {"a": "STOP"}])");
  CompletionParser parser(ThinkingMode::kChat, options);
  EXPECT_TRUE(parser.Push("a ST").size() == 1 && !parser.has_stopped());
  EXPECT_TRUE(parser.Push("OP").empty());
  EXPECT_TRUE(parser.has_stopped());
}

TEST(Completion, GivesTextAsSoonAsItIsCertain) {
  CompletionParser parser(ThinkingMode::kChat);
  using Kind = CompletionEvent::Kind;
  EXPECT_THAT(parser.Push("a <"), ElementsAre(CompletionEvent{Kind::kContent, 0, "a "}));
  EXPECT_THAT(parser.Push("b"), ElementsAre(CompletionEvent{Kind::kContent, 0, "<b"}));
  EXPECT_TRUE(parser.Push("\n\n<｜DSML｜invoke name=\"f").empty());
  EXPECT_THAT(parser.Push("\">"), ElementsAre(CompletionEvent{Kind::kCallStart, 0, "f"}));
  EXPECT_THAT(parser.Push("<｜DSML｜parameter name=\"a\" string=\"true\">x"),
              ElementsAre(CompletionEvent{Kind::kCallArguments, 0, R"({"a": "x)"}));
  EXPECT_THAT(parser.Push("\xF0\x9F"), ElementsAre());
  EXPECT_THAT(parser.Push("\x90\xB3"), ElementsAre(CompletionEvent{Kind::kCallArguments, 0, "🐳"}));
  EXPECT_THAT(parser.Push("</｜DSML｜parameter></｜DSML｜invoke>"),
              ElementsAre(CompletionEvent{Kind::kCallArguments, 0, "\"}"},
                          CompletionEvent{Kind::kCallEnd, 0, ""}));
  EXPECT_EQ(parser.num_calls(), 1);
}

TEST(Completion, InvalidBytesBecomeReplacementCharacters) {
  EXPECT_EQ(Chat("a\xff"
                 "b\xE2\x82"),
            "C(a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD)");
}

TEST(Completion, ParsesAWholeMessage) {
  EXPECT_EQ(
      DumpJson(ParseCompletion("r</think>c" + Block(Invoke(Parameter("a", "false", "1"))),
                               ThinkingMode::kThinking)),
      R"({"role":"assistant","reasoning_content":"r","content":"c","tool_calls":[{"type":"function",)"
      R"("function":{"name":"f","arguments":"{\"a\": 1}"}}]})");
  EXPECT_EQ(DumpJson(ParseCompletion("c", ThinkingMode::kChat)),
            R"({"role":"assistant","reasoning_content":"","content":"c","tool_calls":[]})");
}

}  // namespace
}  // namespace cachalot
