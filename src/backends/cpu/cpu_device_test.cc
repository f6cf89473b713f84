#include "backends/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <vector>

namespace cachalot::cpu {
namespace {

// A hint has no result to look at: every byte is in some thread's part, and none outside is read.
TEST(CpuDevice, WarmsAnyNumberOfRows) {
  for (const int threads : {1, 2, 5}) {
    auto device = NewCpuDevice({.num_threads = threads});
    ASSERT_TRUE(device);
    const std::unique_ptr<Stream> stream = (*device)->NewStream();
    for (const int64_t rows : {0, 1, 2, 3, 1000}) {
      const std::vector<std::byte> bytes(static_cast<size_t>(rows) * 12);
      stream->WarmRows(bytes, rows);
    }
    EXPECT_TRUE(stream->Synchronize());
  }
}

}  // namespace
}  // namespace cachalot::cpu
