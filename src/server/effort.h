// Reasoning efforts: what clients say, in the levels that a checkpoint has a wording for.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/wording.h"

namespace cachalot {

// The level of that name, or the nearest of minimal, low, medium, high, xhigh, max, the lower one of two;
// empty, the wording's own default, where it knows none of these. kInvalidArgument for any other
// name that the wording does not know.
Result<std::string> EffortLevel(const PromptWording& wording, std::string_view effort);

}  // namespace cachalot
