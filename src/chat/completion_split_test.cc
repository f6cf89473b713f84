// The completion parser against generated completions: any split of the bytes gives the same
// events, a strict parser of the published grammar agrees on well-formed ones, rendering undoes
// parsing, damage never crashes or leaks markup.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <random>

#include "chat/completion.h"
#include "chat/markers.h"
#include "chat/prompt.h"
#include "chat/python_json.h"
#include "chat/test_wording.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

// 500, or as many as CACHALOT_COMPLETIONS says.
std::uint64_t NumCompletions() {
  const char* count = std::getenv("CACHALOT_COMPLETIONS");
  return count != nullptr ? std::strtoull(count, nullptr, 10) : 500;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  size_t Below(size_t limit) { return static_cast<size_t>(random_() % limit); }

  // Unicode, escapes and what nearly is a mark; no newline at either end, where the parser may take
  // it for layout.
  std::string Text() {
    static constexpr const char* kPieces[] = {
        "word ",        "é",          "鲸鱼",       "🐳",
        "\"",           "\\",         "\n",         "\n\n",
        "\t",           "{\"a\": 1}", "<",          "</",
        "</thin",       "<think",     "<｜",        "<｜DSM",
        "｜",           "｜DSML",     "<｜end▁of▁", "invoke name=\"f\">",
        "</parameter>", ">",          "，",         "\x01",
        "tool_calls",   "＜"};
    std::string text = "t";
    for (size_t i = Below(6); i > 0; --i) {
      text += kPieces[Below(std::size(kPieces))];
    }
    text += ".";
    return text.find(kDsml) == std::string::npos ? text : Text();  // two pieces met as a mark
  }

  Message Answer() {
    Message message;
    message.role = Role::kAssistant;
    message.reasoning_content = Below(5) == 0 ? "" : Text();
    message.content = Below(3) == 0 ? "" : Text();
    for (size_t i = Below(4); i > 0; --i) {
      OrderedJson arguments = OrderedJson::object();
      for (size_t k = Below(4); k > 0; --k) {
        arguments[fmt::format("k{}{}", k, Below(4) == 0 ? "\"é" : "")] = Value();
      }
      message.tool_calls.push_back({"", "tool_" + std::to_string(i), DumpPythonJson(arguments)});
    }
    return message;
  }

 private:
  OrderedJson Value() {
    switch (Below(5)) {
      case 0:
        return OrderedJson(static_cast<std::int64_t>(random_()));
      case 1:
        return OrderedJson({{"list", {1, 2.5, Text(), nullptr}}});
      case 2:
        return OrderedJson(true);
      default:
        return OrderedJson(Text());
    }
  }

  std::mt19937_64 random_;
};

// The completion that an answer was, as history shows it to the model.
std::string Render(const Message& answer, ThinkingMode mode) {
  PromptOptions options;
  options.thinking_mode = mode;
  options.add_begin_of_sentence = false;
  return EncodeMessages({answer}, options, TestWording()).value().Text();
}

// Half the generated completions are damaged: pieces cut out, doubled, or replaced by marks.
std::string Damage(std::string text, Generator& generator) {
  static constexpr const char* kMarks[] = {"｜DSML｜",
                                           "<｜DSML｜",
                                           "</｜DSML｜parameter>",
                                           "</think>",
                                           "<｜DSML｜invoke name=\"g\">",
                                           "<｜DSML｜x",
                                           "\xff",
                                           "\xEF\xBD",
                                           "\"",
                                           ">",
                                           "\n",
                                           "<｜end▁of▁sentence｜>",
                                           "｜DS",
                                           "ML｜"};
  for (size_t i = 1 + generator.Below(4); i > 0 && !text.empty(); --i) {
    const size_t at = generator.Below(text.size());
    const size_t length = generator.Below(20);
    switch (generator.Below(4)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(generator.Below(text.size()), length));
        break;
      case 2:
        text.insert(at, kMarks[generator.Below(std::size(kMarks))]);
        break;
      default:
        text[at] = static_cast<char>(generator.Below(256));
    }
  }
  return text;
}

ThinkingMode ModeOf(std::uint64_t seed) {
  return seed % 3 == 0 ? ThinkingMode::kChat : ThinkingMode::kThinking;
}

