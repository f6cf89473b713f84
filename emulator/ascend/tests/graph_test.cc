#include <thread>

#include "emulator_fixture.h"

namespace ascend_emulator {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kGlobal = 0;
constexpr int kThreadLocal = 1;
constexpr int kRelaxed = 2;

class EmulatorGraphs : public Emulator {
 protected:
  void SetUp() override {
    Emulator::SetUp();
    Prepare();
  }

  void TearDown() override {
    Finish();
    Emulator::TearDown();
  }

  void Prepare() {
    a_ = UploadFloats({2}, ACL_FLOAT, {1, 2});
    b_ = Empty({2}, ACL_FLOAT);
    c_ = Empty({2}, ACL_FLOAT);
    side_ = NewStream();
    fork_ = NewEvent();
    join_ = NewEvent();
  }

  void Finish() {
    if (graphs_.empty()) return;
    Acl("aclrtSynchronizeDevice");
    for (aclmdlRI graph : graphs_) Acl("aclmdlRIDestroy", graph);
    graphs_.clear();
  }

  void Restart(std::vector<std::pair<const char*, std::string>> settings) {
    Finish();
    Configure(std::move(settings));
    Prepare();
  }

  aclError Begin(int mode = kGlobal) { return Acl("aclmdlRICaptureBegin", stream(), mode); }
  aclError End(aclmdlRI* graph) {
    const aclError code = Acl("aclmdlRICaptureEnd", stream(), graph);
    if (code == 0) graphs_.push_back(*graph);
    return code;
  }
  aclError Replay(aclmdlRI graph, aclrtStream on) { return Acl("aclmdlRIExecuteAsync", graph, on); }
  aclError Queue(aclrtStream on, const DeviceTensor& to, const DeviceTensor& from) {
    return RunOn(on, "aclnnInplaceCopy", to, from);
  }

  // What a capture that went wrong leaves: nothing.
  void ExpectInvalid() {
    aclmdlRI graph = nullptr;
    ExpectRefused(End(&graph), 507903, "the capture became invalid");
    EXPECT_EQ(graph, nullptr);
  }

  aclmdlRI CaptureCopy() {
    aclmdlRI graph = nullptr;
    EXPECT_EQ(Begin(), 0);
    EXPECT_EQ(Queue(stream(), b_, a_), 0);
    EXPECT_EQ(End(&graph), 0);
    return graph;
  }

  DeviceTensor a_;
  DeviceTensor b_;
  DeviceTensor c_;
  aclrtStream side_ = nullptr;
  aclrtEvent fork_ = nullptr;
  aclrtEvent join_ = nullptr;
  std::vector<aclmdlRI> graphs_;
};

// B15
TEST_F(EmulatorGraphs, RefuseToWaitForOrLookAtAStreamThatIsCaptured) {
  int status = 0;
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Synchronize(), 107027, "the stream is being captured");
  ExpectInvalid();
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Acl("aclrtStreamQuery", stream(), &status), 107027, "the stream is being captured");
  ExpectInvalid();
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Acl("aclrtSynchronizeDevice"), 107027, "a stream of the device is being captured");
  ExpectInvalid();
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Acl("aclrtDestroyStream", stream()), 107027, "the stream is being captured");
  ExpectInvalid();
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Begin(), 107027, "the stream is being captured");
  ExpectInvalid();
}

TEST_F(EmulatorGraphs, RefuseTheDefaultStreamAndWhatIsNotCaptured) {
  aclmdlRI graph = nullptr;
  ExpectRefused(Acl("aclmdlRICaptureBegin", aclrtStream{nullptr}, kGlobal), 107031,
                "the default stream");
  ExpectRefused(End(&graph), 107029, "the stream is not being captured");
}

TEST_F(EmulatorGraphs, RefuseAnEndOnAnotherStreamOrThread) {
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", fork_, stream()), 0);
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", side_, fork_), 0);
  ExpectRefused(Acl("aclmdlRICaptureEnd", side_, &graph), 107036, "begun on another stream");
  std::thread([&] {
    ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
    ExpectRefused(End(&graph), 107038, "begun by another thread");
    ASSERT_EQ(Acl("aclrtResetDevice", int32_t{0}), 0);
  }).join();
  ASSERT_EQ(Acl("aclrtRecordEvent", join_, side_), 0);
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", stream(), join_), 0);
  EXPECT_EQ(End(&graph), 0);
}

