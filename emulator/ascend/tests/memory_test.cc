#include <thread>

#include "emulator_fixture.h"

namespace ascend_emulator {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using EmulatorMemory = Emulator;
using EmulatorMemoryDeathTest = Emulator;

constexpr int kH2D = ACL_MEMCPY_HOST_TO_DEVICE;
constexpr int kD2H = ACL_MEMCPY_DEVICE_TO_HOST;
constexpr int kD2D = ACL_MEMCPY_DEVICE_TO_DEVICE;

aclError Copy(void* to, const void* from, size_t bytes, int kind) {
  return Acl("aclrtMemcpy", to, bytes, from, bytes, kind);
}

aclError CopyAsync(void* to, const void* from, size_t bytes, int kind, aclrtStream stream) {
  return Acl("aclrtMemcpyAsync", to, bytes, from, bytes, kind, stream);
}

// B1
TEST_F(EmulatorMemoryDeathTest, StopsAProgramThatReadsThroughADevicePointerAndNamesTheAllocation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto* data = static_cast<volatile float*>(Malloc(4096));
  EXPECT_DEATH(
      { [[maybe_unused]] const float value = data[3]; },
      "the program touched device memory at 0x[0-9a-f]+: byte 12 of allocation [0-9]+, 4096 bytes");
}

TEST_F(EmulatorMemory, RefusesMemoryOfAnotherDevice) {
  void* mine = Malloc(64);
  ASSERT_EQ(Acl("aclrtSetDevice", int32_t{1}), 0);
  void* theirs = Malloc(64);
  ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
  ExpectRefused(Copy(mine, theirs, 64, kD2D), kRtInvalidParam, "the source is memory of device 1");
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ExpectRefused(Prepare("aclnnInplaceCopy", &size, &executor, a,
                        static_cast<const aclTensor*>(Describe(theirs, ACL_FLOAT, {2}))),
                kAclnnInvalid, "src: lies in the memory of device 1");
}

// B2
TEST_F(EmulatorMemory, RefusesHostPointersWhereDeviceMemoryBelongs) {
  std::vector<float> host(16);
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const aclTensor* on_host = Describe(host.data(), ACL_FLOAT, {2});
  ExpectRefused(Run("aclnnInplaceCopy", a, on_host), kAclnnInvalid, "src: 0x");
  auto* pinned = MallocHost<float>(16);
  const aclTensor* in_pinned = Describe(pinned, ACL_FLOAT, {2});
  ExpectRefused(Run("aclnnInplaceCopy", a, in_pinned), kAclnnInvalid,
                "is host memory, not device memory");
  ExpectRefused(Copy(a.data, host.data(), 8, kD2D), kRtInvalidParam,
                "from host to device memory (kind 1)");

  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(Prepare("aclnnInplaceZero", &size, &executor, a), 0);
  std::vector<uint8_t> workspace(size);
  ExpectRefused(Launch("aclnnInplaceZero", workspace.data(), size, executor, stream()),
                kAclnnInvalid, "is host memory");
}

// B3
TEST_F(EmulatorMemory, FindsWhatAKernelWroteBesideItsMemory) {
  auto* data = static_cast<uint8_t*>(Malloc(100));
  auto* worker = static_cast<uint8_t*>(ascend_emulator_worker_address(data));
  worker[100 + 5] = 1;
  EXPECT_EQ(Synchronize(), 0);
  ExpectReported("written 6 bytes past the end: allocation");
  worker[-2] = 1;
  EXPECT_EQ(Synchronize(), 0);
  ExpectReported("written 2 bytes before the start: allocation");
}

TEST_F(EmulatorMemory, FindsWhatWasWrittenAfterAFree) {
  void* data = nullptr;
  ASSERT_EQ(Acl("aclrtMalloc", &data, size_t{64}, 0), 0);
  ASSERT_EQ(Acl("aclrtFree", data), 0);
  static_cast<uint8_t*>(ascend_emulator_worker_address(data))[7] = 1;
  TearDownDevice();
  ExpectReported("byte 7 was written after the memory was freed: allocation");
}

TEST_F(EmulatorMemory, IsAlignedPoisonedAndNotReusedAtOnce) {
  std::vector<float> values(8);
  void* first = nullptr;
  ASSERT_EQ(Acl("aclrtMalloc", &first, size_t{32}, 0), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0);
  ASSERT_EQ(Copy(values.data(), first, 32, kD2H), 0);
  EXPECT_THAT(values, Each(::testing::IsNan()));
  ASSERT_EQ(Acl("aclrtFree", first), 0);
  EXPECT_NE(Malloc(32), first);
  ExpectRefused(Copy(values.data(), first, 32, kD2H), kRtInvalidParam,
                "the source is freed memory");
  ExpectRefused(Acl("aclrtFree", first), kRtInvalidParam, "freed twice");
}

TEST_F(EmulatorMemory, RefusesToAllocateNothingAndToFreeNothing) {
  void* data = nullptr;
  ExpectRefused(Acl("aclrtMalloc", &data, size_t{0}, 0), kAclInvalidParam, "no bytes");
  ExpectRefused(Acl("aclrtFree", data), kAclInvalidParam, "null");
}

// B4
TEST_F(EmulatorMemory, RefusesViewsThatAreNotAlignedOrLeaveTheirStorage) {
  auto* data = static_cast<uint8_t*>(Malloc(128));
  const auto zero = [&](aclTensor* tensor) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    return Prepare("aclnnInplaceZero", &size, &executor, tensor);
  };
  ExpectRefused(zero(Describe(data + 16, ACL_FLOAT, {4})), kAclnnInvalid,
                "not aligned to 32 bytes");
  ExpectRefused(zero(Describe(data, ACL_FLOAT, {33})), kAclnnInvalid,
                "132 bytes of storage reach 4 bytes past the end of allocation");
  ExpectRefused(zero(Describe(data, ACL_FLOAT, {4, 8}, {8, 1}, 1, {32})), kAclnnInvalid,
                "view [4, 8] with offset 1 reaches element 32, its storage has 32");
  ExpectRefused(zero(Describe(data, ACL_FLOAT, {4, 8}, {0, 1}, 0, {32})), kAclnnInvalid,
                "share memory along axis 0");
}

