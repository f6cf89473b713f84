// The program's log: lines on stderr, so that stdout stays the answer. Kernels never log.
#pragma once

#include <spdlog/spdlog.h>

#include "base/result.h"

namespace cachalot {

// Levels: trace, debug, info, warn, error, off. Where `level` is empty the environment's CACHALOT_LOG
// decides, and `otherwise` where that is unset.
Status SetUpLog(const std::string& level, const std::string& otherwise = "warn");

}  // namespace cachalot
