#include <fstream>
#include <thread>

#include "emulator_fixture.h"

namespace ascend_emulator {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kD2H = ACL_MEMCPY_DEVICE_TO_HOST;

class EmulatorStreams : public Emulator {
 protected:
  // b = a, queued on the stream.
  void QueueCopy(aclrtStream on, const DeviceTensor& b, const DeviceTensor& a) {
    ASSERT_EQ(RunOn(on, "aclnnInplaceCopy", b, a), 0);
  }
};

// B6
TEST_F(EmulatorStreams, RunNothingInLazyModeUntilSomebodyWaits) {
  Configure({{"schedule", "lazy"}});
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  const aclrtStream other = NewStream();
  const auto c = Empty({2}, ACL_FLOAT);
  QueueCopy(stream(), b, a);
  QueueCopy(other, c, a);
  EXPECT_EQ(ascend_emulator_counter("tasks"), 0);
  ASSERT_EQ(Synchronize(), 0);
  EXPECT_EQ(ascend_emulator_counter("tasks"), 1) << "the other stream has not been waited for";
  EXPECT_THAT(DownloadFloats(b), ElementsAre(1, 2));
}

TEST_F(EmulatorStreams, RunInAnOrderThatTheSeedDecides) {
  const std::string path = ::testing::TempDir() + "/ascend_emulator_trace";
  const auto order = [&](int seed) {
    Configure({{"schedule", "random"}, {"seed", std::to_string(seed)}, {"trace", path}});
    std::vector<aclrtStream> streams = {stream(), NewStream(), NewStream()};
    std::vector<DeviceTensor> tensors;
    for (int i = 0; i < 3; ++i) tensors.push_back(Empty({2}, ACL_FLOAT));
    for (int round = 0; round < 4; ++round) {
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(RunOn(streams[i], "aclnnInplaceZero", tensors[i]), 0);
      }
    }
    EXPECT_EQ(Acl("aclrtSynchronizeDevice"), 0);
    std::string runs;
    std::ifstream trace(path);
    for (std::string line; std::getline(trace, line);) {
      if (line.starts_with("run ")) runs += line + "\n";
    }
    return runs;
  };
  const std::string first = order(1);
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 12);
  EXPECT_EQ(order(1), first);
  EXPECT_TRUE(order(2) != first || order(3) != first);
  std::remove(path.c_str());
}

TEST_F(EmulatorStreams, DoWhatIsQueuedInEveryMode) {
  for (const char* mode : {"eager", "lazy", "random"}) {
    Configure({{"schedule", mode}});
    const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
    const auto b = Empty({2}, ACL_FLOAT);
    const auto c = Empty({2}, ACL_FLOAT);
    const aclrtStream other = NewStream();
    const aclrtEvent ready = NewEvent();
    QueueCopy(stream(), b, a);
    ASSERT_EQ(Acl("aclrtRecordEvent", ready, stream()), 0);
    ASSERT_EQ(Acl("aclrtStreamWaitEvent", other, ready), 0);
    QueueCopy(other, c, b);
    ASSERT_EQ(Acl("aclrtSynchronizeStream", other), 0);
    EXPECT_THAT(DownloadFloats(c), ElementsAre(1, 2)) << mode;
  }
}

TEST_F(EmulatorStreams, GetThereForAProgramThatWaitsByLooking) {
  for (const char* mode : {"eager", "lazy", "random"}) {
    Configure({{"schedule", mode}});
    const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
    const auto b = Empty({2}, ACL_FLOAT);
    QueueCopy(stream(), b, a);
    int status = 1;
    while (status != 0) ASSERT_EQ(Acl("aclrtStreamQuery", stream(), &status), 0);
    EXPECT_THAT(DownloadFloats(b), ElementsAre(1, 2)) << mode;
  }
}

