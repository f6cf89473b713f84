#include "cli/flags.h"

#include <algorithm>

namespace cachalot {

std::vector<std::string> ReversedArguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") {
      break;
    }
    if (argument.rfind("--", 0) == 0) {
      const size_t end = std::min(argument.find('='), argument.size());
      std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
    }
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

}  // namespace cachalot
