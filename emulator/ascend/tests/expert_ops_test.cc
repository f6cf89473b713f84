// The operators of the experts: routers, permutation, grouped products, activations.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "op_call.h"

namespace ascend_emulator::standard {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

using ExpertOps = OpTest;

constexpr int64_t kSigmoid = 1;
constexpr int64_t kSqrtSoftplus = 2;

struct Gate {
  std::vector<double> norms;  // [rows, experts]
  std::vector<int32_t> experts;
  std::vector<double> weights;
};

// Without groups; `forced` names the experts in hash mode.
Gate Routed(const std::vector<float>& x, const std::vector<float>& bias, int64_t experts, int64_t k,
            int64_t norm, double scale, const std::vector<int32_t>* forced = nullptr) {
  Gate gate;
  for (size_t row = 0; row < x.size() / static_cast<size_t>(experts); ++row) {
    std::vector<double> scores;
    for (int64_t i = 0; i < experts; ++i) {
      const double value = x[row * experts + i];
      scores.push_back(norm == kSigmoid ? 1 / (1 + std::exp(-value))
                                        : std::sqrt(std::log1p(std::exp(value))));
    }
    std::vector<int32_t> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return scores[a] + (bias.empty() ? 0 : bias[a]) > scores[b] + (bias.empty() ? 0 : bias[b]);
    });
    if (forced != nullptr) order.assign(forced->begin() + row * k, forced->begin() + (row + 1) * k);
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += scores[order[i]];
    for (int64_t i = 0; i < k; ++i) {
      gate.experts.push_back(order[i]);
      gate.weights.push_back(scores[order[i]] / sum * scale);
    }
    gate.norms.insert(gate.norms.end(), scores.begin(), scores.end());
  }
  return gate;
}

TEST_F(ExpertOps, GatingChoosesWithTheBiasAndWeighsWithout) {
  Random random(1);
  Set("flavour", "both");
  for (const int64_t rows : {0, 1, 6}) {
    const Array x = random.Normal(ACL_FLOAT, {rows, 33});
    const Array bias = random.Normal(ACL_FLOAT, {33});
    const Gate expected = Routed(Floats(x), Floats(bias), 33, 6, kSqrtSoftplus, 1.5);
    for (const char* op : {"aclnnMoeGatingTopKV2", "aclnnMoeGatingTopKHash"}) {
      Array y = Out(ACL_FLOAT, {rows, 6});
      Array experts = Out(ACL_INT32, {rows, 6});
      Array norms = Out(ACL_FLOAT, {rows, 33});
      ASSERT_TRUE(Call(op, x, bias, nullptr, nullptr, int64_t{6}, int64_t{1}, int64_t{1},
                       int64_t{0}, int64_t{0}, kSqrtSoftplus, true, 1.5, 1e-20, y, experts, norms)
                      .ok());
      EXPECT_EQ(As<int32_t>(experts), expected.experts);
      ExpectNear(Floats(y), expected.weights, 1e-5);
      ExpectNear(Floats(norms), expected.norms, 1e-5);
    }
  }
}

TEST_F(ExpertOps, GatingByHashTakesTheTablesExperts) {
  Random random(2);
  Set("flavour", "both");
  const Array x = random.Normal(ACL_BF16, {2, 8});
  const std::vector<int32_t> table = {0, 1, 2, 3, 7, 5};
  const std::vector<int32_t> forced = {7, 5, 0, 1};
  const Gate expected = Routed(Floats(x), {}, 8, 2, kSqrtSoftplus, 1, &forced);
  const auto call = [&](const char* op, const Array& ids, const Array& tid2eid, Array& y,
                        Array& experts) {
    return Call(op, x, nullptr, ids, tid2eid, int64_t{2}, int64_t{1}, int64_t{1}, int64_t{0},
                int64_t{0}, kSqrtSoftplus, false, 1.0, 1e-20, y, experts, nullptr);
  };
  Array y = Out(ACL_BF16, {2, 2});
  Array experts = Out(ACL_INT32, {2, 2});
  for (const char* op : {"aclnnMoeGatingTopKV2", "aclnnMoeGatingTopKHash"}) {
    ASSERT_TRUE(call(op, Longs({2}, {2, 0}), Ints({3, 2}, table), y, experts).ok());
    EXPECT_EQ(As<int32_t>(experts), forced);
    ExpectNear(Floats(y), expected.weights, 1.0 / 256);

    const Outcome id = call(op, Longs({2}, {2, 3}), Ints({3, 2}, table), y, experts);
    EXPECT_EQ(id.wait, kVectorCoreException);
    EXPECT_THAT(id.message, HasSubstr("inputIds[1] is 3, outside [0, 3)"));
    const Outcome expert =
        call(op, Longs({2}, {0, 1}), Ints({3, 2}, {0, 1, 8, 3, 7, 5}), y, experts);
    EXPECT_EQ(expert.wait, kVectorCoreException);
    EXPECT_THAT(expert.message, HasSubstr("names expert 8, outside [0, 8)"));
    EXPECT_THAT(call(op, Longs({3}, {0, 1, 2}), Ints({3, 2}, table), y, experts).message,
                HasSubstr("inputIds: shape [3] where [2] is expected"));
  }
  // The official operator takes any mix of index types, the custom one does not.
  EXPECT_TRUE(
      call("aclnnMoeGatingTopKV2", Ints({2}, {2, 0}), Ints({3, 2}, table), y, experts).ok());
  EXPECT_THAT(
      call("aclnnMoeGatingTopKHash", Ints({2}, {2, 0}), Ints({3, 2}, table), y, experts).message,
      HasSubstr("one must be INT32, one INT64"));
  const Outcome half = Call("aclnnMoeGatingTopKV2", x, nullptr, Longs({2}, {2, 0}), nullptr,
                            int64_t{2}, int64_t{1}, int64_t{1}, int64_t{0}, int64_t{0},
                            kSqrtSoftplus, false, 1.0, 1e-20, y, experts, nullptr);
  EXPECT_THAT(half.message, HasSubstr("tid2eid: is missing"));
}