TEST_F(EmulatorGraphs, RefuseASideStreamThatDoesNotComeBack) {
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", fork_, stream()), 0);
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", side_, fork_), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", join_, side_), 0);
  ASSERT_EQ(Queue(side_, b_, a_), 0);  // after the record: nobody waits for it
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", stream(), join_), 0);
  ExpectRefused(End(&graph), 107025, "never waited for their last");
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(Queue(side_, b_, a_), 0) << "the streams are free again";
}

TEST_F(EmulatorGraphs, RefuseSynchronousCopiesUnlessTheThreadIsRelaxed) {
  float value = 0;
  const auto copy = [&] {
    return Acl("aclrtMemcpy", static_cast<void*>(&value), size_t{4},
               static_cast<const void*>(a_.data), size_t{4}, int{ACL_MEMCPY_DEVICE_TO_HOST});
  };
  for (const int mode : {kGlobal, kThreadLocal}) {
    ASSERT_EQ(Begin(mode), 0);
    ExpectRefused(copy(), 107030, "not while a stream is captured");
    ExpectInvalid();
  }
  ASSERT_EQ(Begin(kThreadLocal), 0);
  std::thread([&] {
    ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
    EXPECT_EQ(copy(), 0) << "another thread's capture";
    ASSERT_EQ(Acl("aclrtResetDevice", int32_t{0}), 0);
  }).join();
  aclmdlRI graph = nullptr;
  EXPECT_EQ(End(&graph), 0);
  ASSERT_EQ(Begin(kGlobal), 0);
  int mode = kRelaxed;
  ASSERT_EQ(Acl("aclmdlRICaptureThreadExchangeMode", &mode), 0);
  EXPECT_EQ(mode, kGlobal);
  EXPECT_EQ(copy(), 0);
  ASSERT_EQ(Acl("aclmdlRICaptureThreadExchangeMode", &mode), 0);
  EXPECT_EQ(mode, kRelaxed);
  EXPECT_EQ(End(&graph), 0);
}

TEST_F(EmulatorGraphs, RefuseEventsAcrossTheirBorder) {
  ASSERT_EQ(Acl("aclrtRecordEvent", fork_, side_), 0);
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Acl("aclrtStreamWaitEvent", stream(), fork_), 107024,
                "the event was recorded outside");
  ExpectInvalid();
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", join_, stream()), 0);
  int status = 0;
  ExpectRefused(Acl("aclrtQueryEventStatus", join_, &status), 107028,
                "the event was recorded in a capture");
  ExpectInvalid();
  ExpectRefused(Acl("aclrtStreamWaitEvent", side_, join_), 107028, "in a capture that has ended");
}

TEST_F(EmulatorGraphs, AreInvalidOnceASubmissionFailed) {
  ASSERT_EQ(Begin(), 0);
  EXPECT_NE(Launch("aclnnAdd", nullptr, 0, nullptr, stream()), 0);
  TakeReports();
  int status = 0;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Acl("aclmdlRICaptureGetInfo", stream(), &status, &graph), 0);
  EXPECT_EQ(status, 2);
  ExpectRefused(Queue(stream(), b_, a_), kAclnnRuntime, "the capture became invalid");
  ExpectInvalid();
}

TEST_F(EmulatorGraphs, AreInvalidAfterAnInjectedFailureToo) {
  Restart({{"fail", "aclrtMemsetAsync:1=507899"}});
  ASSERT_EQ(Begin(), 0);
  EXPECT_EQ(Acl("aclrtMemsetAsync", b_.data, size_t{8}, int32_t{0}, size_t{8}, stream()), 507899);
  ExpectInvalid();
}

TEST_F(EmulatorGraphs, RefuseToRunWhileTheyAreCaptured) {
  int status = 0;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Acl("aclmdlRICaptureGetInfo", stream(), &status, &graph), 0);
  EXPECT_EQ(status, 1);
  ExpectRefused(Replay(graph, side_), 107026, "the model is being captured");
  aclmdlRI ended = nullptr;
  ASSERT_EQ(End(&ended), 0);
  EXPECT_EQ(ended, graph);
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Replay(graph, stream()), 107027, "the stream is being captured");
  ExpectInvalid();
}

