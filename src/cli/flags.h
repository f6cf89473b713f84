// How flags are spelled: words joined by - or by _, as people type them.
#pragma once

#include <string>
#include <vector>

namespace cachalot {

// The arguments after the program's name, last first as CLI11 takes them, with every _ in the name
// of a long flag made a
// -: "--max_tokens=4_0" becomes "--max-tokens=4_0". Nothing behind "--" is touched.
std::vector<std::string> ReversedArguments(int argc, const char* const* argv);

}  // namespace cachalot
