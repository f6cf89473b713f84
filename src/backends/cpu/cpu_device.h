// The CPU as a Device: operators run when they are issued, memory is the host's.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/device.h"

namespace cachalot::cpu {

struct CpuOptions {
  int num_threads = 0;  // 0: one for each core that the calling thread may use
  std::string
      isa;  // ref, avx2, avx512 or amx; empty: the best of the machine, capped by CACHALOT_MAX_ISA
};

Result<std::unique_ptr<Device>> NewCpuDevice(const CpuOptions& options);

}  // namespace cachalot::cpu
