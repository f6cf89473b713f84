// An Ascend NPU's stream: copies, waits and graphs by the runtime, operators by ops/.
#pragma once

#include <memory>

#include "backends/ascend/op_context.h"
#include "device/device.h"

namespace cachalot::ascend {

struct AscendStreamOptions {
  StreamOptions runtime;
  OpOptions ops;
  // Core schedules by the host, where the operators' layout of them is known, else by the device.
  bool host_schedules = true;
  // Compares every step's metadata on the device with the host's, which waits. To find faults.
  bool verify_steps = false;
};

std::unique_ptr<Stream> NewAscendStream(std::shared_ptr<RuntimeDevice> device,
                                        const AscendStreamOptions& options);

}  // namespace cachalot::ascend
