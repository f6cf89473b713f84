#include "emulator_fixture.h"

namespace ascend_emulator {
namespace {

using ::testing::ElementsAre;

using EmulatorOps = Emulator;

TEST_F(EmulatorOps, AddsTwoTensorsOnADevice) {
  const auto a = UploadFloats({2, 2}, ACL_BF16, {1, 2, 3, 4});
  const auto b = UploadFloats({2}, ACL_BF16, {10, 20});
  const auto sum = Empty({2, 2}, ACL_BF16);
  ASSERT_EQ(Run("aclnnAdd", a, b, Number(2), sum), 0);
  EXPECT_THAT(DownloadFloats(sum), ElementsAre(21, 42, 23, 44));
}

TEST_F(EmulatorOps, RefusesAnOperandOfAnotherDtypeByName) {
  const auto a = UploadFloats({2}, ACL_BF16, {1, 2});
  const auto b = UploadFloats({2}, ACL_FLOAT, {1, 2});
  const auto sum = Empty({2}, ACL_BF16);
  ExpectRefused(Run("aclnnAdd", a, b, Number(1), sum), kAclnnInvalid,
                "aclnnAdd: other: dtype FLOAT is none of: BF16");
}

}  // namespace
}  // namespace ascend_emulator
