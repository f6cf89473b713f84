// The standard operators but those of the experts, each against its formula.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "op_call.h"

namespace ascend_emulator::standard {
namespace {

using ::testing::HasSubstr;

constexpr double kBf16 = 1.0 / 256;  // half a place, and what sums in another order add
constexpr int8_t kKeep = 0;          // cubeMathType

using StandardOps = OpTest;

// x [m, k] · w, element (k, n) of w at k * k_step + n * n_step.
std::vector<double> Product(const std::vector<float>& x, const std::vector<float>& w, int64_t m,
                            int64_t k, int64_t n, int64_t k_step, int64_t n_step) {
  std::vector<double> out;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += static_cast<double>(x[row * k + i]) * w[i * k_step + column * n_step];
      }
      out.push_back(sum);
    }
  }
  return out;
}

// Where FRACTAL_NZ has element (row, column) of a matrix with so many rows.
int64_t NzPlace(int64_t row, int64_t column, int64_t rows, int64_t c0) {
  const int64_t row_tiles = (rows + 15) / 16;
  return column / c0 * row_tiles * 16 * c0 + row / 16 * 16 * c0 + row % 16 * c0 + column % c0;
}

std::vector<int64_t> NzShape(int64_t rows, int64_t columns, int64_t c0) {
  return {(columns + c0 - 1) / c0, (rows + 15) / 16, 16, c0};
}

// A matrix [rows, columns], or several, in FRACTAL_NZ; padded with what must not be read as zero.
Array ToNz(const Array& matrix) {
  const size_t rank = matrix.shape.size();
  const int64_t rows = matrix.shape[rank - 2];
  const int64_t columns = matrix.shape[rank - 1];
  const auto element = BytesPerElement(matrix.dtype);
  const auto c0 = static_cast<int64_t>(32 / element);
  const std::vector<int64_t> tiles = NzShape(rows, columns, c0);
  const int64_t stored = CountOf(tiles);
  const int64_t count = CountOf(matrix.shape) / (rows * columns);
  Array nz = matrix;
  nz.format = ACL_FORMAT_FRACTAL_NZ;
  nz.storage.assign(matrix.shape.begin(), matrix.shape.end() - 2);
  nz.storage.insert(nz.storage.end(), tiles.begin(), tiles.end());
  nz.bytes.assign(static_cast<size_t>(stored * count) * element, std::byte{0});
  for (int64_t batch = 0; batch < count; ++batch) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const auto from = static_cast<size_t>((batch * rows + row) * columns + column) * element;
        const auto to =
            static_cast<size_t>(batch * stored + NzPlace(row, column, rows, c0)) * element;
        std::copy_n(matrix.bytes.begin() + static_cast<int64_t>(from), element,
                    nz.bytes.begin() + static_cast<int64_t>(to));
      }
    }
  }
  return nz;
}

// The last two axes of the view exchanged.
Array TransposedView(Array matrix) {
  const size_t rank = matrix.shape.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t axis = rank; axis-- > 1;) strides[axis - 1] = strides[axis] * matrix.shape[axis];
  std::swap(strides[rank - 1], strides[rank - 2]);
  std::swap(matrix.shape[rank - 1], matrix.shape[rank - 2]);
  matrix.strides = strides;
  return matrix;
}

TEST_F(StandardOps, EmbeddingTakesRowsAndFaultsOutsideTheTable) {
  Random random(1);
  const Array table = random.Normal(ACL_BF16, {10, 6});
  for (const bool wide : {false, true}) {
    Array out = Out(ACL_BF16, {2, 2, 6});
    const Array ids = wide ? Longs({2, 2}, {9, 0, 3, 3}) : Ints({2, 2}, {9, 0, 3, 3});
    ASSERT_TRUE(Call("aclnnEmbedding", table, ids, out).ok());
    const std::vector<float> rows = Floats(table);
    const std::vector<float> got = Floats(out);
    const std::vector<int64_t> expected = {9, 0, 3, 3};
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(got[i], rows[expected[i / 6] * 6 + i % 6]);
  }
  Array out = Out(ACL_BF16, {1, 6});
  const Outcome outcome = Call("aclnnEmbedding", table, Ints({1}, {10}), out);
  EXPECT_EQ(outcome.wait, kVectorCoreException);
  EXPECT_THAT(outcome.message, HasSubstr("indices[0] is 10, outside [0, 10)"));
  Array none = Out(ACL_BF16, {0, 6});
  EXPECT_TRUE(Call("aclnnEmbedding", table, Longs({0}, {}), none).ok());
}

