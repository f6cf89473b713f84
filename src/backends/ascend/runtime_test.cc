#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/ascend/emulator_scene.h"
#include "backends/ascend/library_search.h"
#include "backends/ascend/op_call.h"
#include "backends/ascend/runtime_device.h"
#include "backends/ascend/runtime_stream.h"

namespace cachalot::ascend {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Small enough that a few values fill it.
constexpr StreamOptions kTinyStaging = {.upload_slots = 2, .slot_bytes = 64, .download_bytes = 128};

std::vector<float> Count(int64_t n, float first) {
  std::vector<float> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), first);
  return values;
}

struct Order {
  const char* schedule;
  int seed;
};
void PrintTo(const Order& order, std::ostream* out) { *out << order.schedule << order.seed; }

// A device with a stream, whatever the order in which the device does what it may.
class OnEveryOrder : public testing::TestWithParam<Order> {
 protected:
  Buffer Floats(int64_t n) { return *device_->Allocate(n * 4); }
  Tensor Of(const Buffer& buffer) { return buffer.As(DType::kF32, {buffer.bytes() / 4}); }
  std::vector<float> Download(const Buffer& buffer) {
    std::vector<float> values(static_cast<size_t>(buffer.bytes() / 4), -1);
    stream_.Download(Of(buffer), values.data());
    const Status status = stream_.Synchronize();
    EXPECT_TRUE(status) << status.error().message;
    return values;
  }
  void Scale(const Buffer& x, float factor, const Buffer& y) {
    Call(stream_, stream_.symbols().Muls, Of(x), factor, Of(y));
  }

  EmulatorScene emulator_{{"schedule", GetParam().schedule},
                          {"seed", std::to_string(GetParam().seed)}};
  std::shared_ptr<RuntimeDevice> device_ = *EmulatorScene::Open();
  RuntimeStream stream_{device_, kTinyStaging};
};
INSTANTIATE_TEST_SUITE_P(Runtime, OnEveryOrder,
                         testing::Values(Order{"eager", 1}, Order{"lazy", 1}, Order{"random", 1},
                                         Order{"random", 2}, Order{"random", 3}));

TEST_P(OnEveryOrder, MovesAnyNumberOfBytesThereAndBack) {
  std::vector<Buffer> buffers;
  std::vector<std::vector<uint8_t>> sent;
  for (const int64_t bytes : {1, 3, 63, 64, 65, 127, 128, 129, 1000}) {
    buffers.push_back(*device_->Allocate(bytes));
    auto& values = sent.emplace_back(static_cast<size_t>(bytes));
    std::iota(values.begin(), values.end(), static_cast<uint8_t>(bytes));
    stream_.Upload(values.data(), buffers.back().As(DType::kU8, {bytes}));
  }
  std::vector<std::vector<uint8_t>> received;
  for (const Buffer& buffer : buffers) {
    auto& values = received.emplace_back(static_cast<size_t>(buffer.bytes()));
    stream_.Download(buffer.As(DType::kU8, {buffer.bytes()}), values.data());
  }
  ASSERT_TRUE(stream_.Synchronize());
  EXPECT_EQ(received, sent);
  EXPECT_GT(stream_.counters().early_waits, 0);
}

// Later uploads to the same place win, though all went through the same few bytes of pinned memory.
TEST_P(OnEveryOrder, FillsPinnedMemoryAgainOnlyWhenItWasCopied) {
  constexpr int64_t kBytes = 500;
  const Buffer buffer = *device_->Allocate(kBytes);
  std::vector<uint8_t> expected(kBytes, 0);
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    const auto begin = static_cast<int64_t>(random() % kBytes);
    const auto bytes = static_cast<int64_t>(random() % 150) % (kBytes - begin) + 1;
    const std::vector<uint8_t> piece(static_cast<size_t>(bytes), static_cast<uint8_t>(i));
    stream_.Upload(piece.data(),
                   {static_cast<uint8_t*>(buffer.data()) + begin, DType::kU8, {bytes}});
    std::ranges::copy(piece, expected.begin() + begin);
  }
  std::vector<uint8_t> received(kBytes);
  stream_.Download(buffer.As(DType::kU8, {kBytes}), received.data());
  ASSERT_TRUE(stream_.Synchronize());
  EXPECT_EQ(received, expected);
  EXPECT_GT(stream_.upload_waits(), 0);
}

