// What an engine does and holds, for /metrics and /server_info.
#pragma once

#include "engine/engine.h"
#include "io/json.h"
#include "metrics/server_metrics.h"

namespace cachalot {

EngineGauges GaugesOf(const Engine& engine);
// {requests: {running, waiting, …}, cache: {pools: [{name, used, total}], prefix: {…}, …}, steps: {…}}
OrderedJson EngineInfo(const Engine& engine);

}  // namespace cachalot