TEST_F(StandardOps, EmbeddingRefusesOtherIndicesAndShapes) {
  const Array table = Real(ACL_FLOAT, {2, 3}, {1, 2, 3, 4, 5, 6});
  Array out = Out(ACL_FLOAT, {1, 3});
  Outcome outcome = Call("aclnnEmbedding", table, Bytes({1}, {0}), out);
  EXPECT_EQ(outcome.size, kAclnnInvalid);
  EXPECT_THAT(outcome.message, HasSubstr("indices: dtype INT8"));
  outcome = Call("aclnnEmbedding", table, Ints({2}, {0, 1}), out);
  EXPECT_EQ(outcome.size, kAclnnInvalid);
  EXPECT_THAT(outcome.message, HasSubstr("out: shape [1, 3], expected [2, 3]"));
  EXPECT_EQ(Call("aclnnEmbedding", table, nullptr, out).size, kAclnnNull);
}

TEST_F(StandardOps, IndexSelectAndCatWorkAlongAnyAxisOfStridedViews) {
  Array view = Real(ACL_FLOAT, {2, 3}, {0, 1, 2, 9, 10, 11, 12, 9});
  view.strides = {4, 1};
  Array out = Out(ACL_FLOAT, {2, 2});
  ASSERT_TRUE(Call("aclnnIndexSelect", view, int64_t{1}, Longs({2}, {2, 0}), out).ok());
  EXPECT_EQ(Floats(out), (std::vector<float>{2, 0, 12, 10}));
  ASSERT_TRUE(Call("aclnnIndexSelect", view, int64_t{1}, Ints({2}, {1, 3}), out).wait ==
              kVectorCoreException);

  Array other = Real(ACL_FLOAT, {2, 1}, {5, 6});
  Array joined = Out(ACL_FLOAT, {2, 4});
  ASSERT_TRUE(Call("aclnnCat", Tensors{{&view, &other}}, int64_t{-1}, joined).ok());
  EXPECT_EQ(Floats(joined), (std::vector<float>{0, 1, 2, 5, 10, 11, 12, 6}));
  const Outcome outcome = Call("aclnnCat", Tensors{{&view, &other}}, int64_t{0}, joined);
  EXPECT_EQ(outcome.size, kAclnnInvalid);
  EXPECT_THAT(outcome.message, HasSubstr("tensors[1]: shape [2,1] where [2,3] is expected"));
  EXPECT_THAT(Call("aclnnCat", Tensors{{&view}}, int64_t{2}, joined).message,
              HasSubstr("dim 2 is outside [-2, 2)"));
}

std::vector<double> Norm(const std::vector<float>& x, const std::vector<float>& gamma, double eps,
                         std::vector<double>* inverse = nullptr) {
  const size_t width = gamma.size();
  std::vector<double> out;
  for (size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i)
      squares += static_cast<double>(x[row * width + i]) * x[row * width + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    if (inverse != nullptr) inverse->push_back(scale);
    for (size_t i = 0; i < width; ++i) out.push_back(x[row * width + i] * scale * gamma[i]);
  }
  return out;
}

TEST_F(StandardOps, RmsNormScalesRowsAndGivesTheirScale) {
  Random random(2);
  for (const int64_t rows : {0, 1, 5}) {
    Array x = random.Normal(ACL_BF16, {rows, 2, 37});
    const Array gamma = random.Normal(ACL_BF16, {37});
    Array y = Out(ACL_BF16, {rows, 2, 37});
    Array rstd = Out(ACL_FLOAT, {rows, 2, 1});
    ASSERT_TRUE(Call("aclnnRmsNorm", x, gamma, 1e-6, y, rstd).ok());
    std::vector<double> inverse;
    ExpectNear(Floats(y), Norm(Floats(x), Floats(gamma), 1e-6, &inverse), kBf16);
    ExpectNear(Floats(rstd), inverse, 1e-5);
  }
  // Strided rows in, strided rows out.
  Array x = random.Normal(ACL_FLOAT, {3, 8});
  const std::vector<float> all = Floats(x);
  x.shape = {3, 5};
  x.strides = {8, 1};
  x.offset = 1;
  Array y = Out(ACL_FLOAT, {3, 5});
  Array rstd = Out(ACL_FLOAT, {3, 1});
  ASSERT_TRUE(Call("aclnnRmsNorm", x, Real(ACL_FLOAT, {5}, {1, 1, 1, 1, 1}), 1e-5, y, rstd).ok());
  std::vector<float> rows;
  for (int64_t row = 0; row < 3; ++row)
    rows.insert(rows.end(), &all[row * 8 + 1], &all[row * 8 + 6]);
  ExpectNear(Floats(y), Norm(rows, {1, 1, 1, 1, 1}, 1e-5), 1e-5);
}

