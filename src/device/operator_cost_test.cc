#include "device/operator_cost.h"

#include <gtest/gtest.h>

#include <vector>

namespace cachalot {
namespace {

// Costs read shapes and indices alone.
uint8_t no_values[1];

Tensor Of(DType dtype, const Shape& shape) { return {no_values, dtype, shape}; }
Tensor Of(std::vector<int32_t>& values, const Shape& shape) {
  return {values.data(), DType::kI32, shape};
}

Matrix Fp4(int64_t rows, int64_t cols) {
  return {MatrixFormat::kFp4Block, rows, cols, Of(DType::kI8, {rows, cols / 2}),
          Of(DType::kF8E8M0, {rows, cols / kFp4BlockSize})};
}

TEST(OperatorCost, OfALinearIsItsMatrixOnceAndAProductForEachToken) {
  LinearParams params;
  params.x = Of(DType::kF32, {3, 64});
  params.w = Fp4(10, 64);
  params.y = Of(DType::kF32, {3, 10});
  const OperatorCost cost = CostOf(params);
  EXPECT_EQ(cost.bytes, 3 * 64 * 4 + 10 * 34 + 3 * 10 * 4);
  EXPECT_EQ(cost.flops, 2 * 3 * 10 * 64);
  params.accumulate = true;
  EXPECT_EQ(CostOf(params).bytes, cost.bytes + 3 * 10 * 4);
  params.x = Of(DType::kF32, {0, 64});
  EXPECT_EQ(CostOf(params).bytes, 0);
}

TEST(OperatorCost, OfAGroupedLinearIsThatOfItsGroups) {
  LinearParams params;
  params.x = Of(DType::kF32, {2, 4 * 32});
  params.w = Fp4(8, 32);
  params.y = Of(DType::kF32, {2, 8});
  params.groups = 4;
  EXPECT_EQ(CostOf(params).flops, 2 * 2 * 8 * 32);
}

TEST(OperatorCost, OfExpertsCountsThoseThatAreHitOnce) {
  std::vector<ExpertWeights> experts(5, {Fp4(32, 64), Fp4(64, 32), Fp4(32, 64)});
  std::vector<int32_t> chosen = {3, 1, 1, 3, 3, 0};
  ExpertsParams params;
  params.x = Of(DType::kF32, {3, 64});
  params.experts = Of(chosen, {3, 2});
  params.weights = Of(DType::kF32, {3, 2});
  params.routed = std::span(experts).first(4);
  params.shared = &experts[4];
  params.y = Of(DType::kF32, {3, 64});
  const OperatorCost cost = CostOf(params);
  const double expert_bytes = 2 * 32 * 34 + 64 * 17;
  EXPECT_EQ(cost.bytes, (3 + 1) * expert_bytes + 2 * 3 * 64 * 4 + 2 * 3 * 2 * 4);
  EXPECT_EQ(cost.flops, (6 + 3) * 3 * 2 * 32 * 64);
}

// Two requests: tokens 0 to 2 from position 4 on, token 3 at position 100.
class WithRequests : public testing::Test {
 protected:
  std::vector<int32_t> starts_ = {0, 3, 4};
  std::vector<int32_t> positions_ = {4, 100};
  StepRequests requests_ = {Of(starts_, {3}), Of(positions_, {2})};
};

TEST_F(WithRequests, AttentionReadsEachRowOfARequestOnce) {
  std::vector<int32_t> begin = {0, 0, 0, 85};
  std::vector<int32_t> end = {5, 6, 7, 101};
  std::vector<int32_t> selected = {0, -1, 0, -1, 0, -1, 3, 24};
  const RowLayout row{RowFormat::kBf16, RowRounding::kNone, 64, 0};
  AttentionParams params;
  params.q = Of(DType::kF32, {4, 2, 64});
  params.o = params.q;
  params.requests = requests_;
  params.window = {no_values, row, 1};
  params.key_begin = Of(begin, {4});
  params.key_end = Of(end, {4});
  const double vectors = 2 * 4 * 2 * 64 * 4;
  EXPECT_EQ(CostOf(params).bytes, vectors + (7 + 16) * 128);
  EXPECT_EQ(CostOf(params).flops, 4.0 * (5 + 6 + 7 + 16) * 2 * 64);

  params.ratio = 4;
  params.entries = params.window;
  EXPECT_EQ(CostOf(params).bytes, vectors + (7 + 16 + 1 + 25) * 128);
  EXPECT_EQ(CostOf(params).flops, 4.0 * (5 + 6 + 7 + 16 + 1 + 1 + 1 + 25) * 2 * 64);

  params.selected = Of(selected, {4, 2});
  EXPECT_EQ(CostOf(params).bytes, vectors + (7 + 16 + 1 + 2) * 128);
  EXPECT_EQ(CostOf(params).flops, 4.0 * (5 + 6 + 7 + 16 + 1 + 1 + 1 + 2) * 2 * 64);
}

TEST_F(WithRequests, IndexerScoresOnlyWhereThereIsAChoice) {
  const RowLayout row{RowFormat::kFp4, RowRounding::kFp4, 128, 0};
  IndexerParams params;
  params.q = Of(DType::kF32, {4, 8, 128});
  params.weights = Of(DType::kF32, {4, 8});
  params.keys = {no_values, row, 1};
  params.requests = requests_;
  params.top_k = 2;
  params.selected = Of(DType::kI32, {4, 2});
  EXPECT_EQ(CostOf(params).bytes, 4 * 8 * 128 * 4 + 4 * 8 * 4 + 4 * 2 * 4 + 25 * 68);
  EXPECT_EQ(CostOf(params).flops, 2.0 * 25 * 8 * 128);
}

}  // namespace
}  // namespace cachalot