// B7
TEST_F(EmulatorStreams, KeepWhatTheHostSaidOfOperandsWhenItsDescriptionIsGone) {
  Configure({{"schedule", "lazy"}});
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  const int64_t dim = 2;
  auto* passing = Acl<aclTensor*>("aclCreateTensor", &dim, uint64_t{1}, int{ACL_FLOAT},
                                  static_cast<const int64_t*>(nullptr), int64_t{0},
                                  int{ACL_FORMAT_ND}, &dim, uint64_t{1}, a.data);
  ASSERT_EQ(RunOn(stream(), "aclnnInplaceCopy", b, static_cast<const aclTensor*>(passing)), 0);
  ASSERT_EQ(Acl("aclDestroyTensor", static_cast<const aclTensor*>(passing)), 0);
  ASSERT_EQ(Synchronize(), 0);
  EXPECT_THAT(DownloadFloats(b), ElementsAre(1, 2));
}

TEST_F(EmulatorStreams, ReportDeviceMemoryThatIsFreedWhileATaskHasIt) {
  void* data = nullptr;
  ASSERT_EQ(Acl("aclrtMalloc", &data, size_t{8}, 0), 0);
  ASSERT_EQ(RunOn(stream(), "aclnnInplaceZero", Describe(data, ACL_FLOAT, {2})), 0);
  ASSERT_EQ(Acl("aclrtFree", data), 0);
  const auto reports = TakeReports();
  ASSERT_EQ(reports.size(), 1);
  EXPECT_THAT(reports[0], HasSubstr("freed although aclnnInplaceZero (aclnnInplaceZero(workspace"));
  EXPECT_THAT(reports[0], HasSubstr("writes selfRef, which the program has not waited for"));
  EXPECT_THAT(reports[0], HasSubstr("(aclrtMalloc(8 bytes), call"));
  EXPECT_THAT(reports[0], HasSubstr("[aclrtFree("));
}

// B8
TEST_F(EmulatorStreams, ReportARaceOfTwoStreamsWithBothCalls) {
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  const auto c = Empty({2}, ACL_FLOAT);
  const aclrtStream other = NewStream();
  QueueCopy(stream(), b, a);
  QueueCopy(other, c, b);
  const auto reports = TakeReports();
  ASSERT_EQ(reports.size(), 1);
  EXPECT_THAT(reports[0], HasSubstr("race: aclnnInplaceCopy reads operand src on one stream"));
  EXPECT_THAT(reports[0],
              HasSubstr("writes selfRef on another, and no event orders them; allocation"));
}

TEST_F(EmulatorStreams, ReportAReadOfTheHostThatHasNotWaited) {
  Configure({{"schedule", "lazy"}});
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  QueueCopy(stream(), b, a);
  DownloadFloats(b);
  ExpectReported("race: the program reads memory while aclnnInplaceCopy");
}

TEST_F(EmulatorStreams, AccuseNobodyWhoseStreamsAreInOrder) {
  for (const char* mode : {"eager", "lazy", "random"}) {
    Configure({{"schedule", mode}});
    const auto a = UploadFloats({4, 4}, ACL_FLOAT, std::vector<float>(16, 1));
    const auto b = Empty({4, 4}, ACL_FLOAT);
    const auto c = Empty({4, 4}, ACL_FLOAT);
    const aclrtStream other = NewStream();
    const aclrtEvent ready = NewEvent();
    // Both read the same, and write columns of the same.
    aclTensor* left = Describe(b.data, ACL_FLOAT, {4, 2}, {4, 1}, 0, {16});
    aclTensor* right = Describe(b.data, ACL_FLOAT, {4, 2}, {4, 1}, 2, {16});
    const aclTensor* from_left = Describe(a.data, ACL_FLOAT, {4, 2}, {4, 1}, 0, {16});
    const aclTensor* from_all = Describe(a.data, ACL_FLOAT, {4, 2}, {4, 1}, 1, {16});
    ASSERT_EQ(RunOn(stream(), "aclnnInplaceCopy", left, from_left), 0);
    ASSERT_EQ(RunOn(other, "aclnnInplaceCopy", right, from_all), 0);
    // One behind the other through an event, and back through the host.
    ASSERT_EQ(Acl("aclrtRecordEvent", ready, other), 0);
    ASSERT_EQ(Acl("aclrtStreamWaitEvent", stream(), ready), 0);
    QueueCopy(stream(), c, b);
    ASSERT_EQ(Acl("aclrtRecordEvent", ready, stream()), 0);
    ASSERT_EQ(Acl("aclrtSynchronizeEvent", ready), 0);
    ASSERT_EQ(RunOn(other, "aclnnInplaceZero", c), 0);
    ASSERT_EQ(RunOn(other, "aclnnInplaceZero", b), 0);
    ASSERT_EQ(Acl("aclrtSynchronizeDevice"), 0);
    EXPECT_THAT(DownloadFloats(c), Each(0)) << mode;
    EXPECT_THAT(TakeReports(), ::testing::IsEmpty()) << mode;
  }
}