TEST_F(StandardOps, RmsNormTellsOfShapesAsTiling) {
  const Array x = Out(ACL_BF16, {2, 4});
  Array y = Out(ACL_BF16, {2, 4});
  Array rstd = Out(ACL_FLOAT, {2});
  const Outcome outcome = Call("aclnnRmsNorm", x, Out(ACL_BF16, {4}), 1e-6, y, rstd);
  EXPECT_EQ(outcome.size, kAclnnTiling);
  EXPECT_THAT(outcome.message, HasSubstr("rstd: shape [2] where [2,1] is expected"));
  EXPECT_EQ(Call("aclnnRmsNorm", x, Out(ACL_BF16, {4}), 1e-6, y, nullptr).size, kAclnnNull);
  EXPECT_EQ(Call("aclnnRmsNorm", x, Out(ACL_FLOAT16, {4}), 1e-6, y, rstd).size, kAclnnInvalid);
}

// Rows of INT8 and their scales against the values that they stand for.
void ExpectQuantised(const Array& y, const Array& scale, const std::vector<double>& values) {
  const std::vector<int8_t> got = As<int8_t>(y);
  const std::vector<float> scales = Floats(scale);
  ASSERT_EQ(got.size(), values.size());
  const size_t width = scales.empty() ? 0 : got.size() / scales.size();
  for (size_t row = 0; row < scales.size(); ++row) {
    double largest = 0;
    for (size_t i = 0; i < width; ++i)
      largest = std::max(largest, std::abs(values[row * width + i]));
    ASSERT_NEAR(scales[row], largest / 127, 1e-5 * largest) << "row " << row;
    for (size_t i = 0; i < width; ++i) {
      const double exact = largest == 0 ? 0 : values[row * width + i] / scales[row];
      ASSERT_NEAR(got[row * width + i], exact, 0.501) << "row " << row << ", " << i;
    }
  }
}