TEST_F(ExpertOps, GatingWithinTheBestGroups) {
  // Groups of 2: the best one has the largest member, or the largest sum.
  const Array x = Real(ACL_FLOAT, {1, 6}, {3, -9, 2, 1.9F, 1, 1});
  Array y = Out(ACL_FLOAT, {1, 2});
  Array experts = Out(ACL_INT32, {1, 2});
  const auto call = [&](int64_t mode, int64_t k, int64_t norm) {
    return Call("aclnnMoeGatingTopK", x, nullptr, k, int64_t{1}, int64_t{3}, mode, int64_t{1}, norm,
                false, 1.0, 0.0, y, experts, nullptr);
  };
  ASSERT_TRUE(call(0, 2, kSigmoid).ok());
  EXPECT_EQ(As<int32_t>(experts), (std::vector<int32_t>{0, 1}));
  ASSERT_TRUE(call(1, 2, kSigmoid).ok());
  EXPECT_EQ(As<int32_t>(experts), (std::vector<int32_t>{2, 3}));
  EXPECT_NEAR(Floats(y)[0] + Floats(y)[1], 1, 1e-6);

  EXPECT_THAT(call(0, 3, kSigmoid).message, HasSubstr("k: 3 is outside [1, 2]"));
  EXPECT_EQ(call(0, 3, kSigmoid).size, kAclnnTiling);
  EXPECT_THAT(call(2, 2, kSigmoid).message, HasSubstr("groupSelectMode: 2"));
  // sqrt(softplus) came with V2.
  EXPECT_THAT(call(0, 2, kSqrtSoftplus).message, HasSubstr("normType: 2 is outside [0, 1]"));
}

TEST_F(ExpertOps, EachPackageHasItsRouter) {
  const Array x = Out(ACL_FLOAT, {1, 4});
  for (const auto& [flavour, there] : {std::pair{"custom", "aclnnMoeGatingTopKHash"},
                                       std::pair{"official", "aclnnMoeGatingTopKV2"}}) {
    Set("flavour", flavour);
    void* library = dlopen(ASCEND_EMULATOR_LIBRARY, RTLD_NOW);
    for (const char* op : {"aclnnMoeGatingTopKHash", "aclnnMoeGatingTopKV2"}) {
      EXPECT_EQ(dlsym(library, op) != nullptr, std::string(op) == there) << flavour << " " << op;
    }
    dlclose(library);
  }
}

// Places of choices by expert, then by token; -1 where the expert is outside [first, last).
std::vector<int32_t> Places(const std::vector<int32_t>& experts, int32_t first, int32_t last) {
  std::vector<int32_t> places(experts.size(), -1);
  int32_t place = 0;
  for (int32_t expert = first; expert < last; ++expert) {
    for (size_t i = 0; i < experts.size(); ++i) {
      if (experts[i] == expert) places[i] = place++;
    }
  }
  return places;
}

struct Routing {
  Array x, row_idx, counts, scale;
};

