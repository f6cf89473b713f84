// The wording of a prompt belongs to the checkpoint, because releases differ: how tools are
// explained, how a response format is asked for, what stands in front for each reasoning effort.
// Loaded once per checkpoint, constant after that.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cachalot {

// A template cut at the place where the schemas go. The other placeholders, {dsml_token},
// {thinking_start_token} and {thinking_end_token}, are filled in already; {{ and }} stand for
// braces, as in Python's str.format.
struct WordingTemplate {
  struct Piece {
    std::string text;
    bool insert_after = false;
  };
  std::vector<Piece> pieces;
};

struct PromptWording {
  WordingTemplate tools_template;            // {tool_schemas}: one JSON line per tool
  WordingTemplate response_format_template;  // {schema}: one line of JSON
  // By level; an empty prefix is a level that is known and adds nothing.
  std::map<std::string, std::string, std::less<>> effort_prefixes;
  std::string default_effort;  // empty: no prefix
  std::string source;          // the file, for messages

  // The prefix of `level`, of the default where it is empty. An unknown level is an error that
  // lists the known ones.
  Result<std::string> EffortPrefix(std::string_view level) const;
};

// From the checkpoint's folder: prompt_format.json of our own form; else encoding/encoding_dsv4.py,
// of which only constants are read; else PlainWording(), which the log mentions.
Result<PromptWording> LoadPromptWording(const std::string& folder);

// {"tools_template": …, "response_format_template": …, "reasoning_effort": {LEVEL: PREFIX, …},
//  "default_reasoning_effort": LEVEL (optional)}
Result<PromptWording> WordingFromJson(std::string_view text, const std::string& source);

// From the module-level string constants of a published encoder, recognised by what they hold:
// - the tools template: the only string with {tool_schemas};
// - the response format: the only string with {schema};
// - effort: a dictionary from level to prefix whose name contains EFFORT, or strings named
//   …EFFORT_LEVEL (then "high" is known too and adds nothing unless it is named);
//   DEFAULT_…EFFORT names the default level.
Result<PromptWording> WordingFromPython(std::string_view text, const std::string& source);

PromptWording PlainWording();

}  // namespace cachalot