std::string Completion(std::uint64_t seed) {
  Generator generator(seed);
  std::string text = Render(generator.Answer(), ModeOf(seed));
  return seed % 2 == 0 ? text : Damage(std::move(text), generator);
}

class Feed {
 public:
  Feed(ThinkingMode mode, std::vector<std::string> stop) : parser_(mode, {std::move(stop)}) {}
  void Push(std::string_view bytes) { Take(parser_.Push(bytes)); }
  std::vector<CompletionEvent> Finish(FinishReason reason) {
    Take(parser_.Finish(reason));
    return std::move(events_);
  }

 private:
  void Take(std::vector<CompletionEvent> events) {
    for (CompletionEvent& event : events) {
      AppendEvent(events_, std::move(event));
    }
  }
  CompletionParser parser_;
  std::vector<CompletionEvent> events_;
};

std::vector<CompletionEvent> Parse(std::string_view text, std::uint64_t seed, size_t split) {
  const auto stop =
      seed % 5 == 0 ? std::vector<std::string>{".\n", "鱼."} : std::vector<std::string>();
  Feed feed(ModeOf(seed), stop);
  feed.Push(text.substr(0, split));
  feed.Push(text.substr(split));
  return feed.Finish(seed % 4 == 1 ? FinishReason::kLength : FinishReason::kEndOfSentence);
}

TEST(CompletionSplit, GivesTheSameEventsForEveryByteSplit) {
  for (std::uint64_t seed = 0; seed < NumCompletions(); ++seed) {
    const std::string text = Completion(seed);
    const auto whole = Parse(text, seed, text.size());
    for (size_t split = 0; split < text.size(); ++split) {
      ASSERT_EQ(Parse(text, seed, split), whole)
          << "seed " << seed << " split at " << split << ": " << text;
    }
  }
}

TEST(CompletionSplit, GivesTheSameEventsByteByByte) {
  for (std::uint64_t seed = 1; seed < NumCompletions() * 4;
       seed += 5) {  // seeds without stop strings
    const std::string text = Completion(seed);
    Feed feed(ModeOf(seed), {});
    for (size_t at = 0; at < text.size(); ++at) {
      feed.Push(text.substr(at, 1));
    }
    ASSERT_EQ(feed.Finish(seed % 4 == 1 ? FinishReason::kLength : FinishReason::kEndOfSentence),
              Parse(text, seed, text.size()))
        << "seed " << seed << ": " << text;
  }
}

TEST(CompletionSplit, RenderingAndParsingUndoEachOther) {
  for (std::uint64_t seed = 0; seed < NumCompletions(); ++seed) {
    Generator generator(seed);
    const Message answer = generator.Answer();
    const ThinkingMode mode = ModeOf(seed);
    const std::string text = Render(answer, mode);
    const Message parsed = ParseMessage(ParseCompletion(text, mode), "parsed").value();
    EXPECT_EQ(parsed.reasoning_content,
              mode == ThinkingMode::kThinking ? answer.reasoning_content : "");
    EXPECT_EQ(parsed.content, answer.content);
    ASSERT_EQ(parsed.tool_calls.size(), answer.tool_calls.size()) << text;
    for (size_t i = 0; i < answer.tool_calls.size(); ++i) {
      EXPECT_EQ(parsed.tool_calls[i].name, answer.tool_calls[i].name);
      EXPECT_EQ(parsed.tool_calls[i].arguments, answer.tool_calls[i].arguments) << text;
    }
    EXPECT_EQ(Render(parsed, mode), text);
  }
}