TEST_F(ExpertOps, InitRoutingSortsRowsByExpert) {
  Random random(3);
  for (const int64_t rows : {0, 1, 5}) {
    const int64_t choices = 3 * rows;
    std::vector<int32_t> experts;
    for (int64_t i = 0; i < choices; ++i) experts.push_back(static_cast<int32_t>(random.Below(8)));
    const Array x = random.Normal(ACL_BF16, {rows, 16});
    Routing out{Out(ACL_BF16, {choices, 16}), Out(ACL_INT32, {choices}), Out(ACL_INT64, {8}), {}};
    ASSERT_TRUE(Call("aclnnMoeInitRoutingV3", x, Ints({rows, 3}, experts), nullptr, nullptr,
                     int64_t{-1}, int64_t{0}, int64_t{8}, int64_t{0}, int64_t{1}, true, int64_t{-1},
                     nullptr, int64_t{0}, out.x, out.row_idx, out.counts, nullptr)
                    .ok());
    const std::vector<int32_t> places = Places(experts, 0, 8);
    EXPECT_EQ(As<int32_t>(out.row_idx), places);
    const std::vector<float> in = Floats(x);
    const std::vector<float> got = Floats(out.x);
    for (int64_t i = 0; i < choices; ++i) {
      EXPECT_TRUE(std::equal(&in[i / 3 * 16], &in[i / 3 * 16] + 16, &got[places[i] * 16])) << i;
    }
    for (int64_t expert = 0; expert < 8; ++expert) {
      EXPECT_EQ(As<int64_t>(out.counts)[expert],
                std::count(experts.begin(), experts.end(), expert));
    }
  }
}

