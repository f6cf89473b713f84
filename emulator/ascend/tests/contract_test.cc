// What operators ask of those who call them, flavours and names, and the emulator's own settings.
#include <cmath>

#include "emulator_fixture.h"
#include "export.h"
#include "settings.h"

namespace ascend_emulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EmulatorContract : public Emulator {
 protected:
  // The first phase of b = 0; the executor is the test's.
  aclOpExecutor* Zero(const DeviceTensor& b, uint64_t* size) {
    aclOpExecutor* executor = nullptr;
    EXPECT_EQ(Prepare("aclnnInplaceZero", size, &executor, b), 0);
    EXPECT_GT(*size, 0);
    return executor;
  }
};
using EmulatorContractDeathTest = EmulatorContract;

TEST_F(EmulatorContract, AddsTwoTensorsOnADevice) {
  const auto a = UploadFloats({2, 2}, ACL_BF16, {1, 2, 3, 4});
  const auto b = UploadFloats({2}, ACL_BF16, {10, 20});
  const auto sum = Empty({2, 2}, ACL_BF16);
  ASSERT_EQ(Run("aclnnAdd", a, b, Number(2), sum), 0);
  EXPECT_THAT(DownloadFloats(sum), ElementsAre(21, 42, 23, 44));
}

TEST_F(EmulatorContract, MultipliesCastsAndCopiesStridedViews) {
  const auto a = UploadFloats({2, 2}, ACL_FLOAT, {1.5F, 2.5F, -1.5F, 4});
  const auto twice = Empty({2, 2}, ACL_FLOAT);
  ASSERT_EQ(Run("aclnnMuls", a, Number(2), twice), 0);
  EXPECT_THAT(DownloadFloats(twice), ElementsAre(3, 5, -3, 8));
  const auto product = Empty({2, 2}, ACL_FLOAT);
  ASSERT_EQ(Run("aclnnMul", a, twice, product), 0);
  EXPECT_THAT(DownloadFloats(product), ElementsAre(4.5F, 12.5F, 4.5F, 32));
  const auto whole = Empty({2, 2}, ACL_INT32);
  ASSERT_EQ(Run("aclnnCast", a, int{ACL_INT32}, whole), 0);
  EXPECT_THAT(Download<int32_t>(whole), ElementsAre(1, 2, -1, 4));
  const auto transposed = Empty({2, 2}, ACL_FLOAT);
  const aclTensor* view = Describe(a.data, ACL_FLOAT, {2, 2}, {1, 2});
  ASSERT_EQ(Run("aclnnInplaceCopy", transposed, view), 0);
  EXPECT_THAT(DownloadFloats(transposed), ElementsAre(1.5F, -1.5F, 2.5F, 4));
  const auto sum = Empty({2, 2}, ACL_INT32);
  ASSERT_EQ(Run("aclnnAdd", whole, whole, Number(-1), sum), 0);
  EXPECT_THAT(Download<int32_t>(sum), ElementsAre(0, 0, 0, 0));
}

TEST_F(EmulatorContract, NamesTheOperandThatIsNotWhatTheOperatorTakes) {
  const auto a = UploadFloats({2}, ACL_BF16, {1, 2});
  const auto b = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto sum = Empty({2}, ACL_BF16);
  const auto wide = Empty({3}, ACL_BF16);
  ExpectRefused(Run("aclnnAdd", a, b, Number(1), sum), kAclnnInvalid,
                "aclnnAdd: other: dtype FLOAT is none of: BF16");
  ExpectRefused(Run("aclnnAdd", a, nullptr, Number(1), sum), kAclnnNull,
                "aclnnAdd: other: is null");
  ExpectRefused(Run("aclnnMuls", a, Number(1), wide), kAclnnInvalid,
                "out: shape [3], expected [2]");
}

// B21
TEST_F(EmulatorContract, RefusesAnExecutorThatIsUsedUp) {
  const auto b = Empty({2}, ACL_FLOAT);
  uint64_t size = 0;
  aclOpExecutor* executor = Zero(b, &size);
  void* workspace = Malloc(size);
  ASSERT_EQ(Launch("aclnnInplaceZero", workspace, size, executor, stream()), 0);
  ExpectRefused(Launch("aclnnInplaceZero", workspace, size, executor, stream()), kAclnnExecutor,
                "the executor is gone already: aclnnInplaceZero(workspace");
}

