// Hyper-connections, rope and scatter against their formulas in double, written plainly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "dsv4_calls.h"

namespace ascend_emulator::dsv4 {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kStreamWidth = 128;

struct Mixes {
  Values y;
  Values post;
  Values comb;
};

class HyperConnectionsTest : public Dsv4Test {
 protected:
  void SetUp() override {
    Dsv4Test::SetUp();
    x_ = Random(kTokens * 4 * kStreamWidth, 1);
    fn_ = Make(ACL_FLOAT, {24, 4 * kStreamWidth}, Random(24 * 4 * kStreamWidth, 2, 0.1));
    scale_ = Make(ACL_FLOAT, {3}, {0.5, 0.7, 0.9});
    base_ = Make(ACL_FLOAT, {24}, Random(24, 3));
  }
  void TearDown() override {
    unsetenv("CACHALOT_EMULATOR_HF32");
    fn_ = scale_ = base_ = nullptr;
    Dsv4Test::TearDown();
  }

  Mixes Mix(bool official) {
    UseFlavour(official);
    const Shape tokens = official ? Shape{1, kTokens} : Shape{kTokens};
    const auto with = [&](std::initializer_list<int64_t> axes) {
      Shape shape = tokens;
      shape.insert(shape.end(), axes);
      return shape;
    };
    const Tensor x = Make(ACL_BF16, with({4, kStreamWidth}), x_);
    const Tensor y = Make(ACL_BF16, with({kStreamWidth}));
    const Tensor post = Make(ACL_FLOAT, with({4}));
    const Tensor comb = Make(ACL_FLOAT, official ? with({16}) : with({4, 4}));
    aclTensor* none = nullptr;
    const Outcome outcome =
        official ? Perform("aclnnMhcPreSinkhorn", stream(), In(x), In(fn_), In(scale_), In(base_),
                           int64_t{4}, int64_t{20}, 1e-6, 1e-6, false, Raw(y), Raw(post), Raw(comb),
                           none, none, none, none, none)
                 : Perform("aclnnHcPre", stream(), In(x), In(fn_), In(scale_), In(base_),
                           int64_t{4}, int64_t{20}, 1e-6, 1e-6, Raw(y), Raw(post), Raw(comb));
    EXPECT_EQ(outcome.code, 0) << outcome.message;
    x_ = x->Read();
    return {y->Read(), post->Read(), comb->Read()};
  }