TEST_F(EmulatorStreams, AccuseNobodyWhenAThreadHandsOnWhatAnotherWaitedFor) {
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  QueueCopy(stream(), b, a);
  std::thread([&] {
    ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
    ASSERT_EQ(Synchronize(), 0);
    ASSERT_EQ(Acl("aclrtResetDevice", int32_t{0}), 0);
  }).join();
  EXPECT_THAT(DownloadFloats(b), ElementsAre(1, 2));
}

// B9
TEST_F(EmulatorStreams, AreNotWaitedForByASynchronousCopy) {
  Configure({{"schedule", "lazy"}});
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  QueueCopy(stream(), b, a);
  EXPECT_THAT(DownloadFloats(b), Each(::testing::IsNan()));
  ASSERT_EQ(Synchronize(), 0);
  EXPECT_THAT(DownloadFloats(b), ElementsAre(1, 2));
  TakeReports();
}

// B11
TEST_F(EmulatorStreams, TellAFaultAtTheNextWaitAndGoOn) {
  Configure({{"fail", "aclnnInplaceCopy@1=507015"}});
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  QueueCopy(stream(), b, a);
  EXPECT_EQ(Synchronize(), 507015);
  EXPECT_THAT(Message(), HasSubstr("aclnnInplaceCopy: fault injected"));
  EXPECT_EQ(Synchronize(), 0) << "told once";
  QueueCopy(stream(), b, a);
  EXPECT_EQ(Synchronize(), 0);
  EXPECT_THAT(DownloadFloats(b), ElementsAre(1, 2));
}

TEST_F(EmulatorStreams, TellAFaultToADeviceWaitToo) {
  Configure({{"fail", "aclnnInplaceZero@2=507035"}});
  const auto b = Empty({2}, ACL_FLOAT);
  ASSERT_EQ(RunOn(stream(), "aclnnInplaceZero", b), 0);
  ASSERT_EQ(RunOn(stream(), "aclnnInplaceZero", b), 0);
  EXPECT_EQ(Acl("aclrtSynchronizeDevice"), 507035);
}