TEST_F(EmulatorContract, UsesUpTheExecutorOfASecondPhaseThatFails) {
  const auto b = Empty({2}, ACL_FLOAT);
  uint64_t size = 0;
  aclOpExecutor* executor = Zero(b, &size);
  ExpectRefused(Launch("aclnnInplaceZero", nullptr, size, executor, stream()), kAclnnNull,
                "the workspace is null, 4096 bytes are needed");
  ExpectRefused(Launch("aclnnInplaceZero", Malloc(size), size, executor, stream()), kAclnnExecutor,
                "the executor is gone already");
}

TEST_F(EmulatorContract, RefusesAWorkspaceThatIsTooSmallOrShared) {
  const auto b = Empty({2}, ACL_FLOAT);
  uint64_t size = 0;
  void* workspace = Malloc(4096);
  aclOpExecutor* executor = Zero(b, &size);
  ExpectRefused(Launch("aclnnInplaceZero", workspace, size - 1, executor, stream()), kAclnnInvalid,
                "the workspace has 4095 bytes, 4096 are needed");
  executor = Zero(b, &size);
  ExpectRefused(Launch("aclnnInplaceZero", b.data, size, executor, stream()), kAclnnInvalid,
                "the workspace reaches past the end of allocation");
  aclTensor* inside = Describe(workspace, ACL_FLOAT, {2});
  uint64_t again = 0;
  ASSERT_EQ(Prepare("aclnnInplaceZero", &again, &executor, inside), 0);
  ExpectRefused(Launch("aclnnInplaceZero", workspace, size, executor, stream()), kAclnnInvalid,
                "the workspace overlaps selfRef in allocation");
}

TEST_F(EmulatorContract, ReportsAWorkspaceThatTwoStreamsHaveAtATime) {
  const auto b = Empty({2}, ACL_FLOAT);
  const auto c = Empty({2}, ACL_FLOAT);
  uint64_t size = 0;
  void* workspace = Malloc(4096);
  ASSERT_EQ(Launch("aclnnInplaceZero", workspace, size = 4096, Zero(b, &size), stream()), 0);
  ASSERT_EQ(Launch("aclnnInplaceZero", workspace, size, Zero(c, &size), stream()), 0);
  EXPECT_THAT(TakeReports(), IsEmpty()) << "one stream may";
  ASSERT_EQ(Launch("aclnnInplaceZero", workspace, size, Zero(c, &size), NewStream()), 0);
  ExpectReported("race: aclnnInplaceZero writes operand workspace on one stream");
}

TEST_F(EmulatorContract, RefusesASecondPhaseOfAnotherOperatorOrOnAnotherDevice) {
  const auto b = Empty({2}, ACL_FLOAT);
  uint64_t size = 0;
  aclOpExecutor* executor = Zero(b, &size);
  void* workspace = Malloc(size);
  ExpectRefused(Launch("aclnnAdd", workspace, size, executor, stream()), kAclnnInvalid,
                "the executor was made by aclnnInplaceZeroGetWorkspaceSize(selfRef FLOAT[2])");
  executor = Zero(b, &size);
  ASSERT_EQ(Acl("aclrtSetDevice", int32_t{1}), 0);
  ExpectRefused(Launch("aclnnInplaceZero", workspace, size, executor, nullptr), kAclnnRuntime,
                "the executor was made for device 0");
  ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
}

TEST_F(EmulatorContract, RefusesASecondPhaseWhoseOperandWasFreedMeanwhile) {
  void* data = nullptr;
  ASSERT_EQ(Acl("aclrtMalloc", &data, size_t{8}, 0), 0);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(Prepare("aclnnInplaceZero", &size, &executor, Describe(data, ACL_FLOAT, {2})), 0);
  ASSERT_EQ(Acl("aclrtFree", data), 0);
  ExpectRefused(Launch("aclnnInplaceZero", Malloc(size), size, executor, stream()), kAclnnInvalid,
                "selfRef was freed after the first phase");
}

