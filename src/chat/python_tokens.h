// The tokens of a Python file, as far as finding its string constants needs them
// (python_constants.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cachalot {

struct PythonToken {
  enum class Kind {
    kName,
    kString,      // `text` is the value
    kOtherValue,  // a number, or a string whose value is not plain text: bytes, f-strings, \N{…}
                  // escapes
    kSymbol,      // one character
    kLineEnd,     // end of a logical line: not inside brackets, not after a backslash
  };
  Kind kind;
  std::string text;
  bool at_line_start;  // stands at column 0 of a line outside brackets
};

// Lines may end in \n, \r\n or \r. `text` must be UTF-8.
Result<std::vector<PythonToken>> ReadPythonTokens(std::string_view text, const std::string& source);

}  // namespace cachalot