TEST_F(EmulatorMemory, RefusesAnOutputThatOverlapsAnInput) {
  void* data = Malloc(128);
  aclTensor* low = Describe(data, ACL_FLOAT, {20});
  aclTensor* high = Describe(data, ACL_FLOAT, {20}, {1}, 10, {32});
  ExpectRefused(Run("aclnnInplaceCopy", low, static_cast<const aclTensor*>(high)), kAclnnInvalid,
                "src overlaps selfRef in allocation");
}

TEST_F(EmulatorMemory, TakesViewsThatInterleaveWithoutMeeting) {
  void* data = Malloc(128);
  aclTensor* even = Describe(data, ACL_FLOAT, {4, 4}, {8, 1}, 0, {32});
  aclTensor* odd = Describe(data, ACL_FLOAT, {4, 4}, {8, 1}, 4, {32});
  EXPECT_EQ(Run("aclnnInplaceCopy", even, static_cast<const aclTensor*>(odd)), 0);
}

// B5
TEST_F(EmulatorMemory, RunsOutOfMemoryAtTheCapAndTellsWhatIsLeft) {
  Configure({{"hbm", "1M"}});
  size_t available = 0;
  size_t total = 0;
  ASSERT_EQ(Acl("aclrtGetMemInfo", 1, &available, &total), 0);
  EXPECT_EQ(total, size_t{1} << 20);
  EXPECT_EQ(available, total);
  void* half = nullptr;
  ASSERT_EQ(Acl("aclrtMalloc", &half, size_t{1} << 19, 0), 0);
  ASSERT_EQ(Acl("aclrtGetMemInfo", 1, &available, &total), 0);
  EXPECT_LT(available, total / 2);
  void* other = nullptr;
  EXPECT_EQ(Acl("aclrtMalloc", &other, size_t{1} << 19, 0), 207001);
  EXPECT_THAT(Message(), HasSubstr("aclrtMalloc: 524288 bytes"));
  EXPECT_EQ(other, nullptr);
  ASSERT_EQ(Acl("aclrtFree", half), 0);
  EXPECT_EQ(Acl("aclrtMalloc", &other, size_t{1} << 19, 0), 0)
      << "the quarantine is no reason to fail";
  EXPECT_EQ(Acl("aclrtFree", other), 0);
}