TEST_P(OnEveryOrder, GivesZeroedMemoryAndKeepsTheOrderOfCopies) {
  const Buffer x = Floats(5);
  const Buffer y = Floats(5);
  EXPECT_THAT(Download(y), Each(0));
  const std::vector<float> first = Count(5, 1);
  const std::vector<float> second = Count(5, 10);
  stream_.Upload(first.data(), Of(x));
  stream_.Copy(Of(x), Of(y));
  stream_.Upload(second.data(), Of(x));
  EXPECT_THAT(Download(y), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Download(x), ElementsAre(10, 11, 12, 13, 14));
  EXPECT_EQ(stream_.counters().downloads, 3);  // one copy for each
  EXPECT_EQ(stream_.counters().device_copies, 1);
}

TEST_P(OnEveryOrder, RunsOperatorsOnMemoryOfTheirOwn) {
  const Buffer x = Floats(4);
  const Buffer y = Floats(4);
  const std::vector<float> values = Count(4, 1);
  stream_.Upload(values.data(), Of(x));
  stream_.BeginOperator();
  const Tensor doubled = stream_.Scratch(DType::kF32, {4});
  const Tensor whole = stream_.Scratch(DType::kI32, {4});
  Call(stream_, stream_.symbols().Muls, Of(x), 2.5F, doubled);
  Call(stream_, stream_.symbols().Cast, doubled, ACL_INT32, whole);
  Call(stream_, stream_.symbols().Cast, whole, ACL_FLOAT, doubled);
  Call(stream_, stream_.symbols().Add, doubled, Of(x), 10.0F, Of(y));
  EXPECT_THAT(Download(y), ElementsAre(12, 25, 37, 50));
  EXPECT_EQ(stream_.counters().operators, 4);
}

TEST_P(OnEveryOrder, RecordsWithoutRunningAndReplaysOverWhatIsThere) {
  const Buffer x = Floats(3);
  const Buffer y = Floats(3);
  const Buffer z = Floats(3);
  const std::vector<float> ones(3, 1);
  stream_.Upload(ones.data(), Of(x));
  Scale(x, 2, y);
  stream_.Copy(Of(y), Of(z));
  stream_.BeginCapture();
  Scale(x, 2, y);
  stream_.Copy(Of(y), Of(z));
  const std::unique_ptr<Graph> graph = stream_.EndCapture();
  ASSERT_NE(graph, nullptr);
  EXPECT_THAT(Download(z), Each(2));

  for (const float value : {3.0F, 4.0F, 5.0F}) {
    const std::vector<float> values(3, value);
    stream_.Upload(values.data(), Of(x));
    stream_.Replay(*graph);
    EXPECT_THAT(Download(z), Each(2 * value));
  }
  EXPECT_EQ(stream_.counters().replays, 3);
  Scale(z, 0.5F, y);  // as ever after a capture
  EXPECT_THAT(Download(y), Each(5));
}

TEST_P(OnEveryOrder, KeepsTheMemoryOfAGraphWhenMoreIsTaken) {
  constexpr int64_t kMuch = 3 << 20;
  const Buffer x = Floats(4);
  const Buffer y = Floats(4);
  const std::vector<float> values = Count(4, 1);
  stream_.Upload(values.data(), Of(x));
  const auto issue = [&] {
    stream_.BeginOperator();
    const Tensor between = stream_.Scratch(DType::kF32, {4});
    Call(stream_, stream_.symbols().Muls, Of(x), 3.0F, between);
    Call(stream_, stream_.symbols().Muls, between, 2.0F, Of(y));
  };
  issue();
  stream_.BeginCapture();
  issue();
  const std::unique_ptr<Graph> graph = stream_.EndCapture();
  ASSERT_NE(graph, nullptr);

  stream_.BeginOperator();
  EXPECT_FALSE(stream_.Scratch(DType::kU8, {kMuch}).empty());
  EXPECT_NE(stream_.Workspace(kMuch), nullptr);
  ASSERT_TRUE(stream_.Synchronize());
  const std::vector<float> others = Count(4, 5);
  stream_.Upload(others.data(), Of(x));
  stream_.Replay(*graph);
  EXPECT_THAT(Download(y), ElementsAre(30, 36, 42, 48));
}

