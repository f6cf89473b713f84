#include "backends/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace cachalot::cpu {
namespace {

TEST(CpuDevice, SharesEachRowOnce) {
  for (const int threads : {1, 2, 5}) {
    auto device = NewCpuDevice({.num_threads = threads});
    ASSERT_TRUE(device);
    const std::unique_ptr<Stream> stream = (*device)->NewStream();
    for (const int64_t rows : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(rows));
      stream->ShareRows(rows, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          ++visits[static_cast<size_t>(row)];
        }
      });
      for (const auto& count : visits) {
        EXPECT_EQ(count, 1);
      }
    }
  }
}

}  // namespace
}  // namespace cachalot::cpu