TEST_F(StandardOps, DynamicQuantRoundsHalvesToEvenAndLeavesZeroRowsAlone) {
  Array y = Out(ACL_INT8, {2, 5});
  Array scale = Out(ACL_FLOAT, {2});
  const Array x = Real(ACL_BF16, {2, 5}, {127, 2.5, -2.5, 3.5, -127, 0, 0, 0, 0, 0});
  ASSERT_TRUE(Call("aclnnDynamicQuant", x, nullptr, y, scale).ok());
  EXPECT_EQ(As<int8_t>(y), (std::vector<int8_t>{127, 2, -2, 4, -127, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Floats(scale), (std::vector<float>{1, 0}));
}

TEST_F(StandardOps, DynamicQuantFollowsItsFormula) {
  Random random(3);
  for (const int64_t rows : {0, 1, 7}) {
    const Array x = random.Normal(ACL_FLOAT16, {rows, 2, 33});
    const Array smooth = random.Normal(ACL_FLOAT16, {33});
    Array y = Out(ACL_INT8, {rows, 2, 33});
    Array scale = Out(ACL_FLOAT, {rows, 2});
    ASSERT_TRUE(Call("aclnnDynamicQuant", x, smooth, y, scale).ok());
    std::vector<double> values;
    const std::vector<float> factors = Floats(smooth);
    for (const float value : Floats(x)) values.push_back(value * factors[values.size() % 33]);
    ExpectQuantised(y, scale, values);
  }
  Array y = Out(ACL_INT32, {1, 8});
  Array scale = Out(ACL_FLOAT, {1});
  EXPECT_THAT(Call("aclnnDynamicQuant", Out(ACL_BF16, {1, 8}), nullptr, y, scale).message,
              HasSubstr("yOut: dtype INT32"));
  EXPECT_THAT(Call("aclnnDynamicQuant", Out(ACL_FLOAT, {1, 8}), nullptr, y, scale).message,
              HasSubstr("x: dtype FLOAT"));
}

TEST_F(StandardOps, RmsNormDynamicQuantHasTheArgumentsOfItsPackage) {
  Random random(4);
  const Array x = random.Normal(ACL_BF16, {3, 40});
  const Array gamma = random.Normal(ACL_BF16, {40});
  const std::vector<double> values = Norm(Floats(x), Floats(gamma), 1e-6);

  Set("flavour", "custom");
  Array y = Out(ACL_INT8, {3, 40});
  Array scale = Out(ACL_FLOAT, {3});
  Array y2 = Out(ACL_INT8, {1});
  Array scale2 = Out(ACL_FLOAT, {1});
  ASSERT_TRUE(Call("aclnnRmsNormDynamicQuant", x, gamma, nullptr, nullptr, nullptr, 1e-6, nullptr,
                   int64_t{0}, y, y2, scale, scale2)
                  .ok());
  ExpectQuantised(y, scale, values);

  Set("flavour", "official");
  y = Out(ACL_INT8, {3, 40});
  ASSERT_TRUE(
      Call("aclnnRmsNormDynamicQuant", x, gamma, nullptr, nullptr, 1e-6, int64_t{2}, y, scale)
          .ok());
  ExpectQuantised(y, scale, values);

  // The custom list to the official operator: refused, not misread.
  const Outcome misread = Call("aclnnRmsNormDynamicQuant", x, gamma, nullptr, nullptr, nullptr,
                               1e-6, nullptr, int64_t{0}, y, y2, scale, scale2);
  EXPECT_EQ(misread.size, kAclnnInvalid);
  EXPECT_THAT(misread.message, HasSubstr("dstType: 0 is not 2 (INT8)"));
  Array none = Out(ACL_INT8, {0, 40});
  Array no_scale = Out(ACL_FLOAT, {0});
  const Outcome empty = Call("aclnnRmsNormDynamicQuant", Out(ACL_BF16, {0, 40}), gamma, nullptr,
                             nullptr, 1e-6, int64_t{2}, none, no_scale);
  EXPECT_EQ(empty.size, kAclnnTiling);
  EXPECT_THAT(empty.message, HasSubstr("x: empty"));
}

TEST_F(StandardOps, MatmulTakesTransposedViewsAndAnyNumberOfRows) {
  Random random(5);
  for (const aclDataType dtype : {ACL_BF16, ACL_FLOAT16}) {
    for (const int64_t m : {0, 1, 3}) {
      const Array x = random.Normal(dtype, {m, 130});
      const Array plain = random.Normal(dtype, {130, 45}, 0.1F);
      const Array stored = random.Normal(dtype, {45, 130}, 0.1F);
      Array out = Out(dtype, {m, 45});
      ASSERT_TRUE(Call("aclnnMatmul", x, plain, out, kKeep).ok());
      ExpectNear(Floats(out), Product(Floats(x), Floats(plain), m, 130, 45, 45, 1), kBf16);
      ASSERT_TRUE(Call("aclnnMm", x, TransposedView(stored), out, kKeep).ok());
      ExpectNear(Floats(out), Product(Floats(x), Floats(stored), m, 130, 45, 1, 130), kBf16);
    }
  }
}

TEST_F(StandardOps, MatmulOfBatchesAndOfFloats) {
  Random random(6);
  const Array x = random.Normal(ACL_FLOAT, {2, 3, 20});
  const Array w = random.Normal(ACL_FLOAT, {2, 20, 33});
  Array out = Out(ACL_FLOAT, {2, 3, 33});
  ASSERT_TRUE(Call("aclnnMatmul", x, w, out, kKeep).ok());
  const std::vector<float> xs = Floats(x);
  const std::vector<float> ws = Floats(w);
  std::vector<double> expected;
  for (int64_t batch = 0; batch < 2; ++batch) {
    const std::vector<float> part(&xs[batch * 60], &xs[batch * 60] + 60);
    const std::vector<float> weight(&ws[batch * 660], &ws[batch * 660] + 660);
    const std::vector<double> product = Product(part, weight, 3, 20, 33, 33, 1);
    expected.insert(expected.end(), product.begin(), product.end());
  }
  ExpectNear(Floats(out), expected, 1e-5);
  const std::vector<float> exact = Floats(out);
  ASSERT_TRUE(Call("aclnnMatmul", x, w, out, int8_t{1}).ok());  // HF32
  EXPECT_NE(Floats(out), exact);
  ASSERT_NEAR(Floats(out)[0], exact[0], 0.02);
}

TEST_F(StandardOps, ARowOfAProductDependsOnNoOther) {
  Random random(7);
  const Array x = random.Normal(ACL_BF16, {9, 300});
  const Array w = random.Normal(ACL_BF16, {300, 70});
  Array all = Out(ACL_BF16, {9, 70});
  ASSERT_TRUE(Call("aclnnMatmul", x, w, all, kKeep).ok());
  for (int64_t row = 0; row < 9; ++row) {
    Array one = x;
    one.shape = {1, 300};
    one.offset = row * 300;
    Array out = Out(ACL_BF16, {1, 70});
    ASSERT_TRUE(Call("aclnnMatmul", one, w, out, kKeep).ok());
    EXPECT_TRUE(std::equal(out.bytes.begin(), out.bytes.end(), all.bytes.begin() + row * 140))
        << row;
  }
}

TEST_F(StandardOps, MatmulRefusesWhatItDoesNotTake) {
  Array out = Out(ACL_BF16, {2, 4});
  const Array x = Out(ACL_BF16, {2, 8});
  EXPECT_THAT(Call("aclnnMatmul", x, Out(ACL_BF16, {7, 4}), out, kKeep).message,
              HasSubstr("self: k is 8 where mat2 has 7"));
  EXPECT_THAT(Call("aclnnMatmul", x, Out(ACL_FLOAT16, {8, 4}), out, kKeep).message,
              HasSubstr("mat2: dtype FLOAT16"));
  EXPECT_THAT(Call("aclnnMatmul", x, Out(ACL_BF16, {8, 4}), out, int8_t{2}).message,
              HasSubstr("cubeMathType: 2 (USE_FP16) with BF16"));
  EXPECT_THAT(Call("aclnnMatmul", x, ToNz(Out(ACL_BF16, {8, 4})), out, kKeep).message,
              HasSubstr("mat2: format 29 where ND (2) is expected"));
  EXPECT_THAT(Call("aclnnMatmulWeightNz", x, Out(ACL_BF16, {8, 4}), out, kKeep).message,
              HasSubstr("mat2: format 2 where FRACTAL_NZ (29) is expected"));
  Array wrong = ToNz(Out(ACL_BF16, {8, 4}));
  wrong.storage = {16, 16};
  EXPECT_THAT(Call("aclnnMatmulWeightNz", x, wrong, out, kKeep).message,
              HasSubstr("mat2: storage [16,16] where FRACTAL_NZ has [1,1,16,16] for [8,4]"));
}

TEST_F(StandardOps, FormatCastSwizzlesAndBack) {
  Random random(8);
  for (const aclDataType dtype : {ACL_BF16, ACL_INT8}) {
    const Array matrix =
        dtype == ACL_INT8 ? random.Int8({2, 37, 45}) : random.Normal(dtype, {2, 37, 45});
    const Array expected = ToNz(matrix);
    Array nz = expected;
    std::fill(nz.bytes.begin(), nz.bytes.end(), std::byte{0x11});
    ASSERT_TRUE(Call("aclnnNpuFormatCast", matrix, nz).ok());
    EXPECT_EQ(nz.bytes, expected.bytes);  // padding is zero
    Array back = Out(dtype, {2, 37, 45});
    ASSERT_TRUE(Call("aclnnNpuFormatCast", nz, back).ok());
    EXPECT_EQ(back.bytes, matrix.bytes);
  }
  Array out = Out(ACL_BF16, {4, 4});
  const Outcome outcome = Call("aclnnNpuFormatCast", Out(ACL_BF16, {4, 4}), out);
  EXPECT_EQ(outcome.size, kAclnnRuntime);
  EXPECT_THAT(Call("aclnnNpuFormatCast", TransposedView(Out(ACL_BF16, {4, 6})), out).message,
              HasSubstr("srcTensor"));
}

TEST_F(StandardOps, NzWeightsAreReadAsTiles) {
  Random random(9);
  const Array x = random.Normal(ACL_BF16, {3, 40});
  const Array w = random.Normal(ACL_BF16, {40, 50}, 0.1F);
  Array out = Out(ACL_BF16, {3, 50});
  ASSERT_TRUE(Call("aclnnMatmulWeightNz", x, ToNz(w), out, kKeep).ok());
  const std::vector<double> expected = Product(Floats(x), Floats(w), 3, 40, 50, 50, 1);
  ExpectNear(Floats(out), expected, kBf16);

  const Array stored = random.Normal(ACL_BF16, {50, 40}, 0.1F);
  ASSERT_TRUE(Call("aclnnMatmulWeightNz", x, TransposedView(ToNz(stored)), out, kKeep).ok());
  ExpectNear(Floats(out), Product(Floats(x), Floats(stored), 3, 40, 50, 1, 40), kBf16);

  // The bytes of an ND matrix under the name of NZ give other numbers.
  Array lie = ToNz(w);
  std::copy(w.bytes.begin(), w.bytes.end(), lie.bytes.begin());
  ASSERT_TRUE(Call("aclnnMatmulWeightNz", x, lie, out, kKeep).ok());
  EXPECT_GT(std::abs(Floats(out)[1] - expected[1]), 0.01);
}

TEST_F(StandardOps, FusedMatmulKeepsFloatSums) {
  Random random(10);
  const Array x = random.Normal(ACL_BF16, {3, 64});
  const Array w = random.Normal(ACL_BF16, {16, 64});
  Array y = Out(ACL_FLOAT, {3, 16});
  ASSERT_TRUE(
      Call("aclnnFusedMatmul", x, TransposedView(w), nullptr, nullptr, "16cast32", kKeep, y).ok());
  ExpectNear(Floats(y), Product(Floats(x), Floats(w), 3, 64, 16, 1, 64), 1e-5);
  EXPECT_THAT(
      Call("aclnnFusedMatmul", x, TransposedView(w), nullptr, nullptr, "relu", kKeep, y).message,
      HasSubstr("fusedOpType: \"relu\""));
  EXPECT_THAT(Call("aclnnFusedMatmul", x, TransposedView(w), Out(ACL_FLOAT, {16}), nullptr,
                   "16cast32", kKeep, y)
                  .message,
              HasSubstr("bias: may not be given"));
  Array narrow = Out(ACL_BF16, {3, 16});
  EXPECT_THAT(
      Call("aclnnFusedMatmul", x, TransposedView(w), nullptr, nullptr, "16cast32", kKeep, narrow)
          .message,
      HasSubstr("y: dtype BF16"));
}

TEST_F(StandardOps, TransposeBatchMatMulPutsRowsFirst) {
  Random random(11);
  constexpr int64_t kRows = 3, kBatches = 4, kK = 20, kN = 10;
  const Array x = random.Normal(ACL_BF16, {kRows, kBatches, kK});
  const Array w = random.Normal(ACL_BF16, {kBatches, kK, kN});
  const std::vector<float> xs = Floats(x);
  const std::vector<float> ws = Floats(w);
  const auto expected = [&](int64_t row, int64_t batch, int64_t column) {
    double sum = 0;
    for (int64_t k = 0; k < kK; ++k) {
      sum += static_cast<double>(xs[(row * kBatches + batch) * kK + k]) *
             ws[(batch * kK + k) * kN + column];
    }
    return sum;
  };
  const Numbers rows_first{{1, 0, 2}};
  const Numbers plain{{0, 1, 2}};
  Array out = Out(ACL_BF16, {kRows, kBatches, kN});
  ASSERT_TRUE(Call("aclnnTransposeBatchMatMul", x, w, nullptr, nullptr, rows_first, plain,
                   rows_first, kKeep, int32_t{1}, out)
                  .ok());
  std::vector<double> values;
  for (int64_t i = 0; i < kRows * kBatches * kN; ++i) {
    values.push_back(expected(i / (kBatches * kN), i / kN % kBatches, i % kN));
  }
  ExpectNear(Floats(out), values, kBf16);

  Array split = Out(ACL_BF16, {2, kRows, 2 * kN});
  ASSERT_TRUE(Call("aclnnTransposeBatchMatMul", x, w, nullptr, nullptr, rows_first, plain,
                   rows_first, kKeep, int32_t{2}, split)
                  .ok());
  values.clear();
  for (int64_t i = 0; i < kRows * kBatches * kN; ++i) {
    const int64_t part = i / (kRows * 2 * kN);
    values.push_back(expected(i / (2 * kN) % kRows, 2 * part + i % (2 * kN) / kN, i % kN));
  }
  ExpectNear(Floats(split), values, kBf16);

  EXPECT_THAT(Call("aclnnTransposeBatchMatMul", x, w, nullptr, nullptr, rows_first, plain, plain,
                   kKeep, int32_t{1}, out)
                  .message,
              HasSubstr("permY: [0,1,2] is not [1,0,2]"));
  EXPECT_THAT(Call("aclnnTransposeBatchMatMul", x, w, nullptr, nullptr, rows_first, plain,
                   rows_first, kKeep, int32_t{3}, out)
                  .message,
              HasSubstr("batchSplitFactor: 3 does not divide 4 batches"));
}

struct QuantCase {
  Array x, w, row_scale, channel_scale, bias;
};

QuantCase RandomQuantCase(Random& random, int64_t m, int64_t k, int64_t n) {
  QuantCase made;
  made.x = random.Int8({m, k});
  made.w = random.Int8({k, n});
  std::vector<float> rows = random.Values(m, 0.01F);
  made.row_scale = Real(ACL_FLOAT, {m}, rows);
  made.channel_scale = random.Normal(ACL_BF16, {n}, 0.01F);
  std::vector<int32_t> bias(static_cast<size_t>(n));
  for (int32_t& value : bias) value = static_cast<int32_t>(random.Below(2000) - 1000);
  made.bias = Ints({n}, bias);
  return made;
}

std::vector<double> Dequantised(const QuantCase& in, bool with_bias) {
  const int64_t m = in.x.shape[0], k = in.x.shape[1], n = in.w.shape[1];
  std::vector<double> out = Product(Floats(in.x), Floats(in.w), m, k, n, n, 1);
  const std::vector<float> rows = Floats(in.row_scale);
  const std::vector<float> channels = Floats(in.channel_scale);
  const std::vector<float> bias = Floats(in.bias);
  for (int64_t i = 0; i < m * n; ++i) {
    out[i] = (out[i] + (with_bias ? bias[i % n] : 0)) * channels[i % n] * rows[i / n];
  }
  return out;
}

TEST_F(StandardOps, QuantMatmulScalesExactSums) {
  Random random(12);
  for (const int64_t m : {1, 5}) {
    const QuantCase in = RandomQuantCase(random, m, 70, 50);
    Array out = Out(ACL_BF16, {m, 50});
    ASSERT_TRUE(Call("aclnnQuantMatmulWeightNz", in.x, ToNz(in.w), in.row_scale, in.channel_scale,
                     nullptr, nullptr, nullptr, nullptr, in.bias, false, false, int64_t{0}, out)
                    .ok());
    ExpectNear(Floats(out), Dequantised(in, true), kBf16);
    Array same = Out(ACL_BF16, {m, 50});
    ASSERT_TRUE(Call("aclnnQuantMatmulV5", in.x, in.w, in.row_scale, in.channel_scale, nullptr,
                     nullptr, nullptr, nullptr, in.bias, false, false, int64_t{0}, same)
                    .ok());
    EXPECT_EQ(same.bytes, out.bytes);
  }
}

TEST_F(StandardOps, QuantMatmulTakesTransposedWeightsByAttributeAndByStrides) {
  Random random(13);
  QuantCase in = RandomQuantCase(random, 4, 64, 40);
  const std::vector<double> expected = Dequantised(in, false);
  Array stored = Bytes({40, 64}, std::vector<int8_t>(40 * 64));
  for (int64_t k = 0; k < 64; ++k) {
    for (int64_t n = 0; n < 40; ++n) stored.bytes[n * 64 + k] = in.w.bytes[k * 40 + n];
  }
  Array out = Out(ACL_BF16, {4, 40});
  ASSERT_TRUE(Call("aclnnQuantMatmulWeightNz", in.x, ToNz(stored), in.row_scale, in.channel_scale,
                   nullptr, nullptr, nullptr, nullptr, nullptr, false, true, int64_t{0}, out)
                  .ok());
  ExpectNear(Floats(out), expected, kBf16);
  out = Out(ACL_BF16, {4, 40});
  ASSERT_TRUE(Call("aclnnQuantMatmulWeightNz", in.x, TransposedView(ToNz(stored)), in.row_scale,
                   in.channel_scale, nullptr, nullptr, nullptr, nullptr, nullptr, false, false,
                   int64_t{0}, out)
                  .ok());
  ExpectNear(Floats(out), expected, kBf16);
}

TEST_F(StandardOps, QuantMatmulGivesRawSums) {
  Random random(14);
  const QuantCase in = RandomQuantCase(random, 3, 100, 33);
  Array out = Out(ACL_INT32, {3, 33});
  ASSERT_TRUE(Call("aclnnQuantMatmulWeightNz", in.x, ToNz(in.w), nullptr, in.channel_scale, nullptr,
                   nullptr, nullptr, nullptr, nullptr, false, false, int64_t{0}, out)
                  .ok());
  const std::vector<double> expected = Product(Floats(in.x), Floats(in.w), 3, 100, 33, 33, 1);
  const std::vector<int32_t> got = As<int32_t>(out);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected[i]);
}

TEST_F(StandardOps, QuantMatmulRefusesWrongCombinations) {
  Random random(15);
  const QuantCase in = RandomQuantCase(random, 2, 32, 32);
  const auto refused = [&](const Array& w, auto row_scale, const Array& channel, auto offset,
                           auto bias, int64_t group_size, Array out) {
    return Call("aclnnQuantMatmulWeightNz", in.x, w, row_scale, channel, nullptr, nullptr, offset,
                nullptr, bias, false, false, group_size, out)
        .message;
  };
  const Array w = ToNz(in.w);
  const Array bf16 = Out(ACL_BF16, {2, 32});
  const Array fp16 = Out(ACL_FLOAT16, {2, 32});
  const Array raw = Out(ACL_INT32, {2, 32});
  EXPECT_THAT(refused(in.w, nullptr, in.channel_scale, nullptr, nullptr, 0, bf16),
              HasSubstr("x2: format 2"));
  EXPECT_THAT(refused(w, nullptr, in.channel_scale, nullptr, nullptr, 0, fp16),
              HasSubstr("x1Scale: is missing"));
  EXPECT_THAT(refused(w, in.row_scale, in.channel_scale, nullptr, nullptr, 0, fp16),
              HasSubstr("x2Scale: BF16 where an FP16 result needs FLOAT"));
  EXPECT_THAT(refused(w, in.row_scale, in.channel_scale, nullptr, nullptr, 0, raw),
              HasSubstr("x1Scale: may not be given"));
  EXPECT_THAT(refused(w, nullptr, in.channel_scale, nullptr, Out(ACL_FLOAT, {32}), 0, raw),
              HasSubstr("bias: FLOAT with a result of INT32"));
  EXPECT_THAT(refused(w, nullptr, in.channel_scale, Out(ACL_FLOAT, {32}), nullptr, 0, bf16),
              HasSubstr("x2Offset: may not be given"));
  EXPECT_THAT(refused(w, nullptr, in.channel_scale, nullptr, nullptr, 128, bf16),
              HasSubstr("groupSize: 128"));
  EXPECT_THAT(refused(w, nullptr, Out(ACL_BF16, {31}), nullptr, nullptr, 0, bf16),
              HasSubstr("x2Scale: shape [31], expected [32]"));
  Array none = Out(ACL_BF16, {0, 32});
  EXPECT_THAT(Call("aclnnQuantMatmulWeightNz", Out(ACL_INT8, {0, 32}), w, nullptr, in.channel_scale,
                   nullptr, nullptr, nullptr, nullptr, nullptr, false, false, int64_t{0}, none)
                  .message,
              HasSubstr("x1: empty"));
}

TEST_F(StandardOps, SoftmaxAndSigmoidFollowTheirFormulas) {
  Random random(16);
  const Array x = random.Normal(ACL_FLOAT, {3, 4, 5}, 3);
  const std::vector<float> xs = Floats(x);
  Array out = Out(ACL_FLOAT, {3, 4, 5});
  ASSERT_TRUE(Call("aclnnSoftmax", x, int64_t{1}, out).ok());
  std::vector<double> expected(60);
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t c = 0; c < 5; ++c) {
      double sum = 0;
      for (int64_t b = 0; b < 4; ++b) sum += std::exp(xs[(a * 4 + b) * 5 + c]);
      for (int64_t b = 0; b < 4; ++b)
        expected[(a * 4 + b) * 5 + c] = std::exp(xs[(a * 4 + b) * 5 + c]) / sum;
    }
  }
  ExpectNear(Floats(out), expected, 1e-5);
  ASSERT_TRUE(Call("aclnnSigmoid", x, out).ok());
  for (int64_t i = 0; i < 60; ++i) expected[i] = 1 / (1 + std::exp(-static_cast<double>(xs[i])));
  ExpectNear(Floats(out), expected, 1e-5);
}