TEST_P(OnEveryOrder, DoesNotTakeMoreMemoryInACapture) {
  constexpr int64_t kMuch = 3 << 20;
  stream_.BeginCapture();
  EXPECT_TRUE(stream_.Scratch(DType::kU8, {kMuch}).empty());
  EXPECT_EQ(stream_.EndCapture(), nullptr);
  const Status status = stream_.Synchronize();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, StatusCode::kResourceExhausted);
  EXPECT_THAT(status.error().message, HasSubstr("in a capture"));
  EXPECT_TRUE(stream_.Synchronize());
}

TEST_P(OnEveryOrder, TellsAFaultOfTheDeviceOnceAndGoesOn) {
  const Buffer x = Floats(2);
  const Buffer y = Floats(2);
  const std::vector<float> values = {1, 2};
  stream_.Upload(values.data(), Of(x));
  ASSERT_TRUE(stream_.Synchronize());
  EmulatorScene::Inject("aclnnMuls@1=507015");
  Scale(x, 2, y);
  std::vector<float> received = {-1, -1};
  stream_.Download(Of(y), received.data());
  const Status status = stream_.Synchronize();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, StatusCode::kDeviceFault);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("NPU 0"), HasSubstr("AICORE_EXCEPTION"),
                                            HasSubstr("507015"), HasSubstr("aclnnMuls")));
  EXPECT_THAT(received, Each(-1));  // nothing that a failed kernel left
  EXPECT_TRUE(stream_.Synchronize());
  Scale(x, 2, y);
  EXPECT_THAT(Download(y), ElementsAre(2, 4));
}

// A fault that a wait of the staging ring meets is not lost.
TEST_P(OnEveryOrder, TellsAFaultThatSurfacedInAnUpload) {
  const Buffer x = Floats(2);
  const Buffer y = Floats(2);
  EmulatorScene::Inject("aclnnMuls@1=507035");
  Scale(x, 2, y);
  const std::vector<float> values = {1, 2};
  for (int i = 0; i < 20; ++i) {
    stream_.Upload(values.data(), Of(x));
  }
  const Status status = stream_.Synchronize();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("VECTOR_CORE_EXCEPTION"));
  EXPECT_TRUE(stream_.Synchronize());
  stream_.Upload(values.data(), Of(x));
  EXPECT_THAT(Download(x), ElementsAre(1, 2));
}

TEST_P(OnEveryOrder, DropsOperatorsAfterOneThatWasRefused) {
  const Buffer x = Floats(2);
  const Buffer y = Floats(2);
  Call(stream_, stream_.symbols().Cast, Of(x), ACL_INT32, Of(y));  // y is no INT32
  EXPECT_TRUE(stream_.faulted());
  Scale(x, 2, y);
  EXPECT_EQ(stream_.counters().operators, 0);
  const Status status = stream_.Synchronize();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("aclnnCast"), HasSubstr("PARAM_INVALID"),
                                            HasSubstr("161002"), HasSubstr("INT32")));
  EmulatorScene::ClearReports();
  Scale(x, 2, y);
  EXPECT_TRUE(stream_.Synchronize());
  EXPECT_EQ(stream_.counters().operators, 1);
}

