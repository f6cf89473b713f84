#include "backends/cpu/ops/linear/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Linear, "linear")

// Row c of the identity brings out column c of the weight.
TEST(Linear, MultipliesByTheElementsThatTheFormatDefines) {
  ProblemData data(1);
  Context context(2, Isa::kRef);
  for (const MatrixFormat format :
       {MatrixFormat::kF32, MatrixFormat::kBf16, MatrixFormat::kFp8Block, MatrixFormat::kFp4Block,
        MatrixFormat::kInt8Channel}) {
    const int64_t rows = 131;
    const int64_t cols = 160;
    std::vector<float> identity(static_cast<size_t>(cols * cols));
    for (int64_t c = 0; c < cols; ++c) {
      identity[static_cast<size_t>(c * cols + c)] = 1;
    }
    LinearParams params;
    params.x = data.Floats({cols, cols}, identity);
    params.w = data.Weight(format, rows, cols);
    params.y = data.Unwritten(DType::kF32, {cols, rows});
    Linear(params, context);
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t row = 0; row < rows; ++row) {
        ASSERT_EQ(params.y.As<float>()[c * rows + row], ElementOf(params.w, row, c))
            << NameOf(format) << " " << row << ", " << c;
      }
    }
  }
}

TEST(Linear, GivesEachGroupItsColumnsAndRows) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  LinearParams params;
  params.x = data.Floats({1, 4}, {1, 10, 100, 1000});
  params.w = {MatrixFormat::kF32, 4, 2, data.Floats({4, 2}, {1, 1, 2, 0, 1, 1, 0, 3}), {}};
  params.y = data.Floats({1, 4}, {0.5F, 0, 0, 0.5F});
  params.groups = 2;
  params.accumulate = true;
  Linear(params, context);
  EXPECT_EQ(ValuesOf({"", params.y, {}}), (std::vector<float>{11.5F, 2, 1100, 3000.5F}));
}

TEST(LinearDeathTest, RefusesWeightsThatAreNotAsTheyClaim) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  LinearParams params;
  params.x = data.Normal({2, 64});
  params.w = data.Weight(MatrixFormat::kFp4Block, 6, 64);
  params.y = data.Unwritten(DType::kF32, {2, 6});
  params.groups = 4;
  EXPECT_DEATH(Linear(params, context), "groups");
  params.groups = 1;
  params.w.scales = params.w.scales.Rows(0, 5);
  EXPECT_DEATH(Linear(params, context), "w is \\[5, 2\\], expected \\[6, 2\\]");
  params.w = data.Weight(MatrixFormat::kF32, 6, 32);
  EXPECT_DEATH(Linear(params, context), "x is \\[2, 64\\], expected \\[-1, 32\\]");
  params.x = params.y = data.Normal({2, 32});
  params.w = data.Weight(MatrixFormat::kF32, 32, 32);
  EXPECT_DEATH(Linear(params, context), "y and x overlap");
}

}  // namespace
}  // namespace cachalot::cpu