TEST_F(EmulatorGraphs, RefusePageableMemory) {
  Restart({{"pageable", "drain"}});
  std::vector<float> host(2);
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Acl("aclrtMemcpyAsync", a_.data, size_t{8}, static_cast<const void*>(host.data()),
                    size_t{8}, int{ACL_MEMCPY_HOST_TO_DEVICE}, stream()),
                107000, "which is not copied in a capture");
  ExpectInvalid();
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(Acl("aclrtMemcpyAsync", a_.data, size_t{8}, static_cast<const void*>(host.data()),
                    size_t{8}, int{ACL_MEMCPY_HOST_TO_DEVICE}, side_),
                107041, "while another stream is captured");
  ExpectInvalid();
}

// B16
TEST_F(EmulatorGraphs, RunNothingWhileTheyAreCaptured) {
  for (const char* mode : {"eager", "lazy", "random"}) {
    Restart({{"schedule", mode}});
    const aclmdlRI graph = CaptureCopy();
    EXPECT_THAT(DownloadFloats(b_), Each(::testing::IsNan())) << mode;
    ASSERT_EQ(Replay(graph, stream()), 0);
    ASSERT_EQ(Synchronize(), 0);
    EXPECT_THAT(DownloadFloats(b_), ElementsAre(1, 2)) << mode;
  }
}

// B17
TEST_F(EmulatorGraphs, KeepAttributesAndReadMemoryAnew) {
  auto* pinned = MallocHost<float>(2);
  pinned[0] = 1;
  pinned[1] = 2;
  aclScalar* factor = Number(10);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Acl("aclrtMemcpyAsync", a_.data, size_t{8}, static_cast<const void*>(pinned), size_t{8},
                int{ACL_MEMCPY_HOST_TO_DEVICE}, stream()),
            0);
  ASSERT_EQ(RunOn(stream(), "aclnnMuls", a_, factor, b_), 0);
  ASSERT_EQ(End(&graph), 0);
  ASSERT_EQ(Replay(graph, stream()), 0);
  ASSERT_EQ(Synchronize(), 0);
  EXPECT_THAT(DownloadFloats(b_), ElementsAre(10, 20));
  pinned[0] = 5;
  ASSERT_EQ(Replay(graph, side_), 0);
  ASSERT_EQ(Acl("aclrtSynchronizeStream", side_), 0);
  EXPECT_THAT(DownloadFloats(b_), ElementsAre(50, 20));
  EXPECT_EQ(ascend_emulator_counter("copies.h2d.async"), 2)
      << "replays count, the capture does not";
}

TEST_F(EmulatorGraphs, RunSideStreamsInTheOrderOfTheirEvents) {
  for (const char* mode : {"eager", "lazy", "random"}) {
    Restart({{"schedule", mode}});
    aclmdlRI graph = nullptr;
    ASSERT_EQ(Begin(), 0);
    ASSERT_EQ(Queue(stream(), b_, a_), 0);
    ASSERT_EQ(Acl("aclrtRecordEvent", fork_, stream()), 0);
    ASSERT_EQ(Acl("aclrtStreamWaitEvent", side_, fork_), 0);
    ASSERT_EQ(Queue(side_, c_, b_), 0);
    ASSERT_EQ(Acl("aclrtRecordEvent", join_, side_), 0);
    ASSERT_EQ(Acl("aclrtStreamWaitEvent", stream(), join_), 0);
    ASSERT_EQ(RunOn(stream(), "aclnnInplaceZero", b_), 0);
    ASSERT_EQ(End(&graph), 0);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Replay(graph, stream()), 0);
    ASSERT_EQ(Acl("aclrtSynchronizeDevice"), 0);
    EXPECT_THAT(DownloadFloats(c_), ElementsAre(1, 2)) << mode;
    EXPECT_THAT(DownloadFloats(b_), Each(0)) << mode;
  }
}

TEST_F(EmulatorGraphs, ReportARaceInsideThem) {
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", fork_, stream()), 0);
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", side_, fork_), 0);
  ASSERT_EQ(Queue(stream(), b_, a_), 0);
  ASSERT_EQ(Queue(side_, c_, b_), 0);
  ExpectReported("race in a capture: aclnnInplaceCopy reads operand src");
  ASSERT_EQ(Acl("aclrtRecordEvent", join_, side_), 0);
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", stream(), join_), 0);
  EXPECT_EQ(End(&graph), 0);
}