TEST_F(ExpertOps, InitRoutingQuantisesAndLeavesTheInactiveTailUndefined) {
  Random random(4);
  const std::vector<int32_t> experts = {5, 2, 0, 3, 2, -1, 7, 3};
  const Array x = random.Normal(ACL_BF16, {4, 20});
  const auto call = [&](int64_t count_type, int64_t row_idx_type,
                        const std::vector<int32_t>& chosen, Routing& out) {
    return Call("aclnnMoeInitRoutingV3", x, Ints({4, 2}, chosen), nullptr, nullptr, int64_t{0},
                int64_t{0}, int64_t{8}, int64_t{0}, count_type, true, int64_t{1}, Numbers{{2, 4}},
                row_idx_type, out.x, out.row_idx, out.counts, out.scale);
  };
  Routing out{Out(ACL_INT8, {8, 20}), Out(ACL_INT32, {8}), Out(ACL_INT64, {2}),
              Out(ACL_FLOAT, {8})};
  ASSERT_TRUE(call(0, 0, experts, out).ok());
  EXPECT_EQ(As<int32_t>(out.row_idx), (std::vector<int32_t>{-1, 0, -1, 2, 1, -1, -1, 3}));
  EXPECT_EQ(As<int64_t>(out.counts), (std::vector<int64_t>{2, 4}));  // so far
  const std::vector<float> in = Floats(x);
  const std::vector<float> scales = Floats(out.scale);
  const std::vector<int8_t> rows = As<int8_t>(out.x);
  const std::vector<int64_t> tokens = {0, 2, 1, 3};
  for (int64_t place = 0; place < 4; ++place) {
    float largest = 0;
    for (int64_t i = 0; i < 20; ++i)
      largest = std::max(largest, std::abs(in[tokens[place] * 20 + i]));
    EXPECT_FLOAT_EQ(scales[place], largest / 127);
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_NEAR(rows[place * 20 + i], in[tokens[place] * 20 + i] / scales[place], 0.501);
    }
  }
  for (int64_t place = 4; place < 8; ++place) EXPECT_TRUE(std::isnan(scales[place]));

  Routing pairs{Out(ACL_INT8, {8, 20}), Out(ACL_INT32, {8}), Out(ACL_INT64, {8, 2}),
                Out(ACL_FLOAT, {8})};
  ASSERT_TRUE(call(2, 1, experts, pairs).ok());
  EXPECT_EQ(As<int64_t>(pairs.counts),
            (std::vector<int64_t>{2, 2, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const std::vector<int32_t> sources = As<int32_t>(pairs.row_idx);
  EXPECT_EQ(std::vector<int32_t>(sources.begin(), sources.begin() + 4),
            (std::vector<int32_t>{1, 4, 3, 7}));
  EXPECT_THAT(std::vector<int32_t>(sources.begin() + 4, sources.end()), Each(0x5A5A5A5A));

  const Outcome fault = call(0, 0, {5, 2, 0, 3, 2, -2, 7, 3}, out);
  EXPECT_EQ(fault.wait, kVectorCoreException);
  EXPECT_THAT(fault.message, HasSubstr("expertIdx[5] is -2, outside [-1, 8)"));
}

TEST_F(ExpertOps, InitRoutingRefusesWhatTheDeviceHasNot) {
  const Array x = Out(ACL_BF16, {2, 4});
  const Array experts = Ints({2, 1}, {0, 1});
  Routing out{Out(ACL_BF16, {2, 4}), Out(ACL_INT32, {2}), Out(ACL_INT64, {4}), {}};
  const auto refused = [&](int64_t drop_pad, int64_t quant, const std::vector<int64_t>& range,
                           const Array& chosen) {
    return Call("aclnnMoeInitRoutingV3", x, chosen, nullptr, nullptr, int64_t{-1}, int64_t{0},
                int64_t{4}, drop_pad, int64_t{1}, true, quant, Numbers{range}, int64_t{0}, out.x,
                out.row_idx, out.counts, nullptr);
  };
  EXPECT_THAT(refused(1, -1, {0, 4}, experts).message, HasSubstr("dropPadMode: 1"));
  EXPECT_EQ(refused(1, -1, {0, 4}, experts).size, kAclnnTiling);
  EXPECT_THAT(refused(0, -1, {0, 5}, experts).message, HasSubstr("activeExpertRange: [0,5]"));
  EXPECT_THAT(refused(0, -1, {0, 4}, Longs({2, 1}, {0, 1})).message,
              HasSubstr("expertIdx: dtype INT64"));
  EXPECT_THAT(refused(0, 1, {0, 4}, experts).message, HasSubstr("expandedXOut: dtype BF16"));
}

TEST_F(ExpertOps, FinalizeRoutingSumsWhatInitRoutingSpread) {
  Random random(5);
  for (const int64_t rows : {0, 1, 4}) {
    const int64_t choices = 3 * rows;
    std::vector<int32_t> places(static_cast<size_t>(choices));
    std::iota(places.rbegin(), places.rend(), 0);
    const Array expanded = random.Normal(ACL_BF16, {choices, 12});
    const Array shared = random.Normal(ACL_BF16, {rows, 12});
    const Array scales = random.Normal(ACL_FLOAT, {rows, 3});
    Array out = Out(ACL_BF16, {rows, 12});
    ASSERT_TRUE(Call("aclnnMoeFinalizeRoutingV2", expanded, Ints({choices}, places), shared,
                     nullptr, nullptr, scales, nullptr, int64_t{2}, out)
                    .ok());
    std::vector<double> expected;
    const std::vector<float> xs = Floats(expanded);
    for (int64_t i = 0; i < rows * 12; ++i) {
      double sum = Floats(shared)[i];
      for (int64_t k = 0; k < 3; ++k) {
        sum += static_cast<double>(Floats(scales)[i / 12 * 3 + k]) *
               xs[places[i / 12 * 3 + k] * 12 + i % 12];
      }
      expected.push_back(sum);
    }
    ExpectNear(Floats(out), expected, 1.0 / 256);
  }
}

TEST_F(ExpertOps, FinalizeRoutingMindsItsIndices) {
  const Array expanded = Real(ACL_FLOAT, {4, 1}, {1, 2, 3, 4});
  const Array scales = Real(ACL_FLOAT, {2, 2}, {1, 10, 100, 1000});
  Array out = Out(ACL_FLOAT, {2, 1});
  const auto call = [&](const Array& x, const std::vector<int32_t>& places, int64_t mode) {
    return Call("aclnnMoeFinalizeRoutingV2", x, Ints({4}, places), nullptr, nullptr, nullptr,
                scales, nullptr, mode, out);
  };
  ASSERT_TRUE(call(expanded, {0, 1, 2, 3}, 2).ok());
  EXPECT_EQ(Floats(out), (std::vector<float>{21, 4300}));
  ASSERT_TRUE(call(expanded, {0, 1, 2, 3}, 0).ok());  // by column
  EXPECT_EQ(Floats(out), (std::vector<float>{31, 4200}));
  const Outcome dropped = call(expanded, {0, -1, 2, 3}, 2);
  EXPECT_EQ(dropped.wait, kVectorCoreException);
  EXPECT_THAT(dropped.message, HasSubstr("expandedRowIdx[1] is -1, outside [0, 4)"));
  Array padded = expanded;
  padded.shape = {2, 2, 1};
  ASSERT_TRUE(call(padded, {0, -1, 2, 3}, 3).ok());
  EXPECT_EQ(Floats(out), (std::vector<float>{1, 4300}));
  EXPECT_THAT(call(expanded, {0, 1, 2, 3}, 3).message, HasSubstr("expandedX: 2 axes"));
  EXPECT_THAT(Call("aclnnMoeFinalizeRoutingV2", expanded, Ints({4}, {0, 1, 2, 3}), nullptr, nullptr,
                   nullptr, nullptr, nullptr, int64_t{2}, out)
                  .message,
              HasSubstr("scales: missing with 2 choices"));
  EXPECT_THAT(Call("aclnnMoeFinalizeRoutingV2", expanded, Ints({4}, {0, 1, 2, 3}), nullptr,
                   Out(ACL_FLOAT, {2, 1}), nullptr, scales, nullptr, int64_t{2}, out)
                  .message,
              HasSubstr("x2: given without x1"));
}

// [E, K, N] in FRACTAL_NZ of INT8, written tile by tile.
Array Tiled(const Array& weights) {
  const int64_t groups = weights.shape[0], rows = weights.shape[1], columns = weights.shape[2];
  Array nz = weights;
  nz.format = ACL_FORMAT_FRACTAL_NZ;
  nz.storage = {groups, (columns + 31) / 32, (rows + 15) / 16, 16, 32};
  nz.bytes.assign(static_cast<size_t>(CountOf(nz.storage)), std::byte{0});
  size_t at = 0;
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t c1 = 0; c1 < nz.storage[1]; ++c1) {
      for (int64_t row = 0; row < nz.storage[2] * 16; ++row) {
        for (int64_t c = c1 * 32; c < (c1 + 1) * 32; ++c, ++at) {
          if (row < rows && c < columns)
            nz.bytes[at] = weights.bytes[(group * rows + row) * columns + c];
        }
      }
    }
  }
  return nz;
}