TEST_F(EmulatorContract, ReportsAnExecutorThatIsNeverRun) {
  const auto b = Empty({2}, ACL_FLOAT);
  uint64_t size = 0;
  Zero(b, &size);
  TearDownDevice();
  ExpectReported("leak: an executor was not run and was not destroyed");
}

TEST_F(EmulatorContract, RunsARepeatableExecutorAgainUntilItIsDestroyed) {
  const auto b = Empty({2}, ACL_FLOAT);
  uint64_t size = 0;
  aclOpExecutor* executor = Zero(b, &size);
  void* workspace = Malloc(size);
  ASSERT_EQ(Acl("aclSetAclOpExecutorRepeatable", executor), 0);
  ASSERT_EQ(Launch("aclnnInplaceZero", workspace, size, executor, stream()), 0);
  ASSERT_EQ(Launch("aclnnInplaceZero", workspace, size, executor, stream()), 0);
  ASSERT_EQ(Synchronize(), 0);
  ASSERT_EQ(Acl("aclDestroyAclOpExecutor", executor), 0);
  ExpectRefused(Acl("aclDestroyAclOpExecutor", executor), kAclnnExecutor,
                "the executor is gone already");
}

TEST_F(EmulatorContract, KnowsHandlesForWhatTheyAre) {
  const auto b = Empty({2}, ACL_FLOAT);
  const auto* array = reinterpret_cast<const aclTensor*>(Integers({1, 2}));
  ExpectRefused(Run("aclnnInplaceCopy", b, array), kAclnnInvalid,
                "src: is no aclTensor but an aclIntArray");
  const auto* number = reinterpret_cast<const aclTensor*>(uintptr_t{64});
  ExpectRefused(Run("aclnnInplaceCopy", b, number), kAclnnInvalid, "src: (0x40) is no aclTensor");
}

TEST_F(EmulatorContract, DestroysTheMembersOfAListWithIt) {
  const auto b = Empty({2}, ACL_FLOAT);
  aclTensorList* list = List({b});
  ASSERT_EQ(Acl("aclDestroyTensor", static_cast<const aclTensor*>(b.handle)), 0);
  TearDownDevice();
  ExpectReported("a list destroys its members: number 0 is gone already: aclDestroyTensor");
  (void)list;
}

// B26
TEST(EmulatorFlavours, AnswerWithTheFunctionThatThePackageHas) {
  int custom = 0;
  int official = 0;
  int standard = 0;
  SetNames({.flavour = Flavour::kCustom});
  EXPECT_EQ(Resolve("aclnnFoo", &custom, &official, &standard), &custom);
  EXPECT_EQ(Resolve("aclnnFoo", nullptr, &official, nullptr), nullptr);
  SetNames({.flavour = Flavour::kOfficial});
  EXPECT_EQ(Resolve("aclnnFoo", &custom, &official, nullptr), &official);
  EXPECT_EQ(Resolve("aclnnFoo", &custom, nullptr, nullptr), nullptr);
  EXPECT_EQ(Resolve("aclnnFoo", &custom, nullptr, &standard), &standard);
  SetNames({.flavour = Flavour::kBoth});
  EXPECT_EQ(Resolve("aclnnFoo", &custom, &official, nullptr), &custom);
  EXPECT_EQ(Resolve("aclnnFoo", nullptr, &official, nullptr), &official);
}

// B27
TEST_F(EmulatorContract, HidesTheFunctionsThatTheSettingNames) {
  EXPECT_NE(Find<void()>("aclnnMuls"), nullptr);
  ASSERT_EQ(ascend_emulator_set("hide", "aclnnMuls,aclrtGetSocName"), nullptr);
  EXPECT_EQ(Find<void()>("aclnnMuls"), nullptr);
  EXPECT_EQ(Find<void()>("aclrtGetSocName"), nullptr);
  EXPECT_NE(Find<void()>("aclnnMul"), nullptr);
  ASSERT_EQ(ascend_emulator_set("hide", ""), nullptr);
  EXPECT_NE(Find<void()>("aclnnMuls"), nullptr);
}

