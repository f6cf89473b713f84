#include "backends/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
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

// x [4, 2] on a device with a stream, and room for two rows picked from it.
class Capture : public testing::Test {
 protected:
  Capture() {
    std::vector<float> values(8);
    std::iota(values.begin(), values.end(), 0.0F);
    stream_->Upload(values.data(), x_.As(DType::kF32, {4, 2}));
  }

  void Pick(const std::vector<int32_t>& rows) {
    stream_->Upload(rows.data(), rows_.As(DType::kI32, {2}));
  }
  void IssueGather() {
    stream_->GatherRows({.src = x_.As(DType::kF32, {4, 2}),
                         .rows = rows_.As(DType::kI32, {2}),
                         .dst = y_.As(DType::kF32, {2, 2})});
  }
  std::vector<float> Values(const Buffer& buffer) {
    std::vector<float> values(4);
    stream_->Download(buffer.As(DType::kF32, {4}), values.data());
    EXPECT_TRUE(stream_->Synchronize());
    return values;
  }

  std::unique_ptr<Device> device_ = *NewCpuDevice({.num_threads = 2, .isa = {}});
  std::unique_ptr<Stream> stream_ = device_->NewStream();
  Buffer x_ = *device_->Allocate(32);
  Buffer rows_ = *device_->Allocate(8);
  Buffer y_ = *device_->Allocate(16);
  Buffer z_ = *device_->Allocate(16);
};
using CaptureDeathTest = Capture;

TEST_F(Capture, RecordsWithoutRunningAndReplaysOverWhatIsThere) {
  Pick({1, 3});
  stream_->BeginCapture();
  IssueGather();
  stream_->Copy(y_.As(DType::kF32, {4}), z_.As(DType::kF32, {2, 2}));
  const std::unique_ptr<Graph> graph = stream_->EndCapture();
  EXPECT_THAT(Values(y_), testing::ElementsAre(0, 0, 0, 0));

  stream_->Replay(*graph);
  EXPECT_THAT(Values(z_), testing::ElementsAre(2, 3, 6, 7));
  Pick({0, 2});
  EXPECT_THAT(Values(z_), testing::ElementsAre(2, 3, 6, 7));
  stream_->Replay(*graph);
  EXPECT_THAT(Values(z_), testing::ElementsAre(0, 1, 4, 5));

  Pick({3, 3});
  IssueGather();  // as ever after a capture
  EXPECT_THAT(Values(y_), testing::ElementsAre(6, 7, 6, 7));
}

TEST_F(Capture, KeepsGraphsApart) {
  stream_->BeginCapture();
  IssueGather();
  const std::unique_ptr<Graph> gather = stream_->EndCapture();
  stream_->BeginCapture();
  const std::unique_ptr<Graph> nothing = stream_->EndCapture();
  Pick({2, 1});
  stream_->Replay(*nothing);
  EXPECT_THAT(Values(y_), testing::ElementsAre(0, 0, 0, 0));
  stream_->Replay(*gather);
  EXPECT_THAT(Values(y_), testing::ElementsAre(4, 5, 2, 3));
}

TEST_F(CaptureDeathTest, TakesNothingOfTheHost) {
  int32_t value = 0;
  const Tensor device = rows_.As(DType::kI32, {1});
  EXPECT_DEATH(stream_->EndCapture(), "did not begin");
  stream_->BeginCapture();
  EXPECT_DEATH(stream_->Upload(&value, device), "an upload in a capture");
  EXPECT_DEATH(stream_->BeginStep({}), "a step begins in a capture");
  EXPECT_DEATH(stream_->Download(device, &value), "a download in a capture");
  EXPECT_DEATH((void)stream_->Synchronize(), "a wait in a capture");
  EXPECT_DEATH(stream_->BeginCapture(), "a capture in a capture");
}

}  // namespace
}  // namespace cachalot::cpu