  static constexpr int64_t kTokens = 3;
  Values x_;
  Tensor fn_, scale_, base_;
};

Values Normalised(Values comb, bool rows, double eps) {
  for (int64_t i = 0; i < 4; ++i) {
    double sum = eps;
    for (int64_t j = 0; j < 4; ++j) {
      sum += comb[rows ? i * 4 + j : j * 4 + i];
    }
    for (int64_t j = 0; j < 4; ++j) {
      comb[rows ? i * 4 + j : j * 4 + i] /= sum;
    }
  }
  return comb;
}

TEST_F(HyperConnectionsTest, AreMixedByTheirFormulaAndBothFlavoursAgree) {
  const Mixes got = Mix(false);
  const Values fn = fn_->Read();
  const Values scale = scale_->Read();
  const Values base = base_->Read();
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  Mixes want;
  const int64_t row = 4 * kStreamWidth;
  for (int64_t token = 0; token < kTokens; ++token) {
    const double* x = x_.data() + token * row;
    const double mean = std::inner_product(x, x + row, x, 0.0) / row;
    Values mix;
    for (int64_t i = 0; i < 24; ++i) {
      mix.push_back(std::inner_product(x, x + row, fn.data() + i * row, 0.0) /
                        std::sqrt(mean + 1e-6) *
                        scale[i < 4   ? 0
                              : i < 8 ? 1
                                      : 2] +
                    base[i]);
    }
    for (int64_t c = 0; c < kStreamWidth; ++c) {
      double y = 0;
      for (int64_t i = 0; i < 4; ++i) {
        y += (sigmoid(mix[i]) + 1e-6) * x[i * kStreamWidth + c];
      }
      want.y.push_back(y);
    }
    Values comb;
    for (int64_t i = 0; i < 4; ++i) {
      want.post.push_back(2 * sigmoid(mix[4 + i]));
      for (int64_t j = 0; j < 4; ++j) {
        comb.push_back(std::exp(mix[8 + i * 4 + j]));
      }
    }
    comb = Normalised(comb, true, 0);
    for (double& value : comb) {
      value += 1e-6;
    }
    comb = Normalised(comb, false, 1e-6);
    for (int i = 1; i < 20; ++i) {
      comb = Normalised(Normalised(comb, true, 1e-6), false, 1e-6);
    }
    want.comb.insert(want.comb.end(), comb.begin(), comb.end());
  }
  ExpectNear(got.y, want.y, "y");
  EXPECT_THAT(got.post, ::testing::Pointwise(::testing::DoubleNear(1e-5), want.post));
  EXPECT_THAT(got.comb, ::testing::Pointwise(::testing::DoubleNear(1e-5), want.comb));
  const Mixes official = Mix(true);
  EXPECT_EQ(official.y, got.y);
  EXPECT_EQ(official.post, got.post);
  EXPECT_EQ(official.comb, got.comb);
}

TEST_F(HyperConnectionsTest, LoseBitsOfTheProductWhereTheDeviceHasHf32) {
  const Mixes exact = Mix(false);
  setenv("CACHALOT_EMULATOR_HF32", "1", 1);
  const Mixes rough = Mix(false);
  EXPECT_NE(rough.post, exact.post);
  EXPECT_THAT(rough.post, ::testing::Pointwise(::testing::DoubleNear(1e-2), exact.post));
}

TEST_F(HyperConnectionsTest, SpreadTheOutputByTheirFormulaAndBothFlavoursAgree) {
  const Values output = Random(kTokens * kStreamWidth, 4);
  const Values post = Random(kTokens * 4, 5);
  const Values comb = Random(kTokens * 16, 6);
  std::vector<Values> results;
  for (const bool official : {false, true}) {
    UseFlavour(official);
    const int64_t t = kTokens;
    const Tensor x = Make(ACL_BF16, official ? Shape{1, t, 128} : Shape{t, 128}, output);
    const Tensor streams = Make(ACL_BF16, official ? Shape{1, t, 4, 128} : Shape{t, 4, 128}, x_);
    const Tensor gates = Make(ACL_FLOAT, official ? Shape{1, t, 4} : Shape{t, 4}, post);
    const Tensor mixes = Make(ACL_FLOAT, official ? Shape{1, t, 4, 4} : Shape{t, 4, 4}, comb);
    const Tensor y = Make(ACL_BF16, streams->shape());
    ExpectSucceeds(
        official
            ? Perform("aclnnMhcPost", stream(), In(streams), In(mixes), In(x), In(gates), Raw(y))
            : Perform("aclnnHcPost", stream(), In(x), In(streams), In(gates), In(mixes), Raw(y)));
    results.push_back(y->Read());
    Values want;
    const Values rounded = x->Read();
    const Values before = streams->Read();
    for (int64_t token = 0; token < kTokens; ++token) {
      for (int64_t j = 0; j < 4; ++j) {
        for (int64_t c = 0; c < kStreamWidth; ++c) {
          double sum = post[token * 4 + j] * rounded[token * kStreamWidth + c];
          for (int64_t i = 0; i < 4; ++i) {
            sum += comb[token * 16 + i * 4 + j] * before[(token * 4 + i) * kStreamWidth + c];
          }
          want.push_back(sum);
        }
      }
    }
    ExpectNear(results.back(), want, official ? "official" : "custom");
  }
  EXPECT_EQ(results[0], results[1]);
}

// ---- Rope and scatter

using RopeTest = Dsv4Test;

TEST_F(RopeTest, TurnsTheSliceInPlaceAndBackAgain) {
  const Values start = Random(2 * 3 * 24, 1);
  const Tensor x = Make(ACL_FLOAT, {2, 1, 3, 24}, start);
  Values cos;
  Values sin;
  Values back;
  for (int64_t i = 0; i < 2 * 8; ++i) {
    cos.push_back(std::cos(0.3 * (i / 2) + 0.1));
    sin.push_back(std::sin(0.3 * (i / 2) + 0.1));
    back.push_back(-sin.back());
  }
  const Tensor c = Make(ACL_FLOAT, {2, 1, 1, 8}, cos);
  const Tensor s = Make(ACL_FLOAT, {2, 1, 1, 8}, sin);
  const auto turn = [&](const Tensor& by) {
    const std::vector<int64_t> slice = {16, 24};
    auto* array = Acl<aclIntArray*>("aclCreateIntArray", slice.data(), uint64_t{2});
    ExpectSucceeds(Perform("aclnnInplacePartialRotaryMul", stream(), Raw(x), In(c), In(by),
                           int64_t{1}, const_cast<const aclIntArray*>(array)));
    Acl<int>("aclDestroyIntArray", const_cast<const aclIntArray*>(array));
  };
  turn(s);
  const Values turned = x->Read();
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t i = 0; i < 16; ++i) {
      EXPECT_NEAR(turned[row * 24 + i], start[row * 24 + i], 1e-6);
    }
    for (int64_t i = 0; i < 8; i += 2) {
      const int64_t at = row / 3 * 8 + i;
      const double a = start[row * 24 + 16 + i];
      const double b = start[row * 24 + 17 + i];
      EXPECT_NEAR(turned[row * 24 + 16 + i], a * cos[at] - b * sin[at], 1e-6);
      EXPECT_NEAR(turned[row * 24 + 17 + i], b * cos[at] + a * sin[at], 1e-6);
    }
  }
  turn(Make(ACL_FLOAT, {2, 1, 1, 8}, back));
  EXPECT_THAT(x->Read(), ::testing::Pointwise(::testing::DoubleNear(1e-6), start));
}