TEST_P(OnEveryOrder, LeavesNoGraphOfACaptureThatFailed) {
  const Buffer x = Floats(2);
  const Buffer y = Floats(2);
  const std::vector<float> values = {1, 2};
  stream_.Upload(values.data(), Of(x));
  Scale(x, 2, y);
  for (const char* failure : {"aclmdlRICaptureBegin:1=107027", "aclnnMulsGetWorkspaceSize:1=561002",
                              "aclnnMuls:1=361001", "aclrtMemcpyAsync:1=107030"}) {
    EmulatorScene::Inject(failure);
    stream_.BeginCapture();
    Scale(x, 3, y);
    stream_.Copy(Of(x), Of(y));
    EXPECT_EQ(stream_.EndCapture(), nullptr) << failure;
    EmulatorScene::Inject("");
    const Status status = stream_.Synchronize();
    ASSERT_FALSE(status) << failure;
    const std::string code = std::string(failure).substr(std::string(failure).find('=') + 1);
    EXPECT_THAT(status.error().message, HasSubstr(code));
    EXPECT_THAT(Download(y), ElementsAre(2, 4)) << failure;
  }
  EmulatorScene::ClearReports();  // on the end of a capture in which a call had failed
  stream_.BeginCapture();
  Scale(x, 3, y);
  const std::unique_ptr<Graph> graph = stream_.EndCapture();
  ASSERT_NE(graph, nullptr);
  stream_.Replay(*graph);
  EXPECT_THAT(Download(y), ElementsAre(3, 6));
}

TEST_P(OnEveryOrder, LeavesNoGraphOfACaptureThatSomebodyElseSpoilt) {
  const Buffer x = Floats(2);
  const Buffer y = Floats(2);
  Scale(x, 3, y);
  stream_.BeginCapture();
  Scale(x, 3, y);
  EXPECT_NE(stream_.symbols().aclrtSynchronizeStream(stream_.handle()), ACL_SUCCESS);
  EXPECT_EQ(stream_.EndCapture(), nullptr);
  const Status status = stream_.Synchronize();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("STREAM_CAPTURE_INVALIDATED"));
  EXPECT_TRUE(stream_.Synchronize());
  EmulatorScene::ClearReports();
}

TEST_P(OnEveryOrder, ServesAnyThread) {
  std::thread other([&] {
    RuntimeStream stream(device_, kTinyStaging);
    const Buffer x = Floats(40);
    const std::vector<float> values = Count(40, 1);
    stream.Upload(values.data(), Of(x));
    std::vector<float> received(40);
    stream.Download(Of(x), received.data());
    EXPECT_TRUE(stream.Synchronize());
    EXPECT_EQ(received, values);
  });
  const Buffer y = Floats(40);
  const std::vector<float> values = Count(40, 7);
  stream_.Upload(values.data(), Of(y));
  EXPECT_EQ(Download(y), values);
  other.join();
}

TEST(Runtime, KnowsTheNpuThatItRunsOn) {
  for (const auto& [soc, cores, family] : {std::tuple{"Ascend910B2", "24", SocFamily::kA2},
                                           std::tuple{"Ascend910_9362", "20", SocFamily::kA3}}) {
    const EmulatorScene emulator({{"soc", soc}, {"cores", cores}, {"hbm", "8M"}});
    const auto device = EmulatorScene::Open(1);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ((*device)->facts().soc, soc);
    EXPECT_EQ((*device)->facts().family, family);
    EXPECT_EQ((*device)->facts().cube_cores, std::stoi(cores));
    EXPECT_EQ((*device)->facts().vector_cores, 2 * std::stoi(cores));
    EXPECT_EQ((*device)->Memory()->total, 8 << 20);
    const Buffer buffer = *(*device)->Allocate(1 << 20);
    EXPECT_LE((*device)->Memory()->free, 7 << 20);
  }
}

TEST(Runtime, RefusesAnotherFamilyAndADeviceThatIsNotThere) {
  const EmulatorScene emulator({{"soc", "Ascend950PR"}, {"devices", "2"}});
  const auto other = EmulatorScene::Open();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, StatusCode::kUnsupported);
  EXPECT_THAT(other.error().message, HasSubstr("Ascend950PR"));
  for (const int32_t ordinal : {-1, 2}) {
    const auto absent = EmulatorScene::Open(ordinal);
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().code, StatusCode::kNotFound);
    EXPECT_THAT(absent.error().message, HasSubstr("this machine has 2"));
  }
}