struct Grouped {
  Array x, weights, channel_scale, row_scale;
  std::vector<int64_t> counts;

  // Row by row, with its group's weights; rows behind the last group are not there.
  std::vector<double> Expected(bool scaled) const {
    const int64_t k = x.shape[1], n = weights.shape[2];
    const std::vector<float> xs = Floats(x), ws = Floats(weights), rows = Floats(row_scale);
    const std::vector<float> channels = Floats(channel_scale);
    std::vector<double> out;
    int64_t row = 0;
    for (size_t group = 0; group < counts.size(); ++group) {
      for (int64_t i = 0; i < counts[group]; ++i, ++row) {
        for (int64_t column = 0; column < n; ++column) {
          double sum = 0;
          for (int64_t j = 0; j < k; ++j) {
            sum += static_cast<double>(xs[row * k + j]) *
                   ws[(static_cast<int64_t>(group) * k + j) * n + column];
          }
          out.push_back(
              scaled ? sum * channels[static_cast<int64_t>(group) * n + column] * rows[row] : sum);
        }
      }
    }
    return out;
  }
};

Grouped RandomGrouped(Random& random, aclDataType dtype) {
  Grouped made;
  made.counts = {2, 0, 3};
  made.x = dtype == ACL_INT8 ? random.Int8({7, 40}) : random.Normal(dtype, {7, 40});
  made.weights =
      dtype == ACL_INT8 ? random.Int8({3, 40, 50}) : random.Normal(dtype, {3, 40, 50}, 0.1F);
  made.channel_scale = random.Normal(ACL_BF16, {3, 50}, 0.01F);
  made.row_scale = random.Normal(ACL_FLOAT, {7}, 0.01F);
  return made;
}

class GroupedMatmul : public ExpertOps {
 protected:
  Outcome Multiply(Grouped& in, bool nz, bool scaled, const Array& group_list, int64_t list_type,
                   Array& out) {
    Array weights = nz ? Tiled(in.weights) : in.weights;
    if (!scaled) {
      return nz ? Call("aclnnGroupedMatmulWeightNz", Tensors{{&in.x}}, Tensors{{&weights}}, nullptr,
                       nullptr, nullptr, nullptr, nullptr, nullptr, group_list, nullptr, nullptr,
                       nullptr, int64_t{2}, int64_t{0}, list_type, int64_t{0}, nullptr, int64_t{0},
                       Tensors{{&out}}, nullptr, nullptr)
                : Call("aclnnGroupedMatmulV5", Tensors{{&in.x}}, Tensors{{&weights}}, nullptr,
                       nullptr, nullptr, nullptr, nullptr, nullptr, group_list, nullptr, nullptr,
                       nullptr, int64_t{2}, int64_t{0}, list_type, int64_t{0}, nullptr,
                       Tensors{{&out}}, nullptr, nullptr);
    }
    return Call("aclnnGroupedMatmulWeightNz", Tensors{{&in.x}}, Tensors{{&weights}}, nullptr,
                Tensors{{&in.channel_scale}}, nullptr, nullptr, nullptr, Tensors{{&in.row_scale}},
                group_list, nullptr, nullptr, nullptr, int64_t{2}, int64_t{0}, list_type,
                int64_t{0}, nullptr, int64_t{0}, Tensors{{&out}}, nullptr, nullptr);
  }
};

TEST_F(GroupedMatmul, ScalesRowsWithTheirGroupAndPoisonsTheTail) {
  Random random(6);
  Grouped in = RandomGrouped(random, ACL_INT8);
  const std::vector<double> expected = in.Expected(true);
  for (const auto& [type, list] :
       {std::pair{int64_t{0}, Longs({3}, {2, 2, 5})}, std::pair{int64_t{1}, Longs({3}, in.counts)},
        std::pair{int64_t{2}, Longs({3, 2}, {0, 2, 2, 3, 0, 0})}}) {
    Array out = Out(ACL_BF16, {7, 50});
    const Outcome outcome = Multiply(in, true, true, list, type, out);
    ASSERT_TRUE(outcome.ok()) << outcome;
    std::vector<float> got = Floats(out);
    for (size_t i = expected.size(); i < got.size(); ++i) EXPECT_TRUE(std::isnan(got[i]));
    got.resize(expected.size());
    ExpectNear(got, expected, 1.0 / 256);
  }
}

