// What the host pays for a step on an NPU before it is issued: core schedules.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace cachalot {

// Prints a table of medians, or JSON.
Status RunBenchSchedule(int64_t repetitions, bool json);

}  // namespace cachalot