// B18
TEST_F(EmulatorGraphs, ReportMemoryThatIsFreedBeforeThem) {
  void* data = nullptr;
  ASSERT_EQ(Acl("aclrtMalloc", &data, size_t{8}, 0), 0);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(RunOn(stream(), "aclnnInplaceZero", Describe(data, ACL_FLOAT, {2})), 0);
  ASSERT_EQ(End(&graph), 0);
  ASSERT_EQ(Acl("aclrtFree", data), 0);
  ExpectReported("freed before the graph that uses it as selfRef of aclnnInplaceZero is destroyed");
  ExpectRefused(Replay(graph, stream()), kRtInvalidParam, "the model uses freed memory");
}

TEST_F(EmulatorGraphs, ReportAFreedWorkspaceAtTheReplayWhereThatIsAskedFor) {
  Restart({{"graph_free", "replay"}});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  void* workspace = nullptr;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Emulator::Prepare("aclnnInplaceZero", &size, &executor, b_), 0);
  ASSERT_EQ(Acl("aclrtMalloc", &workspace, size_t{size}, 0), 0);
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Launch("aclnnInplaceZero", workspace, size, executor, stream()), 0);
  ASSERT_EQ(End(&graph), 0);
  ASSERT_EQ(Acl("aclrtFree", workspace), 0);
  EXPECT_THAT(TakeReports(), ::testing::IsEmpty());
  ExpectRefused(Replay(graph, stream()), kRtInvalidParam, "as workspace of aclnnInplaceZero");
}

TEST_F(EmulatorGraphs, ReportEventsThatAreDestroyedBeforeThem) {
  aclrtEvent event = nullptr;
  ASSERT_EQ(Acl("aclrtCreateEventExWithFlag", &event, uint32_t{1}), 0);
  aclmdlRI graph = nullptr;
  ASSERT_EQ(Begin(), 0);
  ASSERT_EQ(Acl("aclrtRecordEvent", event, stream()), 0);
  ASSERT_EQ(End(&graph), 0);
  ASSERT_EQ(Acl("aclrtDestroyEvent", event), 0);
  ExpectReported("is destroyed before the graph that it was captured in");
}

// B19
TEST_F(EmulatorGraphs, RefuseToRunBesideThemselves) {
  Restart({{"schedule", "lazy"}});
  const aclmdlRI graph = CaptureCopy();
  ASSERT_EQ(Replay(graph, stream()), 0);
  ExpectRefused(Replay(graph, side_), 107037, "its previous run is on another stream");
  ExpectRefused(Acl("aclmdlRIDestroy", graph), 107037, "has not waited for its last run");
  ASSERT_EQ(Replay(graph, stream()), 0) << "one behind the other is fine";
  ASSERT_EQ(Acl("aclrtRecordEvent", fork_, stream()), 0);
  ASSERT_EQ(Acl("aclrtStreamWaitEvent", side_, fork_), 0);
  EXPECT_EQ(Replay(graph, side_), 0);
}

// B20
TEST_F(EmulatorGraphs, RefuseOperatorsWhoseOutputHasAShapeThatDependsOnData) {
  const auto rows = Empty({2, 1}, ACL_INT64);
  ASSERT_EQ(RunOn(stream(), "aclnnNonzero", a_, rows), 0);
  EXPECT_THAT(Download<int64_t>(rows), ElementsAre(0, 1)) << "it waits by itself";
  ASSERT_EQ(Begin(), 0);
  ExpectRefused(RunOn(stream(), "aclnnNonzero", a_, rows), 107027,
                "the shape of its output depends on data");
  ExpectInvalid();
}

TEST_F(EmulatorGraphs, AreReportedWhenTheyLeak) {
  CaptureCopy();
  graphs_.clear();
  TearDownDevice();
  const auto reports = TakeReports();
  EXPECT_THAT(reports, ::testing::Contains(HasSubstr("leak: a captured graph was not destroyed")));
  EXPECT_THAT(reports, ::testing::Contains(HasSubstr("freed before the graph that uses it as")));
}

}  // namespace
}  // namespace ascend_emulator