TEST_F(GroupedMatmul, GivesRawSumsAndPlainProducts) {
  Random random(7);
  Grouped in = RandomGrouped(random, ACL_INT8);
  Array raw = Out(ACL_INT32, {7, 50});
  ASSERT_TRUE(Multiply(in, true, false, Longs({3}, in.counts), 1, raw).ok());
  std::vector<float> got = Floats(raw);
  EXPECT_EQ(As<int32_t>(raw).back(), 0x5A5A5A5A);
  got.resize(5 * 50);
  ExpectNear(got, in.Expected(false), 0);
  Array same = Out(ACL_INT32, {7, 50});
  ASSERT_TRUE(Multiply(in, false, false, Longs({3}, in.counts), 1, same).ok());
  EXPECT_EQ(same.bytes, raw.bytes);

  Grouped plain = RandomGrouped(random, ACL_BF16);
  Array out = Out(ACL_BF16, {7, 50});
  ASSERT_TRUE(Multiply(plain, false, false, Longs({3}, {2, 0, 3}), 1, out).ok());
  got = Floats(out);
  got.resize(5 * 50);
  ExpectNear(got, plain.Expected(false), 1.0 / 256);
}

TEST_F(GroupedMatmul, TakesNoRows) {
  Random random(13);
  Grouped in = RandomGrouped(random, ACL_INT8);
  in.x = Bytes({0, 40}, {});
  in.row_scale = Real(ACL_FLOAT, {0}, {});
  Array out = Out(ACL_BF16, {0, 50});
  EXPECT_TRUE(Multiply(in, true, true, Longs({3}, {0, 0, 0}), 1, out).ok());
}

TEST_F(GroupedMatmul, FaultsOnAGroupListThatIsNone) {
  Random random(8);
  Grouped in = RandomGrouped(random, ACL_INT8);
  Array out = Out(ACL_INT32, {7, 50});
  for (const auto& [type, list, text] :
       {std::tuple{int64_t{0}, Longs({3}, {2, 1, 5}), "entry 1 gives group 1 -1 rows"},
        std::tuple{int64_t{1}, Longs({3}, {2, 3, 3}),
                   "entry 2 gives group 2 3 rows, 8 by then, where x has 7"},
        std::tuple{int64_t{2}, Longs({3, 2}, {0, 1, 3, 1, 0, 0}), "gives group 3"}}) {
    const Outcome outcome = Multiply(in, true, false, list, type, out);
    EXPECT_EQ(outcome.wait, kAiCoreException);
    EXPECT_THAT(outcome.message, HasSubstr(text));
  }
}

TEST_F(GroupedMatmul, RefusesWrongCombinations) {
  Random random(9);
  Grouped in = RandomGrouped(random, ACL_INT8);
  Array out = Out(ACL_BF16, {7, 50});
  const Array counts = Longs({3}, in.counts);
  EXPECT_THAT(Multiply(in, true, false, counts, 1, out).message,
              HasSubstr("scale: missing where x is INT8, out BF16"));
  Array raw = Out(ACL_INT32, {7, 50});
  EXPECT_THAT(Multiply(in, true, true, counts, 1, raw).message,
              HasSubstr("scale: given where x is INT8, out INT32"));
  EXPECT_THAT(Multiply(in, true, true, Ints({3}, {2, 0, 3}), 1, out).message,
              HasSubstr("groupList: dtype INT32"));
  EXPECT_THAT(Multiply(in, true, true, Longs({2}, {2, 3}), 1, out).message,
              HasSubstr("groupList: shape [2], expected [3]"));
  in.channel_scale = random.Normal(ACL_FLOAT, {3, 50});
  EXPECT_THAT(Multiply(in, true, true, counts, 1, out).message,
              HasSubstr("scale: FLOAT where an out of BF16 needs BF16"));
  Array weights = Tiled(in.weights);
  const Outcome outcome =
      Call("aclnnGroupedMatmulV5", Tensors{{&in.x}}, Tensors{{&weights}}, nullptr, nullptr, nullptr,
           nullptr, nullptr, nullptr, counts, nullptr, nullptr, nullptr, int64_t{2}, int64_t{0},
           int64_t{1}, int64_t{0}, nullptr, Tensors{{&raw}}, nullptr, nullptr);
  EXPECT_THAT(outcome.message, HasSubstr("weight[0]: format 29 where ND (2) is expected"));

  // A limit that small models lift by name.
  Grouped one = in;
  one.weights.shape = {1, 40, 50};
  one.weights.bytes.resize(2000);
  EXPECT_THAT(Multiply(one, true, false, Longs({1}, {7}), 1, raw).message, HasSubstr("one group"));
  Set("small_models", "GroupedMatmul.groups");
  EXPECT_TRUE(Multiply(one, true, false, Longs({1}, {7}), 1, raw).ok());
}

