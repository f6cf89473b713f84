// An Ascend NPU as a device: bf16 activations and key/value rows, int8 weights and index keys (the
// recipe W8A8C16 of A3).
#pragma once

#include <memory>
#include <string>

#include "backends/ascend/ascend_stream.h"
#include "backends/ascend/loader.h"
#include "base/result.h"
#include "device/device.h"

namespace cachalot::ascend {

struct AscendOptions {
  int32_t ordinal = 0;
  LibraryOptions libraries;
  AscendStreamOptions stream;
};

// kNotFound and kUnsupported as the loader and the runtime say: libraries, the device, operators.
Result<std::unique_ptr<Device>> NewAscendDevice(const AscendOptions& options);

}  // namespace cachalot::ascend