TEST(CompletionSplit, DamageNeitherLeaksMarkupNorBreaksArguments) {
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    Generator generator(seed);
    const ThinkingMode mode = ModeOf(seed);
    const std::string text = Damage(Render(generator.Answer(), mode), generator);
    Feed feed(mode, {});
    feed.Push(text.substr(0, text.size() / 2));
    feed.Push(text.substr(text.size() / 2));
    std::string arguments;
    int open_calls = 0;
    for (const CompletionEvent& event : feed.Finish(FinishReason::kEndOfSentence)) {
      ASSERT_EQ(event.text.find(kDsml), std::string::npos) << "seed " << seed << ": " << text;
      ASSERT_FALSE(FindInvalidUtf8(event.text)) << "seed " << seed;
      if (event.kind == CompletionEvent::Kind::kCallStart) {
        ++open_calls;
      } else if (event.kind == CompletionEvent::Kind::kCallArguments) {
        arguments += event.text;
      } else if (event.kind == CompletionEvent::Kind::kCallEnd) {
        --open_calls;
        const auto json = ParseJson(arguments, "arguments");
        ASSERT_TRUE(json && json->is_object()) << "seed " << seed << ": " << arguments;
        arguments.clear();
      }
    }
    ASSERT_EQ(open_calls, 0) << "seed " << seed;
  }
}

// The published grammar, taken at its word; nothing where it is broken.
class StrictParser {
 public:
  static std::optional<OrderedJson> Parse(std::string_view text, ThinkingMode mode) {
    StrictParser parser(text);
    OrderedJson message = {{"role", "assistant"},
                           {"reasoning_content", ""},
                           {"content", ""},
                           {"tool_calls", OrderedJson::array()}};
    if (mode == ThinkingMode::kThinking) {
      const auto reasoning = parser.Until("</think>");
      if (!reasoning) {
        return std::nullopt;
      }
      message["reasoning_content"] = *reasoning;
    }
    if (const auto content = parser.Until("\n\n<｜DSML｜tool_calls>\n")) {
      message["content"] = *content;
      while (!parser.Take("</｜DSML｜tool_calls>")) {
        auto call = parser.Invoke();
        if (!call) {
          return std::nullopt;
        }
        message["tool_calls"].push_back(std::move(*call));
      }
      if (!parser.Take("<｜end▁of▁sentence｜>")) {
        return std::nullopt;
      }
    } else if (const auto rest = parser.Until("<｜end▁of▁sentence｜>")) {
      message["content"] = *rest;
    }
    return parser.text_.empty() ? std::optional(message) : std::nullopt;
  }

 private:
  explicit StrictParser(std::string_view text) : text_(text) {}

  bool Take(std::string_view expected) {
    const bool is_there = text_.starts_with(expected);
    text_.remove_prefix(is_there ? expected.size() : 0);
    return is_there;
  }
  std::optional<std::string> Until(std::string_view mark) {
    const size_t at = text_.find(mark);
    if (at == text_.npos) {
      return std::nullopt;
    }
    const std::string before(text_.substr(0, at));
    text_.remove_prefix(at + mark.size());
    return before;
  }
  std::optional<OrderedJson> Invoke() {
    if (!Take("<｜DSML｜invoke name=\"")) {
      return std::nullopt;
    }
    const auto name = Until("\">\n");
    std::string arguments = "{";
    Take("\n");  // no parameters: an empty line
    while (name && Take("<｜DSML｜parameter name=\"")) {
      const auto key = Until("\" string=\"");
      const bool is_string = Take("true\">");
      if (!key || (!is_string && !Take("false\">"))) {
        return std::nullopt;
      }
      const auto value = Until("</｜DSML｜parameter>\n");
      if (!value) {
        return std::nullopt;
      }
      arguments += (arguments.size() > 1 ? ", " : "") + DumpPythonJson(OrderedJson(*key)) + ": " +
                   (is_string ? DumpPythonJson(OrderedJson(*value)) : *value);
    }
    if (!name || !Take("</｜DSML｜invoke>\n")) {
      return std::nullopt;
    }
    return OrderedJson{{"type", "function"},
                       {"function", {{"name", *name}, {"arguments", arguments + "}"}}}};
  }

  std::string_view text_;
};

TEST(CompletionSplit, AgreesWithTheStrictGrammar) {
  for (std::uint64_t seed = 0; seed < 4 * NumCompletions(); ++seed) {
    Generator generator(seed);
    const ThinkingMode mode = ModeOf(seed);
    const std::string text = Render(generator.Answer(), mode);
    const auto strict = StrictParser::Parse(text, mode);
    ASSERT_TRUE(strict) << text;
    EXPECT_EQ(DumpJson(ParseCompletion(text, mode)), DumpJson(*strict)) << text;
  }
}

}  // namespace
}  // namespace cachalot
