// The program's log: lines on stderr, so that stdout stays the answer. Kernels never log.
#pragma once

#include <spdlog/spdlog.h>

#include "base/result.h"

namespace cachalot {

// Levels: trace, debug, info, warn, error, off. The environment's CACHALOT_LOG sets the default
// (warn where unset).
Status SetUpLog(const std::string& level);

}  // namespace cachalot