TEST_F(EmulatorMemory, FailsTheNthCallOfAFunctionOnDemand) {
  Configure({{"fail", "aclrtMalloc:2=207001"}});
  Malloc(64);
  void* data = nullptr;
  EXPECT_EQ(Acl("aclrtMalloc", &data, size_t{64}, 0), 207001);
  Malloc(64);
}

// B10
TEST_F(EmulatorMemory, RefusesPageableMemoryInAnAsynchronousCopy) {
  std::vector<float> host(4);
  void* data = Malloc(16);
  ExpectRefused(CopyAsync(data, host.data(), 16, kH2D, stream()), kRtInvalidParam,
                "the source is pageable host memory");
  EXPECT_EQ(ascend_emulator_counter("pageable_copies"), 1);
}

TEST_F(EmulatorMemory, DrainsTheStreamForPageableMemoryAsNewerDriversDo) {
  Configure({{"pageable", "drain"}, {"schedule", "lazy"}});
  const auto a = UploadFloats({4}, ACL_FLOAT, {1, 2, 3, 4});
  const auto b = Empty({4}, ACL_FLOAT);
  ASSERT_EQ(RunOn(stream(), "aclnnInplaceCopy", b, a), 0);
  std::vector<float> host(4);
  ASSERT_EQ(CopyAsync(host.data(), b.data, 16, kD2H, stream()), 0);
  EXPECT_THAT(host, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(ascend_emulator_counter("pageable_copies"), 1);
}

TEST_F(EmulatorMemory, CopiesPageableMemoryLateAsOlderDriversDo) {
  Configure({{"pageable", "late"}, {"schedule", "lazy"}});
  const auto a = UploadFloats({4}, ACL_FLOAT, {1, 2, 3, 4});
  std::vector<float> host(4);
  ASSERT_EQ(CopyAsync(host.data(), a.data, 16, kD2H, stream()), 0);
  EXPECT_THAT(host, Each(::testing::IsNan())) << "read too early";
  ASSERT_EQ(Synchronize(), 0);
  EXPECT_THAT(host, ElementsAre(1, 2, 3, 4));
}

TEST_F(EmulatorMemory, FindsAPinnedBufferThatIsRewrittenWhileACopyOfItIsQueued) {
  Configure({{"schedule", "lazy"}});
  auto* staging = MallocHost<float>(4);
  void* data = Malloc(16);
  staging[0] = 1;
  ASSERT_EQ(CopyAsync(data, staging, 16, kH2D, stream()), 0);
  staging[0] = 2;
  ASSERT_EQ(Synchronize(), 0);
  ExpectReported("pinned memory was rewritten while the task that reads it was queued: allocation");
}

TEST_F(EmulatorMemory, FindsAPinnedBufferThatIsFreedWhileACopyIntoItIsQueued) {
  void* staging = nullptr;
  ASSERT_EQ(Acl("aclrtMallocHost", &staging, size_t{16}), 0);
  void* data = Malloc(16);
  ASSERT_EQ(CopyAsync(staging, data, 16, kD2H, stream()), 0);
  ASSERT_EQ(Acl("aclrtFreeHost", staging), 0);
  ExpectReported("freed although aclrtMemcpyAsync");
}

TEST_F(EmulatorMemory, LeavesPinnedBuffersAloneThatAreReusedAfterAWait) {
  Configure({{"schedule", "lazy"}});
  auto* staging = MallocHost<float>(4);
  void* data = Malloc(16);
  for (int step = 0; step < 3; ++step) {
    staging[0] = static_cast<float>(step);
    ASSERT_EQ(CopyAsync(data, staging, 16, kH2D, stream()), 0);
    ASSERT_EQ(CopyAsync(staging, data, 16, kD2H, stream()), 0);
    ASSERT_EQ(CopyAsync(data, staging, 16, kH2D, stream()), 0)
        << "its content comes from the device";
    ASSERT_EQ(Synchronize(), 0);
    EXPECT_EQ(staging[0], static_cast<float>(step));
  }
}

TEST_F(EmulatorMemory, MindsTheSlicesOfAPinnedRingByThemselves) {
  Configure({{"schedule", "lazy"}});
  auto* ring = MallocHost<float>(32);
  void* data = Malloc(128);
  for (int slot = 0; slot < 4; ++slot) {
    float* slice = ring + 8 * slot;
    std::fill(slice, slice + 8, static_cast<float>(slot));
    ASSERT_EQ(CopyAsync(data, slice, 32, kH2D, stream()), 0);
  }
  ASSERT_EQ(CopyAsync(ring + 24, data, 32, kD2H, stream()), 0);
  ring[17] = 9;
  ASSERT_EQ(Synchronize(), 0);
  const auto reports = TakeReports();
  ASSERT_EQ(reports.size(), 1) << "of the third slice alone";
  EXPECT_THAT(reports[0], HasSubstr("pinned memory was rewritten"));
}

TEST_F(EmulatorMemory, ReadsPoisonInAPinnedBufferBeforeTheCopyIsDone) {
  Configure({{"schedule", "lazy"}});
  auto* staging = MallocHost<float>(4);
  std::fill(staging, staging + 4, 7.F);
  const auto a = UploadFloats({4}, ACL_FLOAT, {1, 2, 3, 4});
  ASSERT_EQ(CopyAsync(staging, a.data, 16, kD2H, stream()), 0);
  EXPECT_TRUE(std::isnan(staging[0]));
  ASSERT_EQ(Synchronize(), 0);
  EXPECT_EQ(staging[3], 4);
}

TEST_F(EmulatorMemory, ChecksTheBoundsAndTheKindOfCopies) {
  std::vector<float> host(64);
  void* data = Malloc(16);
  ExpectRefused(Copy(data, host.data(), 20, kH2D), kRtInvalidParam,
                "20 bytes reach 4 past the end");
  ExpectRefused(
      Acl("aclrtMemcpy", data, size_t{8}, static_cast<const void*>(host.data()), size_t{16}, kH2D),
      kRtInvalidParam, "16 bytes into 8");
  ExpectRefused(Copy(host.data(), data, 16, kH2D), kRtInvalidParam, "the kind is 1");
  EXPECT_EQ(Copy(data, host.data(), 0, kD2H), 0);
  EXPECT_EQ(Copy(host.data(), data, 16, ACL_MEMCPY_DEFAULT), 0);
}

TEST_F(EmulatorMemory, CountsCopiesByDirectionAndWay) {
  auto* staging = MallocHost<float>(4);
  void* data = Malloc(16);
  ASSERT_EQ(CopyAsync(data, staging, 16, kH2D, stream()), 0);
  ASSERT_EQ(CopyAsync(staging, data, 16, kD2H, stream()), 0);
  ASSERT_EQ(Synchronize(), 0);
  ASSERT_EQ(Copy(staging, data, 8, kD2H), 0);
  EXPECT_EQ(ascend_emulator_counter("copies.h2d.async"), 1);
  EXPECT_EQ(ascend_emulator_counter("copies.d2h.async"), 1);
  EXPECT_EQ(ascend_emulator_counter("copies.d2h.sync"), 1);
  EXPECT_EQ(ascend_emulator_counter("bytes.d2h.sync"), 8);
  EXPECT_EQ(ascend_emulator_counter("calls.aclrtMemcpyAsync"), 2);
}

}  // namespace
}  // namespace ascend_emulator