TEST_F(EmulatorContract, HasNoSymbolThatItDoesNotEmulate) {
  for (const char* name :
       {"aclrtGetRecentErrMsg", "aclrtCreateEvent", "aclnnInit", "HcclAllReduce"}) {
    EXPECT_EQ(Find<void()>(name), nullptr) << name;
  }
}

TEST_F(EmulatorContract, TellsWhatDeviceItStandsFor) {
  int64_t cores = 0;
  EXPECT_STREQ(Acl<const char*>("aclrtGetSocName"), "Ascend910_9391");
  ASSERT_EQ(Acl("aclGetDeviceCapability", uint32_t{0}, 0, &cores), 0);
  EXPECT_EQ(cores, 24);
  ASSERT_EQ(ascend_emulator_set("cores", "20"), nullptr);
  ASSERT_EQ(Acl("aclrtGetDeviceInfo", uint32_t{0}, 201, &cores), 0);
  EXPECT_EQ(cores, 40);
  EXPECT_THAT(ascend_emulator_set("cores", "21"), HasSubstr("\"21\" is none of: 20, 24"));
  EXPECT_THAT(ascend_emulator_set("fail", "aclrtMalloc=3"), HasSubstr("CALL:N=CODE"));
  EXPECT_THAT(ascend_emulator_set("colour", "red"), HasSubstr("no such setting"));
}

TEST_F(EmulatorContract, FailsEitherPhaseOfAnOperatorOnDemandWithoutAReport) {
  Configure({{"fail", "aclnnInplaceZero:2=361001,aclnnInplaceZeroGetWorkspaceSize:3=561002"}});
  const auto b = Empty({2}, ACL_FLOAT);
  EXPECT_EQ(Run("aclnnInplaceZero", b), 0);
  EXPECT_EQ(Run("aclnnInplaceZero", b), 361001);
  EXPECT_THAT(Message(), HasSubstr("injected"));
  EXPECT_EQ(Run("aclnnInplaceZero", b), 561002);
  EXPECT_EQ(Run("aclnnInplaceZero", b), 0);
  EXPECT_THAT(TakeReports(), IsEmpty());
}

TEST_F(EmulatorContractDeathTest, AbortsAtTheFirstReportOnDemand) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ascend_emulator_set("reports", "abort");
        Acl("aclrtFree", static_cast<void*>(nullptr));
      },
      "ascend emulator: aclrtFree refused with 100000: the pointer is null");
}

TEST_F(EmulatorContract, IsInitialisedOnceAtATime) {
  EXPECT_EQ(Acl("aclInit", static_cast<const char*>(nullptr)), 100002);
  TearDownDevice();
  ExpectRefused(Acl("aclFinalize"), 100037, "aclInit was not called");
  ExpectRefused(Acl("aclrtSetDevice", int32_t{0}), 100001, "aclInit was not called");
}

TEST(EmulatorHalf, RoundsToNearestEven) {
  EXPECT_EQ(ToBf16(1.00390625F), 0x3f80);  // halfway, to the even one below
  EXPECT_EQ(ToBf16(1.01171875F), 0x3f82);  // halfway, to the even one above
  EXPECT_EQ(ToBf16(3.4e38F), 0x7f80);
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(std::nanf("")))));
  EXPECT_EQ(ToFp16(1.00048828125F), 0x3c00);
  EXPECT_EQ(ToFp16(65519.F), 0x7bff);
  EXPECT_EQ(ToFp16(65520.F), 0x7c00);
  EXPECT_EQ(ToFp16(0x1.8p-24F), 0x0002);
  EXPECT_TRUE(std::isnan(FromFp16(ToFp16(std::nanf("")))));
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    ASSERT_EQ(ToFp16(FromFp16(static_cast<uint16_t>(half))), half);
    ASSERT_EQ(ToBf16(FromBf16(static_cast<uint16_t>(half))), half);
  }
}

}  // namespace
}  // namespace ascend_emulator
