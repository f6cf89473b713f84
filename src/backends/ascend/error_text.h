// The vendor's codes as errors of ours.
#pragma once

#include <string_view>

#include "backends/ascend/symbol_table.h"
#include "base/result.h"

namespace cachalot::ascend {

// "what: AICORE_EXCEPTION (507015), a kernel failed: " and the calling thread's recent message, which
// this takes. kResourceExhausted where memory or handles ran out, else kDeviceFault.
Error ExplainCode(const SymbolTable& symbols, std::string_view what, int code);

}  // namespace cachalot::ascend