// B12
TEST_F(EmulatorStreams, SayThatAnEventIsCompleteWithAOne) {
  Configure({{"schedule", "lazy"}});
  const aclrtEvent event = NewEvent();
  int status = 0;
  ASSERT_EQ(Acl("aclrtQueryEventStatus", event, &status), 0);
  EXPECT_EQ(status, 1) << "never recorded";
  const auto b = Empty({2}, ACL_FLOAT);
  ASSERT_EQ(RunOn(stream(), "aclnnInplaceZero", b), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", event, stream()), 0);
  ASSERT_EQ(Acl("aclrtQueryEventStatus", event, &status), 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(Acl("aclrtSynchronizeEvent", event), 0);
  ASSERT_EQ(Acl("aclrtQueryEventStatus", event, &status), 0);
  EXPECT_EQ(status, 1);
}

TEST_F(EmulatorStreams, WaitForTheRecordThatWasThereWhenTheyWereToldTo) {
  Configure({{"schedule", "lazy"}});
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  const aclrtStream other = NewStream();
  const aclrtEvent event = NewEvent();
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", other, event), 0);  // of nothing
  QueueCopy(stream(), b, a);
  ASSERT_EQ(Acl("aclrtRecordEvent", event, stream()), 0);
  const auto c = Empty({2}, ACL_FLOAT);
  QueueCopy(other, c, b);
  ExpectReported("race");
  ASSERT_EQ(Acl("aclrtSynchronizeStream", other), 0);
  EXPECT_THAT(DownloadFloats(c), Each(::testing::IsNan())) << "the record came after the wait";
}

TEST_F(EmulatorStreams, RefuseEventsThatHaveNotTheFlagForIt) {
  const aclrtEvent time = NewEvent(0x8);
  const aclrtEvent sync = NewEvent(0x1);
  ExpectRefused(Acl("aclrtStreamWaitEvent", stream(), time), kRtInvalidParam,
                "has not the flag SYNC");
  float milliseconds = 0;
  ASSERT_EQ(Acl("aclrtRecordEvent", time, stream()), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", sync, stream()), 0);
  ASSERT_EQ(Synchronize(), 0);
  ExpectRefused(Acl("aclrtEventElapsedTime", &milliseconds, time, sync), 107006,
                "has not the flag TIME_LINE");
  const aclrtEvent end = NewEvent(0x8);
  ExpectRefused(Acl("aclrtEventElapsedTime", &milliseconds, time, end), 107006, "is not complete");
  ASSERT_EQ(Acl("aclrtRecordEvent", end, stream()), 0);
  ASSERT_EQ(Synchronize(), 0);
  EXPECT_EQ(Acl("aclrtEventElapsedTime", &milliseconds, time, end), 0);
  EXPECT_GE(milliseconds, 0);
}

// B13
TEST_F(EmulatorStreams, RefuseAThreadThatHasNotSetADevice) {
  std::thread([] {
    void* data = nullptr;
    ExpectRefused(Acl("aclrtMalloc", &data, size_t{64}, 0), 107002,
                  "this thread has not set a device");
  }).join();
}

TEST_F(EmulatorStreams, RefuseThatTheyAreUsedFromAnotherDevice) {
  ASSERT_EQ(Acl("aclrtSetDevice", int32_t{1}), 0);
  ExpectRefused(Synchronize(), 107003, "the stream is of device 0");
  aclrtContext context = nullptr;
  ASSERT_EQ(Acl("aclrtGetCurrentContext", &context), 0);
  ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
  EXPECT_EQ(Synchronize(), 0);
  ASSERT_EQ(Acl("aclrtSetCurrentContext", context), 0);
  int32_t device = 0;
  ASSERT_EQ(Acl("aclrtGetDevice", &device), 0);
  EXPECT_EQ(device, 1);
  ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
}

TEST_F(EmulatorStreams, AreTheDevicesDefaultWhereNull) {
  const auto a = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto b = Empty({2}, ACL_FLOAT);
  QueueCopy(nullptr, b, a);
  ASSERT_EQ(Acl("aclrtSynchronizeStream", aclrtStream{nullptr}), 0);
  EXPECT_THAT(DownloadFloats(b), ElementsAre(1, 2));
}

TEST_F(EmulatorStreams, ServeSeveralThreadsAtATime) {
  for (const char* mode : {"eager", "lazy", "random"}) {
    Configure({{"schedule", mode}});
    constexpr int kThreads = 4;
    std::vector<aclrtStream> streams;
    std::vector<DeviceTensor> sums;
    std::vector<void*> workspaces;
    const auto one = UploadFloats({2}, ACL_FLOAT, {1, 2});
    for (int i = 0; i < kThreads; ++i) {
      streams.push_back(NewStream());
      sums.push_back(UploadFloats({2}, ACL_FLOAT, {0, 0}));
      sums.push_back(Empty({2}, ACL_FLOAT));
      workspaces.push_back(Malloc(4096));
    }
    aclScalar* alpha = Number(1);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Acl("aclrtSetDevice", int32_t{0});
        for (size_t step = 0; step < 20; ++step) {
          uint64_t size = 0;
          aclOpExecutor* executor = nullptr;
          EXPECT_EQ(Prepare("aclnnAdd", &size, &executor, one, sums[2 * i + step % 2], alpha,
                            sums[2 * i + (step + 1) % 2]),
                    0);
          EXPECT_EQ(Launch("aclnnAdd", workspaces[i], size, executor, streams[i]), 0);
          if (step % 5 == 4) {
            EXPECT_EQ(Acl("aclrtSynchronizeStream", streams[i]), 0);
          }
        }
        Acl("aclrtResetDevice", int32_t{0});
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < kThreads; ++i) {
      EXPECT_THAT(DownloadFloats(sums[2 * i]), ElementsAre(20, 40)) << mode;
    }
  }
}

// B14
TEST_F(EmulatorStreams, ReportAStreamThatIsDestroyedWithWorkQueued) {
  aclrtStream passing = nullptr;
  ASSERT_EQ(Acl("aclrtCreateStreamWithConfig", &passing, uint32_t{0}, uint32_t{0}), 0);
  const auto b = Empty({2}, ACL_FLOAT);
  ASSERT_EQ(RunOn(passing, "aclnnInplaceZero", b), 0);
  ASSERT_EQ(Acl("aclrtDestroyStream", passing), 0);
  ExpectReported("a stream is destroyed and the program has not waited for its tasks");
  ExpectRefused(Acl("aclrtDestroyStream", passing), kRtInvalidParam,
                "the stream is gone already: aclrtDestroyStream");
}

TEST_F(EmulatorStreams, RefuseAnEventThatIsDestroyedTwice) {
  aclrtEvent event = nullptr;
  ASSERT_EQ(Acl("aclrtCreateEventExWithFlag", &event, uint32_t{1}), 0);
  ASSERT_EQ(Acl("aclrtDestroyEvent", event), 0);
  ExpectRefused(Acl("aclrtDestroyEvent", event), kRtInvalidParam, "the event is gone already");
}

TEST_F(EmulatorStreams, AreReportedAtTheEndWithAllElseThatLeaked) {
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  void* data = nullptr;
  void* pinned = nullptr;
  int64_t values[] = {1};
  ASSERT_EQ(Acl("aclrtCreateStreamWithConfig", &stream, uint32_t{0}, uint32_t{0}), 0);
  ASSERT_EQ(Acl("aclrtCreateEventExWithFlag", &event, uint32_t{1}), 0);
  ASSERT_EQ(Acl("aclrtMalloc", &data, size_t{64}, 0), 0);
  ASSERT_EQ(Acl("aclrtMallocHost", &pinned, size_t{32}), 0);
  Acl<aclIntArray*>("aclCreateIntArray", static_cast<const int64_t*>(values), uint64_t{1});
  TearDownDevice();
  const auto reports = TakeReports();
  EXPECT_THAT(reports,
              ::testing::UnorderedElementsAre(
                  HasSubstr("leak: a stream was not destroyed"),
                  HasSubstr("leak: an event was not destroyed"), HasSubstr("64 bytes of device 0"),
                  HasSubstr("32 bytes of pinned host memory"), HasSubstr("leak: an aclIntArray")));
}

TEST_F(EmulatorStreams, TimeOutOnDemandAlone) {
  EXPECT_EQ(Acl("aclrtSynchronizeStreamWithTimeout", stream(), int32_t{1000}), 0);
  ExpectRefused(Acl("aclrtSynchronizeStreamWithTimeout", stream(), int32_t{0}), kRtInvalidParam,
                "0 ms");
}

}  // namespace
}  // namespace ascend_emulator
