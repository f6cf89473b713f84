// Cuts a completion into text and marks: the lower half of the completion parser, with no idea of
// what a mark means where. Bytes come in any split; the sequence of tokens is the same but for
// where text tokens are cut.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/utf8.h"

namespace cachalot {

struct CompletionToken {
  enum class Kind {
    kText,           // whole characters, no newline
    kNewline,        // one
    kThinkClose,     // </think>
    kEndOfSentence,  // the end mark as text; only at the very end it is one
    kTag,  // [<[/]]｜DSML｜[ ]NAME up to the end of the name; attributes and ">" follow as text
  };
  // kToolCalls is any wrapper: "tool_calls", "calls", "function_calls".
  enum class Name { kToolCalls, kInvoke, kParameter, kUnknown };
  enum class Form { kOpening, kClosing, kBare };  // <｜DSML｜  </｜DSML｜  ｜DSML｜

  Kind kind = Kind::kText;
  std::string text;            // as it came, of an unknown tag without the name
  Name name = Name::kUnknown;  // of a tag
  Form form = Form::kBare;
};

class CompletionLexer {
 public:
  std::vector<CompletionToken> Push(std::string_view bytes);
  // What is left at the end: a piece of a mark becomes text, unless it holds ｜DSML｜, then it is
  // dropped.
  std::vector<CompletionToken> Finish();

 private:
  std::vector<CompletionToken> Scan();

  Utf8Stream stream_;
  std::string held_;  // at most the longest proper prefix of a mark between pushes
};

}  // namespace cachalot