enum class Halves { kFrontBack, kEvenOdd };

// The clamped variant, or plain SwiGLU where limit is 0.
std::vector<double> Glu(const std::vector<double>& x, int64_t width, Halves halves, double limit) {
  std::vector<double> out;
  for (size_t row = 0; row < x.size() / static_cast<size_t>(width); ++row) {
    for (int64_t i = 0; i < width / 2; ++i) {
      double a = x[row * width + (halves == Halves::kEvenOdd ? 2 * i : i)];
      double b = x[row * width + (halves == Halves::kEvenOdd ? 2 * i + 1 : width / 2 + i)];
      if (limit > 0) {
        a = std::min(a, limit);
        b = std::clamp(b, -limit, limit);
      }
      out.push_back(a / (1 + std::exp(-a)) * b);
    }
  }
  return out;
}

class DequantSwiglu : public ExpertOps {
 protected:
  Outcome Activate(int64_t mode, double limit) {
    char dynamic[] = "dynamic";
    y_ = Out(ACL_INT8, {5, 32});
    scale_ = Out(ACL_FLOAT, {5});
    return Call("aclnnDequantSwigluQuantV2", x_, channels_, rows_, nullptr, nullptr, nullptr,
                groups_, true, static_cast<const char*>(dynamic), int64_t{2}, nullptr, int64_t{-1},
                mode, limit, 1.0, 0.0, y_, scale_);
  }

  // What mode 0 and the variants start from.
  std::vector<double> Dequantised() const {
    std::vector<double> values;
    const std::vector<float> xs = Floats(x_), channels = Floats(channels_), rows = Floats(rows_);
    for (int64_t i = 0; i < 5 * 64; ++i) {
      const int64_t group = i / 64 < 2 ? 0 : 1;
      values.push_back(static_cast<double>(xs[i]) * channels[group * 64 + i % 64] * rows[i / 64]);
    }
    return values;
  }

  // The first `rows`; the rest is behind the groups.
  void ExpectRows(const std::vector<double>& expected, int64_t rows) const {
    const std::vector<float> scales = Floats(scale_);
    const std::vector<int8_t> got = As<int8_t>(y_);
    for (int64_t row = 0; row < rows; ++row) {
      double largest = 0;
      for (int64_t i = 0; i < 32; ++i)
        largest = std::max(largest, std::abs(expected[row * 32 + i]));
      ASSERT_NEAR(scales[row], largest / 127, 1e-5 * largest) << row;
      for (int64_t i = 0; i < 32; ++i) {
        ASSERT_NEAR(got[row * 32 + i], expected[row * 32 + i] / scales[row], 0.51)
            << row << ", " << i;
      }
    }
    for (int64_t row = rows; row < 5; ++row) EXPECT_TRUE(std::isnan(scales[row]));
  }

  void SetUp() override {
    ExpertOps::SetUp();
    Random random(10);
    std::vector<int32_t> sums(5 * 64);
    for (int32_t& sum : sums) sum = static_cast<int32_t>(random.Below(20000) - 10000);
    x_ = Ints({5, 64}, sums);
    channels_ = random.Normal(ACL_FLOAT, {2, 64}, 0.02F);
    rows_ = random.Normal(ACL_FLOAT, {5}, 0.02F);
    groups_ = Longs({2}, {2, 2});
  }

  Array x_, channels_, rows_, groups_, y_, scale_;
};

TEST_F(DequantSwiglu, ModeOneHasHalvesInTheCustomPackageAndEvenAndOddColumnsInTheStandardLibrary) {
  const std::vector<double> values = Dequantised();
  for (const char* flavour : {"custom", "both"}) {
    Set("flavour", flavour);
    ASSERT_TRUE(Activate(1, 1.5).ok());
    ExpectRows(Glu(values, 64, Halves::kFrontBack, 1.5), 4);
    ASSERT_TRUE(Activate(1, 0).ok());  // no limit
    ExpectRows(Glu(values, 64, Halves::kFrontBack, 0), 4);
    EXPECT_THAT(Activate(2, 1.5).message, HasSubstr("swigluMode: 2 is outside [0, 1]"));
  }
  Set("flavour", "official");
  ASSERT_TRUE(Activate(1, 1.5).ok());
  ExpectRows(Glu(values, 64, Halves::kEvenOdd, 1.5), 4);
  ASSERT_TRUE(Activate(2, 1.5).ok());
  ExpectRows(Glu(values, 64, Halves::kFrontBack, 1.5), 4);
  EXPECT_THAT(Activate(2, 0).message, HasSubstr("clampLimit: 0 is not positive"));
}

