// Reads the module-level constants of a Python file without running it. The file is a stranger's:
// whatever it says, reading takes time in proportion to its length and yields strings.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cachalot {

struct PythonConstants {
  std::map<std::string, std::string> strings;
  std::map<std::string, std::map<std::string, std::string>> dictionaries;  // string to string
};

// Understood are statements at column 0 of the form NAME = VALUE or NAME: TYPE = VALUE, where VALUE
// is made of string literals (any quotes, r and u prefixes, escapes), names of constants above,
// "+", implicit concatenation and parentheses, or is a dictionary of such. Anything else is passed
// over; a name bound again to something else is forgotten. Errors: not UTF-8, or a literal without
// an end, with its line.
Result<PythonConstants> ReadPythonConstants(std::string_view text, const std::string& source);

}  // namespace cachalot