TEST(Runtime, SaysHowMuchMemoryThereIsNot) {
  const EmulatorScene emulator({{"hbm", "4M"}, {"quarantine", "0"}});
  const auto device = *EmulatorScene::Open();
  const auto buffer = device->Allocate(8 << 20);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, StatusCode::kResourceExhausted);
  EXPECT_THAT(buffer.error().message, AllOf(HasSubstr("8388608"), HasSubstr("207001")));
  EXPECT_TRUE(device->Allocate(1 << 20));
  EXPECT_EQ(device->Allocate(0)->bytes(), 0);

  RuntimeStream stream(device, kTinyStaging);
  EXPECT_EQ(stream.Workspace(8 << 20), nullptr);
  EXPECT_EQ(stream.Synchronize().error().code, StatusCode::kResourceExhausted);
  EXPECT_TRUE(stream.Synchronize());
}

TEST(Runtime, SaysAtEveryWaitThatThereIsNoStream) {
  const EmulatorScene emulator;
  const auto device = *EmulatorScene::Open();
  EmulatorScene::Inject("aclrtCreateStreamWithConfig:1=207008");
  RuntimeStream stream(device, kTinyStaging);
  const Buffer x = *device->Allocate(4);
  const float value = 1;
  for (int i = 0; i < 2; ++i) {
    stream.Upload(&value, x.As(DType::kF32, {1}));
    Call(stream, stream.symbols().Muls, x.As(DType::kF32, {1}), 2.0F, x.As(DType::kF32, {1}));
    stream.BeginCapture();
    EXPECT_EQ(stream.EndCapture(), nullptr);
    const Status status = stream.Synchronize();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, StatusCode::kResourceExhausted);
    EXPECT_THAT(status.error().message, HasSubstr("out of streams"));
  }
}

TEST(Runtime, FindsTheEmulatorBesideTheProgram) {
  const Result<std::string> path = FindEmulator();
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(*path, ASCEND_EMULATOR_LIBRARY);
}

TEST(Runtime, NamesAnOperatorThatNoLibraryHas) {
  const EmulatorScene emulator({{"hide", "aclnnMuls"}});
  const auto device = *EmulatorScene::Open();
  RuntimeStream stream(device, kTinyStaging);
  const Buffer x = *device->Allocate(4);
  Call(stream, stream.symbols().Muls, x.As(DType::kF32, {1}), 2.0F, x.As(DType::kF32, {1}));
  const Status status = stream.Synchronize();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, StatusCode::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("aclnnMuls"));
}

TEST(Runtime, LeavesAscendClToWhoeverStartedIt) {
  const EmulatorScene emulator;
  const auto libraries = *Libraries::Load({.path = ASCEND_EMULATOR_LIBRARY});
  ASSERT_EQ(libraries->symbols().aclInit(nullptr), ACL_SUCCESS);
  EXPECT_TRUE(RuntimeDevice::Open(libraries, 0));
  EXPECT_EQ(libraries->symbols().aclFinalize(), ACL_SUCCESS);  // not done yet
}

TEST(Runtime, EndsAscendClWithItsLastDevice) {
  const EmulatorScene emulator;
  for (int round = 0; round < 2; ++round) {
    auto first = *EmulatorScene::Open(0);
    auto second = *EmulatorScene::Open(1);
    first.reset();
    EXPECT_TRUE(second->Allocate(100));
    second.reset();
  }
  EXPECT_EQ(ascend_emulator_counter("calls.aclInit"), 2);
  EXPECT_EQ(ascend_emulator_counter("calls.aclFinalize"), 2);
}

TEST(RuntimeDeathTest, TakesNothingOfTheHostInACapture) {
  const EmulatorScene emulator;
  const auto device = *EmulatorScene::Open();
  RuntimeStream stream(device, kTinyStaging);
  const Buffer x = *device->Allocate(4);
  const Tensor tensor = x.As(DType::kF32, {1});
  float value = 0;
  EXPECT_DEATH(stream.EndCapture(), "did not begin");
  stream.BeginCapture();
  EXPECT_DEATH(stream.Upload(&value, tensor), "an upload in a capture");
  EXPECT_DEATH(stream.Download(tensor, &value), "a download in a capture");
  EXPECT_DEATH((void)stream.Synchronize(), "a wait in a capture");
  EXPECT_DEATH(stream.BeginCapture(), "a capture in a capture");
}

}  // namespace
}  // namespace cachalot::ascend
