#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {
namespace {

std::vector<float> Values(const Tensor& tensor) { return ValuesOf({"", tensor, {}}); }

TEST(Embedding, TakesRowsOfTheTableInTheOrderOfTheIds) {
  ProblemData data(1);
  Context context(2, Isa::kRef);
  for (const MatrixFormat format : {MatrixFormat::kF32, MatrixFormat::kBf16}) {
    const Matrix table = data.Weight(format, 5, 7);
    const std::vector<int32_t> ids = {4, 0, 4};
    EmbeddingParams params{data.Ints({3}, ids), table, data.Unwritten(DType::kF32, {3, 7})};
    Embedding(params, context);
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t c = 0; c < 7; ++c) {
        EXPECT_EQ(params.y.As<float>()[t * 7 + c],
                  ElementOf(table, ids[static_cast<size_t>(t)], c));
      }
    }
  }
}

TEST(Embedding, DoesNothingForNoTokens) {
  ProblemData data(1);
  Context context(2, Isa::kRef);
  EmbeddingParams params{data.Ints({0}, {}), data.Weight(MatrixFormat::kBf16, 5, 7),
                         data.Unwritten(DType::kF32, {0, 7})};
  Embedding(params, context);
  EXPECT_TRUE(Values(params.y).empty());
}

TEST(EmbeddingDeathTest, RefusesIdsOutsideTheTableAndOtherFormats) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  EmbeddingParams params{data.Ints({2}, {1, 5}), data.Weight(MatrixFormat::kBf16, 5, 64),
                         data.Unwritten(DType::kF32, {2, 64})};
  EXPECT_DEATH(Embedding(params, context), "ids\\[1\\] is 5, expected 0 to 4");
  params.ids = data.Ints({2}, {1, -1});
  EXPECT_DEATH(Embedding(params, context), "ids\\[1\\] is -1");
  params.table = data.Weight(MatrixFormat::kFp8Block, 5, 64);
  EXPECT_DEATH(Embedding(params, context), "table is fp8");
}

}  // namespace
}  // namespace cachalot::cpu
