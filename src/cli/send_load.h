// Sends a load to an engine and keeps what a client would see of it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/serving_load.h"
#include "cli/serving_report.h"
#include "engine/engine.h"

namespace cachalot {

// Each request when it arrives, greedily and without stops, so that its answer has output_tokens
// tokens; with max_concurrency (0: without bound), not before one of so many has ended. Returns
// when all have. Times are seconds since the call; a request that was held back arrives when it is
// let go. One that the engine refuses or cuts short has failed.
std::vector<RequestRecord> SendLoad(
    Engine& engine, std::vector<LoadRequest> requests, int64_t max_concurrency,
    const std::function<void(int64_t ended, int64_t total)>& progress);

}  // namespace cachalot
