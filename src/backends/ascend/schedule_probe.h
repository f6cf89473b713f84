// Whether the attention that is installed shares its work out by the tables that
// attention_schedule.h makes. A package of another release has the same names and may have another
// table, which no lookup of names can tell.
#pragma once

#include <cstdint>
#include <span>

#include "backends/ascend/attention_schedule.h"
#include "backends/ascend/runtime_stream.h"
#include "base/result.h"

namespace cachalot::ascend {

// The table that the custom package's metadata operator makes of the lengths that BuildSchedule
// takes, heads of 512 channels. Waits.
Result<Schedule> ScheduleOfDevice(RuntimeStream& stream, const ScheduleProblem& problem,
                                  std::span<const int32_t> query_starts,
                                  std::span<const int32_t> kv_lengths);

// kUnsupported, with the first word that differs, where the device's table of a few requests is not
// the host's; for the custom package.
Status CheckSchedules(RuntimeStream& stream);
// The same of two tables; words that neither gives a meaning are left out.
Status CompareSchedules(const Schedule& of_device, const Schedule& of_host);

}  // namespace cachalot::ascend