TEST_F(StandardOps, TopkAndArgMaxGiveEqualValuesToTheLowerIndex) {
  const Array x = Real(ACL_FLOAT, {2, 5}, {3, 7, 7, 1, 3, -1, -5, -1, -9, 0});
  Array values = Out(ACL_FLOAT, {2, 3});
  Array indices = Out(ACL_INT64, {2, 3});
  ASSERT_TRUE(Call("aclnnTopk", x, int64_t{3}, int64_t{-1}, true, true, values, indices).ok());
  EXPECT_EQ(Floats(values), (std::vector<float>{7, 7, 3, 0, -1, -1}));
  EXPECT_EQ(As<int64_t>(indices), (std::vector<int64_t>{1, 2, 0, 4, 0, 2}));
  ASSERT_TRUE(Call("aclnnTopk", x, int64_t{3}, int64_t{1}, false, true, values, indices).ok());
  EXPECT_EQ(As<int64_t>(indices), (std::vector<int64_t>{3, 0, 4, 3, 1, 0}));
  Array best = Out(ACL_INT64, {2});
  ASSERT_TRUE(Call("aclnnArgMax", x, int64_t{1}, false, best).ok());
  EXPECT_EQ(As<int64_t>(best), (std::vector<int64_t>{1, 4}));
  Array columns = Out(ACL_INT64, {1, 5});
  ASSERT_TRUE(Call("aclnnArgMax", x, int64_t{0}, true, columns).ok());
  EXPECT_EQ(As<int64_t>(columns), (std::vector<int64_t>{0, 0, 0, 0, 0}));

  Array narrow = Out(ACL_INT32, {2, 3});
  EXPECT_THAT(Call("aclnnTopk", x, int64_t{3}, int64_t{-1}, true, true, values, narrow).message,
              HasSubstr("indices: dtype INT32"));
  EXPECT_THAT(Call("aclnnTopk", x, int64_t{3}, int64_t{-1}, true, false, values, indices).message,
              HasSubstr("sorted: must be true"));
  EXPECT_THAT(Call("aclnnTopk", x, int64_t{6}, int64_t{-1}, true, true, values, indices).message,
              HasSubstr("k: 6 is outside [0, 5]"));
}

