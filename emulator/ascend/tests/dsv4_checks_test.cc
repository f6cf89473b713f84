// What the DeepSeek-V4 operators refuse, in phase 1 or as a fault of the device, and in what words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "dsv4_calls.h"

namespace ascend_emulator::dsv4 {
namespace {

using ::testing::HasSubstr;

constexpr int kNull = 161001;
constexpr int kInvalid = 161002;
constexpr int kCoreFault = 507015;

template <typename C>
struct Wrong {
  std::function<void(C&)> change;
  int code;
  std::string message;
};

void ExpectWrong(const Outcome& outcome, int code, const std::string& message) {
  EXPECT_EQ(outcome.code, code) << message << ", got: " << outcome.message;
  EXPECT_THAT(outcome.message, HasSubstr(message));
  ascend_emulator_clear_reports();
}

class ChecksTest : public Dsv4Test {};

AttentionCall Compressed() {
  AttentionCall call;
  call.ratio = 4;
  call.topk = 8;
  call.Fill();
  return call;
}

CompressorCall Step() {
  CompressorCall call;
  call.x = Make(ACL_BF16, {5, 48}, Random(5 * 48, 1));
  call.wkv = Make(ACL_BF16, {64, 48}, Random(64 * 48, 2));
  call.wgate = Make(ACL_BF16, {64, 48}, Random(64 * 48, 3));
  call.ape = Make(ACL_FLOAT, {4, 64}, Random(4 * 64, 4));
  call.norm = Make(ACL_BF16, {32}, Values(32, 1));
  call.cos = Make(ACL_FLOAT, {3, 16}, Values(48, 1));
  call.sin = Make(ACL_FLOAT, {3, 16}, Values(48, 0));
  call.state = Make(ACL_FLOAT, {3, 8, 128}, Values(3 * 8 * 128, 0));
  call.state_stride = 8 * 128;
  call.starts = Ints({0, 3, 5});
  call.start_pos = Ints({0, 3});
  call.table = Ints({1, 2}, {2, 1});
  call.out = Make(ACL_BF16, {3, 32});
  return call;
}

TEST_F(ChecksTest, OfAttentionNameTheOperandAndBothValues) {
  using C = AttentionCall;
  const std::vector<Wrong<C>> wrongs = {
      {[](C& c) { c.q = nullptr; }, kNull, "q: is null"},
      {[](C& c) {
         c.q = Make(ACL_FLOAT, {9, 4, 32});
       },
       kInvalid, "q: dtype"},
      {[](C& c) {
         c.q = Make(ACL_BF16, {9, 128});
       },
       kInvalid, "q: rank 2, layoutQ TND has 3"},
      {[](C& c) { c.layout_q = "BSND"; }, kInvalid, "q: rank 3, layoutQ BSND has 4"},
      {[](C& c) { c.layout_q = "BSH"; }, kInvalid, "layoutQ BSH, neither TND nor BSND"},
      {[](C& c) { c.layout_kv = "PA_BBND"; }, kInvalid, "layoutKv PA_BBND, not PA_ND"},
      {[](C& c) { c.starts = nullptr; }, kNull, "cuSeqlensQ"},
      {[](C& c) {
         c.starts = Ints({0, 9});
       },
       kInvalid, "cuSeqlensQ"},
      {[](C& c) {
         c.starts = Make(ACL_INT64, {5}, {0, 1, 6, 6, 9});
       },
       kInvalid, "cuSeqlensQ: dtype"},
      {[](C& c) { c.lengths = nullptr; }, kNull, "sequsedKv"},
      {[](C& c) { c.sinks = nullptr; }, kNull, "sinks"},
      {[](C& c) { c.metadata = nullptr; }, kNull, "metadata"},
      {[](C& c) { c.metadata = Make(ACL_INT32, {1023}); }, kInvalid, "metadata"},
      {[](C& c) { c.window_table = nullptr; }, kNull, "oriBlockTable"},
      {[](C& c) { c.window_stride += 16; }, kInvalid, "but oriKvStride is 592"},
      {[](C& c) { c.entry_stride = 0; }, kInvalid, "cmpKv: not contiguous"},
      {[](C& c) {
         c.window = Make(ACL_BF16, {3, 24, 1, 32});
       },
       kInvalid, "oriKv: block size 24 is not a multiple of 16"},
      {[](C& c) {
         c.window = Make(ACL_FLOAT16, {3, 16, 1, 32});
       },
       kInvalid, "oriKv: "},
      {[](C& c) { c.call_ratio = 128; }, kInvalid,
       "cmpRatio 128, but with cmpSparseIndices it is 4"},
      {[](C& c) { c.ori_mask = 3; }, kInvalid, "oriMaskMode 3, not 4"},
      {[](C& c) { c.cmp_mask = 0; }, kInvalid, "cmpMaskMode 0, not 3"},
      {[](C& c) { c.lse = true; }, kInvalid, "returnSoftmaxLse: not emulated"},
      {[](C& c) {
         c.ori_indices = Make(ACL_INT32, {9, 1, 128});
       },
       kInvalid, "oriSparseIndices"},
      {[](C& c) { c.entries = nullptr; }, kInvalid, "there is no cmpKv"},
  };
  UseFlavour(false);
  for (const Wrong<C>& wrong : wrongs) {
    AttentionCall call = Compressed();
    wrong.change(call);
    ExpectWrong(call.Attend(stream(), false), wrong.code, wrong.message);
  }
}

TEST_F(ChecksTest, OfOfficialAttentionHoldTheGatesOfA3) {
  using C = AttentionCall;
  const std::vector<Wrong<C>> wrongs = {
      {[](C& c) { c.layout_kv = "PA_ND"; }, kInvalid, "layoutKv PA_ND: only PA_BBND"},
      {[](C& c) { c.left = 128; }, kInvalid,
       "oriWinLeft 128, oriWinRight 0: A3 has 127 and 0 alone"},
      {[](C& c) { c.residuals = nullptr; }, kNull, "cmpResidualKv"},
      {[](C& c) { c.call_ratio = 2; }, kInvalid, "cmpRatio 2, but with cmpSparseIndices it is 4"},
      {[](C& c) { c.entry_lengths = nullptr; }, kNull, "sequsedCmpKv"},
      {[](C& c) {
         c.residuals = Ints({1, 0, 0, 0});
       },
       kCoreFault, "but sequsedOriKv is 7"},
  };
  UseFlavour(true);
  for (const Wrong<C>& wrong : wrongs) {
    AttentionCall call = Compressed();
    ASSERT_EQ(call.Deal(stream(), true).code, 0);
    wrong.change(call);
    ExpectWrong(call.Attend(stream(), true), wrong.code, wrong.message);
  }
}

TEST_F(ChecksTest, OfValuesThatAttentionReadsAreFaultsOfTheDevice) {
  using C = AttentionCall;
  const std::vector<Wrong<C>> wrongs = {
      {[](C& c) {
         c.lengths->Write({1, 20, 7, 301});
       },
       kCoreFault, "metadata is stale"},
      {[](C& c) {
         c.starts->Write({0, 1, 7, 7, 9});
       },
       kCoreFault, "metadata is stale"},
      {[](C& c) {
         c.starts->Write({1, 1, 6, 6, 9});
       },
       kCoreFault, "cuSeqlensQ: begins with 1"},
      {[](C& c) {
         c.starts->Write({0, 6, 5, 6, 9});
       },
       kCoreFault, "cuSeqlensQ: element 2 is 5"},
      {[](C& c) { c.metadata->Write(Values(1024, 0)); }, kCoreFault,
       "rows are covered up to (0, 0)"},
      {[](C& c) { c.window_table->Write({999}); }, kCoreFault,
       "oriBlockTable: page 0 of request 0"},
      {[](C& c) {
         c.entry_table->Write({-1, -1, -1, -1, -1, -1});
       },
       kCoreFault, "cmpBlockTable"},
      {[](C& c) { c.selected->Write(Values(8 * 9, 74)); }, kCoreFault, "is 74, limit"},
      {[](C& c) {
         c.window_table = Ints(std::vector<int64_t>(4 * 2, 1), {4, 2});
       },
       kCoreFault, "oriBlockTable: 2 pages of 16 rows, but request 3 has 300 rows"},
  };
  UseFlavour(false);
  for (const Wrong<C>& wrong : wrongs) {
    AttentionCall call = Compressed();
    ASSERT_EQ(call.Deal(stream(), false).code, 0);
    wrong.change(call);
    ExpectWrong(call.Attend(stream(), false), wrong.code, wrong.message);
  }
}

TEST_F(ChecksTest, OfTheCoresThatATableIsForKnowTheDevice) {
  UseFlavour(false);
  AttentionCall call = Compressed();
  ASSERT_EQ(call.Deal(stream(), false).code, 0);
  Set("cores", "20");
  ExpectWrong(call.Attend(stream(), false), kCoreFault,
              "metadata was made for cores 24, the call has 20");
  ASSERT_EQ(call.Deal(stream(), false).code, 0);
  EXPECT_EQ(call.Attend(stream(), false).code, 0);
}

TEST_F(ChecksTest, OfModelSizesAreLiftedOneByOne) {
  Set("small_models", "0");
  UseFlavour(false);
  AttentionCall call = Compressed();
  ExpectWrong(call.Attend(stream(), false), kInvalid, "q: head dim 32, not 512");
  Set("small_models", "SparseAttnSharedkv.head_dim");
  ExpectWrong(call.Attend(stream(), false), kInvalid, "8 per token, neither 512 nor 1024");
  call.heads = 6;
  ExpectWrong(call.Deal(stream(), false), kInvalid, "numHeadsQ 6, not a multiple of 4");
  UseFlavour(true);
  ExpectWrong(call.Deal(stream(), true), kInvalid, "numHeadsQ 6, not a power of two");
}

TEST_F(ChecksTest, OfModelSizesTakeThoseOfTheModelsThemselves) {
  Set("small_models", "0");
  AttentionCall attention;
  attention.queries = {2};
  attention.keys = {40};
  attention.width = 512;
  attention.ratio = 4;
  attention.topk = 512;
  attention.Fill();
  IndexerCall indexer;
  indexer.queries = {2};
  indexer.keys = {40};
  indexer.heads = 64;
  indexer.width = 128;
  indexer.topk = 512;
  indexer.Fill();
  CompressorCall compressor;
  compressor.x = Make(ACL_BF16, {4, 1024}, Random(4 * 1024, 1));
  compressor.wkv = Make(ACL_BF16, {256, 1024}, Random(256 * 1024, 2, 0.1));
  compressor.wgate = Make(ACL_BF16, {256, 1024}, Random(256 * 1024, 3, 0.1));
  compressor.ape = Make(ACL_FLOAT, {4, 256}, Random(4 * 256, 4));
  compressor.norm = Make(ACL_BF16, {128}, Values(128, 1));
  compressor.cos = Make(ACL_BF16, {2, 64}, Values(128, 1));
  compressor.sin = Make(ACL_BF16, {2, 64}, Values(128, 0));
  compressor.rope = 64;
  compressor.state = Make(ACL_FLOAT, {2, 16, 512}, Values(2 * 16 * 512, 0));
  compressor.state_stride = 16 * 512;
  compressor.table = Ints({1}, {1, 1});
  compressor.starts = Ints({0, 4});
  compressor.out = Make(ACL_BF16, {2, 128});
  for (const bool official : {false, true}) {
    UseFlavour(official);
    ExpectSucceeds(attention.Deal(stream(), official));
    ExpectSucceeds(attention.Attend(stream(), official));
    ExpectSucceeds(indexer.Deal(stream(), official));
    ExpectSucceeds(indexer.Pick(stream(), official));
    ExpectSucceeds(compressor.Compress(stream(), official));
  }
  EXPECT_STREQ(ascend_emulator_lifted_limits(), "");
}

TEST_F(ChecksTest, OfNoTokensLetACallPass) {
  for (const bool official : {false, true}) {
    UseFlavour(official);
    CompressorCall call = Step();
    call.x = Make(ACL_BF16, {0, 48});
    call.starts = Ints({0, 0, 0});
    call.out = Make(ACL_BF16, {0, 32});
    call.cos = Make(ACL_FLOAT, {0, 16});
    call.sin = Make(ACL_FLOAT, {0, 16});
    ExpectSucceeds(call.Compress(stream(), official));
    IndexerCall indexer;
    indexer.queries = {0, 0};
    indexer.keys = {0, 3};
    indexer.Fill();
    ExpectSucceeds(indexer.Deal(stream(), official));
    ExpectSucceeds(indexer.Pick(stream(), official));
  }
}

TEST_F(ChecksTest, OfTheMetadataOperators) {
  using C = AttentionCall;
  const std::vector<Wrong<C>> wrongs = {
      {[](C& c) {
         c.metadata = Make(ACL_INT32, {1, 1024});
       },
       kInvalid, "metaData"},
      {[](C& c) { c.starts = nullptr; }, kNull, "cuSeqLensQ"},
      {[](C& c) { c.queries.push_back(1); }, kInvalid, "batchSize 5, but sequsedKv has 4"},
      {[](C& c) { c.ratio = 128; }, kInvalid, "cmpRatio 128, but cmpTopk is 8"},
      {[](C& c) {
         c.lengths->Write({1, -2, 7, 300});
       },
       kCoreFault, "sequsedKv: element 1 is -2"},
  };
  UseFlavour(false);
  for (const Wrong<C>& wrong : wrongs) {
    AttentionCall call = Compressed();
    wrong.change(call);
    ExpectWrong(call.Deal(stream(), false), wrong.code, wrong.message);
  }
}

TEST_F(ChecksTest, OfTheIndexer) {
  using C = IndexerCall;
  const std::vector<Wrong<C>> wrongs = {
      {[](C& c) {
         c.weights = Make(ACL_BF16, {9, 4});
       },
       kInvalid, "weights: dtype"},
      {[](C& c) { c.ends = c.starts; }, kInvalid, "actualSeqLengthsQuery"},
      {[](C& c) { c.key_stride = 16; }, kInvalid,
       "key: its stride on axis 0 is 288, but stride is 16"},
      {[](C& c) { c.layout_key = "BSND"; }, kInvalid, "layoutKey BSND"},
      {[](C& c) { c.mask = 0; }, kInvalid, "sparseMode 0"},
      {[](C& c) { c.ratio = 8; }, kInvalid, "cmpRatio 8, not 4"},
      {[](C& c) { c.topk = 2049; }, kInvalid, "sparseIndices"},
      {[](C& c) {
         c.key_scale = Make(ACL_FLOAT16, {16, 16});
       },
       kInvalid, "keyDequantScale"},
      {[](C& c) {
         c.lengths->Write({2, 21, 301});
       },
       kCoreFault, "metadata is stale"},
      {[](C& c) { c.table->Write(Values(15, 16)); }, kCoreFault, "blockTable: page"},
      {[](C& c) {
         c.weights->Write(Values(36, 60000));
         c.query_scale->Write(Values(36, 2));
       },
       kCoreFault, "beyond FP16"},
      {[](C& c) {
         c.ends->Write({1, 6, 8});
       },
       kCoreFault, "the requests have 8 tokens, query has 9"},
  };
  UseFlavour(false);
  for (const Wrong<C>& wrong : wrongs) {
    IndexerCall call;
    call.Fill();
    ASSERT_EQ(call.Deal(stream(), false).code, 0);
    wrong.change(call);
    ExpectWrong(call.Pick(stream(), false), wrong.code, wrong.message);
  }
  UseFlavour(true);
  IndexerCall call;
  call.Fill();
  call.residuals = nullptr;
  ExpectWrong(call.Pick(stream(), true), kNull, "cmpResidualK: is missing");
  Set("small_models", "0");
  ExpectWrong(call.Pick(stream(), true), kNull, "cmpResidualK: is missing");
  call.Fill();
  ExpectWrong(call.Pick(stream(), true), kInvalid, "query: 4 heads, not 64");
}

TEST_F(ChecksTest, OfTheCompressor) {
  using C = CompressorCall;
  const auto table = [](std::vector<int64_t> first, std::vector<int64_t> second) {
    const auto width = static_cast<int64_t>(first.size());
    first.insert(first.end(), second.begin(), second.end());
    return Ints(first, {2, width});
  };
  const std::vector<int64_t> near = {23, 23, 23, 23, 23, 23, 23, 23, 0, 1, 2};
  const std::vector<Wrong<C>> wrongs = {
      {[](C& c) {
         c.x = Make(ACL_FLOAT, {5, 48});
       },
       kInvalid, "x: dtype"},
      {[](C& c) {
         c.wkv = Make(ACL_FLOAT16, {64, 48});
       },
       kInvalid, "wkv: "},
      {[](C& c) {
         c.state = Make(ACL_BF16, {3, 8, 128});
       },
       kInvalid, "stateCache: dtype"},
      {[](C& c) { c.state_stride = 1; }, kInvalid, "stateCacheStrideDim0 is 1"},
      {[](C& c) {
         c.ape = Make(ACL_FLOAT, {8, 64});
       },
       kInvalid, "ape"},
      {[](C& c) { c.ratio = 8; }, kInvalid, "cmpRatio 8, coff 2"},
      {[](C& c) { c.mode = 3; }, kInvalid, "cacheMode 3"},
      {[](C& c) { c.rotary = 0; }, kInvalid, "rotaryMode 0"},
      {[](C& c) { c.starts = nullptr; }, kNull, "cuSeqlens"},
      {[](C& c) {
         c.x = Make(ACL_BF16, {1, 5, 48});
       },
       kInvalid, "cuSeqlens"},
      {[](C& c) {
         c.start_pos = Make(ACL_INT64, {2}, {0, 3});
       },
       kInvalid, "startPos: dtype"},
      {[](C& c) {
         c.out = Make(ACL_BF16, {5, 32});
       },
       kInvalid, "cmpKv"},
      {[](C& c) {
         c.sin = Make(ACL_BF16, {3, 16});
       },
       kInvalid, "ropeSin: "},
      {[](C& c) { c.mode = 2; }, kInvalid,
       "stateBlockTable: 1 columns, cacheMode 2 needs more than 8"},
      {[](C& c) {
         c.table = Ints({1, 3}, {2, 1});
       },
       kCoreFault, "is 3, stateCache has 3 blocks"},
      {[](C& c) {
         c.table = Ints({1, 1}, {2, 1});
         c.start_pos = Ints({0, 1});
       },
       kCoreFault, "requests 0 and 1 write the same row"},
      {[](C& c) {
         c.start_pos = Ints({0, 8});
       },
       kCoreFault, "position 8 of request 1 needs column 1"},
      {[](C& c) {
         c.used = Ints({4, 0});
       },
       kCoreFault, "request 0 uses 4 of its 3 tokens"},
      {[=](C& c) {
         c.mode = 2;
         c.table = table({9, 9, 9, 9, 9, 9, 9, 9, 0, 1}, {9, 9, 9, 9, 9, 9, 9, 9, 4, 5});
       },
       kCoreFault, "10 columns, request 0 with 3 new tokens needs 11"},
      {[=](C& c) {
         c.mode = 2;
         c.table = table(near, {23, 23, 23, 23, 23, 4, 5, 6, 24, 8, 9});
       },
       kCoreFault, "is 24, stateCache has 24 rows"},
      {[=](C& c) {
         c.mode = 2;
         c.table = table(near, {23, 23, 23, 23, 23, 4, 5, 6, 2, 8, 9});
       },
       kCoreFault, "requests 0 and 1 write the same row"},
  };
  UseFlavour(false);
  for (const Wrong<C>& wrong : wrongs) {
    CompressorCall call = Step();
    wrong.change(call);
    ExpectWrong(call.Compress(stream(), false), wrong.code, wrong.message);
  }
  Set("small_models", "0");
  ExpectWrong(Step().Compress(stream(), false), kInvalid, "ropeHeadDim 16, not 64");
  Set("small_models", "Compressor.rope_head_dim");
  ExpectWrong(Step().Compress(stream(), false), kInvalid, "hidden size 48");
}

TEST_F(ChecksTest, OfTheOfficialCompressorHoldTheGatesOfA3AndSeeTheOtherArgumentList) {
  UseFlavour(true);
  CompressorCall call = Step();
  call.mode = 2;
  ExpectWrong(call.Compress(stream(), true), kInvalid, "cacheMode 2: A3 has 1 alone");
  call = Step();
  call.state = Make(ACL_FLOAT, {3, 8, 128}, {}, 8 * 128 + 32);
  call.state_stride = 8 * 128 + 32;
  ExpectWrong(call.Compress(stream(), true), kInvalid, "stateCache");
  ExpectWrong(Step().Compress(stream(), false), kInvalid, "stateBlockTable: dtype");
}

TEST_F(ChecksTest, OfHyperConnections) {
  const Tensor x = Make(ACL_BF16, {2, 4, 128});
  const Tensor fn = Make(ACL_FLOAT, {24, 512});
  const Tensor scale = Make(ACL_FLOAT, {3});
  const Tensor base = Make(ACL_FLOAT, {24});
  const Tensor y = Make(ACL_BF16, {2, 128});
  const Tensor post = Make(ACL_FLOAT, {2, 4});
  const Tensor comb = Make(ACL_FLOAT, {2, 4, 4});
  const auto pre = [&](const Tensor& in, const Tensor& matrix, int64_t mult, int64_t iterations) {
    return Perform("aclnnHcPre", stream(), In(in), In(matrix), In(scale), In(base), mult,
                   iterations, 1e-6, 1e-6, Raw(y), Raw(post), Raw(comb));
  };
  UseFlavour(false);
  ExpectWrong(pre(x, fn, 2, 20), kInvalid, "hcMult 2, not 4");
  ExpectWrong(pre(x, fn, 4, 0), kInvalid, "0 iterations");
  ExpectWrong(pre(x, comb, 4, 20), kInvalid, "hcFn");
  ExpectWrong(pre(Make(ACL_BF16, {2, 4, 128}, {}, 1024), fn, 4, 20), kInvalid, "x");
  Set("small_models", "0");
  ExpectWrong(pre(x, fn, 4, 20), kInvalid, "x: hidden size 128, neither 4096 nor 7168");
  UseFlavour(true);
  const Tensor streams = Make(ACL_BF16, {1, 2, 4, 64});
  const Tensor out = Make(ACL_BF16, {1, 2, 64});
  const Tensor gates = Make(ACL_FLOAT, {1, 2, 4});
  const Tensor mixes = Make(ACL_FLOAT, {1, 2, 4, 4});
  const auto spread = [&](const Tensor& in, const Tensor& output) {
    return Perform("aclnnMhcPost", stream(), In(in), In(mixes), In(output), In(gates), Raw(in));
  };
  ExpectWrong(spread(streams, out), kInvalid, "x: hidden size 64, not a multiple of 128");
  ExpectWrong(spread(Make(ACL_BF16, {1, 2, 2, 64}), out), 561103, "x: 2 streams, not 4");
  ExpectWrong(spread(x, out), kInvalid, "x");
}

TEST_F(ChecksTest, OfRopeAndScatter) {
  const Tensor x = Make(ACL_BF16, {2, 1, 3, 24});
  const Tensor table = Make(ACL_BF16, {2, 1, 1, 8});
  const auto turn = [&](const Tensor& cos, int64_t mode, const std::vector<int64_t>& slice) {
    return PerformWithIntegers("aclnnInplacePartialRotaryMul", stream(), slice, Raw(x), In(cos),
                               In(cos), mode);
  };
  UseFlavour(false);
  ExpectWrong(turn(table, 4, {16, 24}), kInvalid, "mode 4, not in 0..3");
  ExpectWrong(turn(table, 1, {16, 25}), kInvalid, "partialSlice: [16, 25) of 24");
  ExpectWrong(turn(table, 1, {12, 24}), kInvalid, "cos: last axis 8, rotated are 12");
  ExpectWrong(turn(Make(ACL_BF16, {3, 1, 1, 8}), 1, {16, 24}), kInvalid,
              "cos: axis 0 is 3, neither 1 nor x's 2");

  const Tensor cache = Make(ACL_BF16, {4, 2, 1, 16}, Values(128, 0));
  const Tensor rows = Make(ACL_BF16, {2, 1, 16}, Values(32, 1));
  const auto scatter = [&](const std::vector<int64_t>& slots, const std::vector<int64_t>& strides) {
    return PerformWithIntegers("aclnnScatterNdUpdateV2", stream(), strides, Raw(cache),
                               In(Ints(slots, {2, 2})), In(rows));
  };
  const int fault = 507035;
  ExpectWrong(scatter({1, 0, 2, 0}, {64, 16, 16, 1}), kInvalid,
              "strides: 64 on axis 0, var has 32");
  ExpectWrong(scatter({1, 0, 4, 0}, {32, 16, 16, 1}), fault,
              "element 0 of row 1 is 4, axis 0 of var has 4");
  ExpectWrong(scatter({1, 1, 1, 1}, {32, 16, 16, 1}), fault,
              "row 1 writes an element written before");
  EXPECT_EQ(scatter({0, 0, 0, 0}, {32, 16, 16, 1}).code, 0);
  const Tensor flat = Make(ACL_BF16, {4, 1, 16}, Values(64, 0));
  ExpectWrong(
      Perform("aclnnScatterNdUpdate", stream(), Raw(flat), In(Ints({1, -1}, {2, 1})), In(rows)),
      fault, "element 0 of row 1 is -1");
}

TEST_F(ChecksTest, OfTheOtherFlavourAreNotThere) {
  UseFlavour(true);
  EXPECT_EQ(dlsym(EmulatorLibrary(), "aclnnSparseAttnSharedkv"), nullptr);
  EXPECT_NE(dlsym(EmulatorLibrary(), "aclnnSparseFlashMla"), nullptr);
  EXPECT_NE(dlsym(EmulatorLibrary(), "aclnnScatterNdUpdate"), nullptr);
  UseFlavour(false);
  EXPECT_NE(dlsym(EmulatorLibrary(), "aclnnSparseAttnSharedkv"), nullptr);
  EXPECT_EQ(dlsym(EmulatorLibrary(), "aclnnQuantLightningIndexerV2"), nullptr);
}

}  // namespace
}  // namespace ascend_emulator::dsv4
