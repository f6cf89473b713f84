// JSON as Python's json module reads and writes it, because prompts are made of its output:
// json.loads, then json.dumps(ensure_ascii=False). Differences from io/json.h that reach the
// prompt: integers of any size stay exact, NaN and Infinity are numbers, a lone surrogate is
// accepted (and becomes U+FFFD), floats print as Python's repr.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/json.h"

namespace cachalot {

// Reads a whole text. `source` names it in the error, with the byte where reading stopped. Nesting
// ends at 512 levels. Of a key that stands twice the first place and the last value stay. An
// integer beyond 64 bits is kept as its digits in a binary value that only DumpPythonJson
// understands.
Result<OrderedJson> ParsePythonJson(std::string_view text, const std::string& source);

// One line: ", " and ": " between things, raw UTF-8, escapes only for quote, backslash and what is
// below U+0020.
std::string DumpPythonJson(const OrderedJson& value);

// The inside of a JSON string, without the quotes. Escapes one byte at a time, so a text may come
// in pieces.
void AppendJsonEscaped(std::string& out, std::string_view text);
// repr(float): 1.0, 1e-05, 1e+16, NaN, Infinity.
std::string PythonFloat(double value);

}  // namespace cachalot