TEST_F(StandardOps, ReduceSumOverSomeAxesAndArangeOfAnyStep) {
  std::vector<float> numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const Array x = Real(ACL_FLOAT, {2, 3, 4}, numbers);
  Array out = Out(ACL_FLOAT, {3});
  ASSERT_TRUE(Call("aclnnReduceSum", x, Numbers{{2, 0}}, false, ACL_FLOAT, out).ok());
  EXPECT_EQ(Floats(out), (std::vector<float>{60, 92, 124}));
  Array kept = Out(ACL_FLOAT, {2, 1, 4});
  ASSERT_TRUE(Call("aclnnReduceSum", x, Numbers{{1}}, true, ACL_FLOAT, kept).ok());
  EXPECT_EQ(Floats(kept), (std::vector<float>{12, 15, 18, 21, 48, 51, 54, 57}));
  EXPECT_THAT(Call("aclnnReduceSum", x, Numbers{{1, -2}}, false, ACL_FLOAT, out).message,
              HasSubstr("dims: an axis twice"));

  Array range = Out(ACL_INT64, {4});
  ASSERT_TRUE(Call("aclnnArange", Scalar{10}, Scalar{-2}, Scalar{-3}, range).ok());
  EXPECT_EQ(As<int64_t>(range), (std::vector<int64_t>{10, 7, 4, 1}));
  EXPECT_THAT(Call("aclnnArange", Scalar{0}, Scalar{4}, Scalar{2}, range).message,
              HasSubstr("out: shape [4], expected [2]"));
}

}  // namespace
}  // namespace ascend_emulator::standard