TEST_F(RopeTest, PairsElementsAsItsModeSays) {
  const Tensor x = Make(ACL_FLOAT, {1, 1, 1, 8}, {0, 1, 2, 3, 4, 5, 6, 7});
  // A quarter turn: (a, b) to (-b, a).
  const Tensor cos = Make(ACL_FLOAT, {1, 1, 1, 8}, Values(8, 0));
  const Tensor sin = Make(ACL_FLOAT, {1, 1, 1, 8}, Values(8, 1));
  const Tensor out = Make(ACL_FLOAT, {1, 1, 1, 8});
  const auto turn = [&](int64_t mode) {
    ExpectSucceeds(
        Perform("aclnnRotaryPositionEmbedding", stream(), In(x), In(cos), In(sin), mode, Raw(out)));
    return out->Read();
  };
  EXPECT_THAT(turn(0), ElementsAre(-4, -5, -6, -7, 0, 1, 2, 3));
  EXPECT_THAT(turn(1), ElementsAre(-1, 0, -3, 2, -5, 4, -7, 6));
  EXPECT_THAT(turn(2), ElementsAre(-2, -3, 0, 1, -6, -7, 4, 5));
  EXPECT_THAT(turn(3), ElementsAre(-1, -3, -5, -7, 0, 2, 4, 6));
  const Tensor half = Make(ACL_BF16, {1, 1, 1, 8}, x->Read());
  const Tensor half_cos = Make(ACL_BF16, {1, 1, 1, 8}, Values(8, 0));
  const Tensor half_sin = Make(ACL_BF16, {1, 1, 1, 8}, Values(8, 1));
  const Tensor half_out = Make(ACL_BF16, {1, 1, 1, 8});
  ExpectSucceeds(Perform("aclnnInterleaveRope", stream(), In(half), In(half_cos), In(half_sin),
                         Raw(half_out)));
  EXPECT_EQ(half_out->Read(), turn(3));
}

using ScatterTest = Dsv4Test;

TEST_F(ScatterTest, WritesRowsOfAStridedCacheAndSkipsNegativeOnes) {
  const Tensor cache = Make(ACL_INT8, {3, 2, 1, 32}, Values(3 * 2 * 32, 0), 96);
  const Tensor slots = Ints({2, 1, -1, -1, 1, 0}, {3, 2});
  Values rows(3 * 32);
  std::iota(rows.begin(), rows.end(), 1.0);
  const Tensor updates = Make(ACL_INT8, {3, 1, 32}, rows);
  ExpectSucceeds(PerformWithIntegers("aclnnScatterNdUpdateV2", stream(), {96, 32, 32, 1},
                                     Raw(cache), In(slots), In(updates)));
  const Values got = cache->Read();
  EXPECT_EQ(Slice(got, 5 * 32, 32), Slice(rows, 0, 32));
  EXPECT_EQ(Slice(got, 2 * 32, 32), Slice(rows, 64, 32));
  EXPECT_EQ(std::count(got.begin(), got.end(), 0.0), 4 * 32);
}

TEST_F(ScatterTest, OfTheStandardLibraryWritesRowsOfAFlatCache) {
  const Tensor cache = Make(ACL_BF16, {4, 16}, Values(64, 0));
  const Tensor updates = Make(ACL_BF16, {2, 16}, Values(32, 3));
  ExpectSucceeds(
      Perform("aclnnScatterNdUpdate", stream(), Raw(cache), In(Ints({3, 1}, {2, 1})), In(updates)));
  const Values got = cache->Read();
  EXPECT_THAT(Slice(got, 0, 16), ::testing::Each(0));
  EXPECT_THAT(Slice(got, 16, 16), ::testing::Each(3));
  EXPECT_THAT(Slice(got, 32, 16), ::testing::Each(0));
  EXPECT_THAT(Slice(got, 48, 16), ::testing::Each(3));
}

}  // namespace
}  // namespace ascend_emulator::dsv4