TEST_F(DequantSwiglu, ModeZeroIsTheSameInAll) {
  for (const char* flavour : {"custom", "official"}) {
    Set("flavour", flavour);
    ASSERT_TRUE(Activate(0, 0).ok());
    ExpectRows(Glu(Dequantised(), 64, Halves::kFrontBack, 0), 4);
  }
}

TEST_F(DequantSwiglu, ChecksOperandsAndGroups) {
  groups_ = Longs({2}, {3, 3});
  EXPECT_EQ(Activate(0, 0).wait, kVectorCoreException);
  EXPECT_THAT(Activate(0, 0).message, HasSubstr("groupIndex: 3 rows, 6 by then, where x has 5"));
  groups_ = Ints({2}, {2, 3});
  EXPECT_THAT(Activate(0, 0).message, HasSubstr("groupIndex: dtype INT32"));
  groups_ = Longs({2}, {2, 3});
  channels_ = Out(ACL_FLOAT, {64});
  EXPECT_THAT(Activate(0, 0).message, HasSubstr("weightScale: shape [64], expected [2, 64]"));
  const Array bf16 = Out(ACL_BF16, {5, 64});
  x_ = bf16;
  EXPECT_THAT(Activate(0, 0).message, HasSubstr("weightScale: may not be given"));
  x_ = Ints({5, 32}, std::vector<int32_t>(160));
  EXPECT_THAT(Activate(0, 0).message, HasSubstr("x: last axis is 32, no multiple of 64"));
}

TEST_F(DequantSwiglu, TakesBf16WithoutGroupsAndScales) {
  Random random(11);
  const Array x = random.Normal(ACL_BF16, {5, 64}, 3);
  char dynamic[] = "dynamic";
  y_ = Out(ACL_INT8, {5, 32});
  scale_ = Out(ACL_FLOAT, {5});
  Set("flavour", "official");
  ASSERT_TRUE(Call("aclnnDequantSwigluQuantV2", x, nullptr, nullptr, nullptr, nullptr, nullptr,
                   nullptr, true, static_cast<const char*>(dynamic), int64_t{2}, nullptr,
                   int64_t{-1}, int64_t{2}, 2.0, 1.0, 0.0, y_, scale_)
                  .ok());
  const std::vector<float> xs = Floats(x);
  ExpectRows(Glu(std::vector<double>(xs.begin(), xs.end()), 64, Halves::kFrontBack, 2), 5);
}

TEST_F(ExpertOps, SwiGluAndItsClippedFormFollowTheirFormulas) {
  Random random(12);
  for (const int64_t rows : {0, 1, 5}) {
    const Array x = random.Normal(ACL_BF16, {rows, 18}, 4);
    const std::vector<float> xs = Floats(x);
    const std::vector<double> values(xs.begin(), xs.end());
    Array out = Out(ACL_BF16, {rows, 9});
    ASSERT_TRUE(Call("aclnnSwiGlu", x, int64_t{-1}, out).ok());
    ExpectNear(Floats(out), Glu(values, 18, Halves::kFrontBack, 0), 1.0 / 256);
    for (const bool interleaved : {false, true}) {
      ASSERT_TRUE(
          Call("aclnnClippedSwiglu", x, nullptr, int64_t{-1}, 1.0, 2.0, 0.0, interleaved, out)
              .ok());
      ExpectNear(Floats(out),
                 Glu(values, 18, interleaved ? Halves::kEvenOdd : Halves::kFrontBack, 2),
                 1.0 / 256);
    }
  }
  const Array x = random.Normal(ACL_FLOAT, {4, 6});
  Array out = Out(ACL_FLOAT, {4, 3});
  ASSERT_TRUE(
      Call("aclnnClippedSwiglu", x, Longs({2}, {1, 2}), int64_t{1}, 1.0, 7.0, 0.0, false, out)
          .ok());
  EXPECT_FALSE(std::isnan(Floats(out)[8]));
  EXPECT_TRUE(std::isnan(Floats(out)[9]));
  EXPECT_THAT(Call("aclnnSwiGlu", x, int64_t{0}, out).message,
              HasSubstr("out: shape [4, 3], expected [2, 6]"));
  EXPECT_THAT(Call("aclnnSwiGlu", Out(ACL_FLOAT, {4, 3}), int64_t{1}, out).message,
              HasSubstr("x: axis 1 is 3, which is odd"));
}

}  // namespace
}  // namespace ascend_emulator::standard
