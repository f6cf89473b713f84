// Every operator on the emulated NPU against the CPU's reference, with both packages of operators.
// Inputs are bf16 on both sides; what is left is the NPU's own rounding.
#include <cmath>
#include <functional>

#include "backends/ascend/emulated_device.h"
#include "backends/ascend/test_step.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/ops/problem.h"
#include "numeric/difference.h"

namespace cachalot::ascend {
namespace {

using cpu::ProblemData;
using ::testing::Each;
using Requests = std::vector<std::pair<int32_t, int32_t>>;

constexpr double kBf16 = 4e-3;  // relative error of rows that are rounded to bf16
constexpr double kInt8 = 2e-2;  // of products whose inputs are rounded to int8

struct Configuration {
  std::string flavour;
  bool fused_compressor = true;
  std::string name() const { return flavour + (fused_compressor ? "" : "_composed"); }
};

class AscendOps : public ::testing::TestWithParam<Configuration> {
 protected:
  AscendOps() : emulator_({{"flavour", GetParam().flavour}}), data_(7) {
    AscendOptions options;
    options.stream.ops.fused_compressor = GetParam().fused_compressor;
    options.stream.verify_steps = true;
    Result<std::unique_ptr<Device>> device = emulator_.Open(options);
    EXPECT_TRUE(device) << device.error().message;
    device_ = *std::move(device);
    stream_ = device_->NewStream();
    mirror_ = std::make_unique<Mirror>(*device_, *stream_);
    cpu_ = *cpu::NewCpuDevice({.num_threads = 1, .isa = "ref"});
    reference_ = cpu_->NewStream();
    plain_ = data_.Rope(64);
    compressed_ = data_.Rope(64, 160000);
  }

  // Normal values that bf16 can hold.
  Tensor Activation(const Shape& shape, double scale = 1) {
    const Tensor tensor = data_.Normal(shape, scale);
    auto* values = tensor.As<float>();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      values[i] = Bf16ToFloat(FloatToBf16(values[i]));
    }
    return tensor;
  }

  StepShape ShapeOf(int64_t heads, int64_t head_dim, int64_t index_heads, int64_t top_k) const {
    return {.heads = heads,
            .head_dim = head_dim,
            .index_heads = index_heads,
            .index_head_dim = 128,
            .top_k = top_k,
            .window = 128,
            .has_c4 = true,
            .has_c128 = true,
            .rope = plain_,
            .rope_c4 = compressed_,
            .rope_c128 = compressed_};
  }

  TestStep Begin(const StepShape& shape, const Requests& requests) {
    TestStep step(shape, requests);
    stream_->BeginStep(step.metadata());
    return step;
  }

  Tensor Unwritten(DType dtype, const Shape& shape) { return data_.Unwritten(dtype, shape); }

  void ExpectClose(const Tensor& found, const Tensor& wanted, double bound) {
    const std::vector<float> values = mirror_->Values(found);
    std::vector<float> expected(static_cast<size_t>(wanted.num_elements()));
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = wanted.dtype == DType::kF32 ? wanted.As<float>()[i]
                                                : static_cast<float>(wanted.As<int32_t>()[i]);
    }
    EXPECT_LE(RelativeError(values, expected), bound);
  }

  Emulator emulator_;
  ProblemData data_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Mirror> mirror_;
  std::unique_ptr<Device> cpu_;
  std::unique_ptr<Stream> reference_;
  RopeTable plain_;
  RopeTable compressed_;
};

TEST_P(AscendOps, MoveRows) {
  const Tensor ids = data_.Ints({3}, {7, 0, 7});
  const Matrix table = data_.Weight(MatrixFormat::kBf16, 9, 64);
  const Tensor e = mirror_->Empty(DType::kBf16, {3, 64});
  const Tensor e_wanted = Unwritten(DType::kF32, {3, 64});
  stream_->Embedding(
      {.ids = mirror_->AsIs(ids), .table = mirror_->Weight(table, WeightUse::kTable), .y = e});
  reference_->Embedding({.ids = ids, .table = table, .y = e_wanted});
  ExpectClose(e, e_wanted, 0);

  const Tensor x = mirror_->Empty(DType::kBf16, {3, 4, 64});
  const Tensor x_wanted = Unwritten(DType::kF32, {3, 4, 64});
  stream_->BroadcastStreams({.x = e, .y = x});
  reference_->BroadcastStreams({.x = e_wanted, .y = x_wanted});
  ExpectClose(x, x_wanted, 0);
  const Tensor more = Activation({3, 64});
  stream_->BroadcastStreams({.x = mirror_->Activation(more), .y = x, .accumulate = true});
  reference_->BroadcastStreams({.x = more, .y = x_wanted, .accumulate = true});
  ExpectClose(x, x_wanted, kBf16);

  const Tensor mean = mirror_->Empty(DType::kBf16, {3, 64});
  const Tensor mean_wanted = Unwritten(DType::kF32, {3, 64});
  stream_->StreamMean({.x = x, .y = mean});
  reference_->StreamMean({.x = x_wanted, .y = mean_wanted});
  ExpectClose(mean, mean_wanted, kBf16);

  const Tensor wide = mirror_->Activation(data_.Floats({3, 128}, std::vector<float>(384, 1)));
  const Tensor wide_wanted = data_.Floats({3, 128}, std::vector<float>(384, 1));
  stream_->CopyColumns({.src = e, .dst = wide, .column = 64});
  reference_->CopyColumns({.src = e_wanted, .dst = wide_wanted, .column = 64});
  ExpectClose(wide, wide_wanted, 0);

  const Tensor rows = data_.Ints({2}, {2, 0});
  const Tensor picked = mirror_->Empty(DType::kBf16, {2, 4, 64});
  const Tensor picked_wanted = Unwritten(DType::kF32, {2, 4, 64});
  stream_->GatherRows({.src = x, .rows = mirror_->AsIs(rows), .dst = picked});
  reference_->GatherRows({.src = x_wanted, .rows = rows, .dst = picked_wanted});
  ExpectClose(picked, picked_wanted, kBf16);
}

TEST_P(AscendOps, Normalise) {
  const Tensor x = Activation({5, 128}, 3);
  const Tensor weight = Activation({128});
  const Tensor y = Unwritten(DType::kF32, {5, 128});
  const Tensor on_device = mirror_->Activation(x);
  stream_->RmsNorm({.x = on_device, .weight = mirror_->Norm(weight), .y = on_device, .eps = 1e-6});
  reference_->RmsNorm({.x = x, .weight = weight, .y = y, .eps = 1e-6});
  ExpectClose(on_device, y, kBf16);
  const Tensor heads = mirror_->Activation(x).Reshaped({5, 2, 64});
  const Tensor heads_wanted = Unwritten(DType::kF32, {5, 2, 64});
  stream_->RmsNorm({.x = heads, .weight = {}, .y = heads, .eps = 1e-6});
  reference_->RmsNorm({.x = x.Reshaped({5, 2, 64}), .weight = {}, .y = heads_wanted, .eps = 1e-6});
  ExpectClose(heads, heads_wanted, kBf16);
}

TEST_P(AscendOps, TurnBackAndForth) {
  const TestStep step = Begin(ShapeOf(4, 128, 8, 32), {{9, 2}, {100000, 1}});
  const Tensor x = Activation({3, 4, 128});
  const Tensor positions = data_.Ints({3}, step.positions());
  const Tensor on_device = mirror_->Activation(x);
  const Tensor before = mirror_->Activation(x);
  stream_->Rope({.x = on_device, .positions = mirror_->AsIs(positions), .table = compressed_});
  const Tensor turned = data_.Floats(
      {3, 4, 128}, std::vector<float>(x.As<float>(), x.As<float>() + x.num_elements()));
  reference_->Rope({.x = turned, .positions = positions, .table = compressed_});
  ExpectClose(on_device, turned, kBf16);
  stream_->Rope({.x = on_device,
                 .positions = mirror_->AsIs(positions),
                 .table = compressed_,
                 .inverse = true});
  EXPECT_LE(RelativeError(mirror_->Values(on_device), mirror_->Values(before)), kBf16);
}

TEST_P(AscendOps, Multiply) {
  const Tensor x = Activation({5, 256});
  const struct {
    MatrixFormat format;
    DType y;
    double bound;
  } cases[] = {{MatrixFormat::kBf16, DType::kBf16, kBf16},
               {MatrixFormat::kBf16, DType::kF32, 1e-5},
               {MatrixFormat::kInt8Channel, DType::kBf16, kInt8},
               {MatrixFormat::kInt8Channel, DType::kF32, kInt8}};
  for (const auto& [format, y_type, bound] : cases) {
    const Matrix w = data_.Weight(format, 64, 256);
    const Tensor y = mirror_->Empty(y_type, {5, 64});
    const Tensor wanted = Unwritten(DType::kF32, {5, 64});
    stream_->Linear({.x = mirror_->Activation(x), .w = mirror_->Weight(w), .y = y});
    reference_->Linear({.x = x, .w = w, .y = wanted});
    ExpectClose(y, wanted, bound);
    stream_->Linear(
        {.x = mirror_->Activation(x), .w = mirror_->Weight(w), .y = y, .accumulate = true});
    reference_->Linear({.x = x, .w = w, .y = wanted, .accumulate = true});
    ExpectClose(y, wanted, bound);
  }
  const Matrix grouped = data_.Weight(MatrixFormat::kBf16, 64, 128);
  const Tensor y = mirror_->Empty(DType::kBf16, {5, 64});
  const Tensor wanted = Unwritten(DType::kF32, {5, 64});
  stream_->Linear({.x = mirror_->Activation(x),
                   .w = mirror_->Weight(grouped, WeightUse::kLinear, 2),
                   .y = y,
                   .groups = 2});
  reference_->Linear({.x = x, .w = grouped, .y = wanted, .groups = 2});
  ExpectClose(y, wanted, kBf16);
}

TEST_P(AscendOps, ConnectStreams) {
  const int64_t t = 3;
  const int64_t d = 256;
  const Tensor x = Activation({t, 4, d});
  const Tensor fn = data_.Normal({24, 4 * d}, 0.05);
  const Tensor base = data_.Normal({24});
  const Tensor scale = data_.Floats({3}, {0.5, 0.7, 0.9});
  const Tensor y = Unwritten(DType::kF32, {t, d});
  const Tensor post = Unwritten(DType::kF32, {t, 4});
  const Tensor comb = Unwritten(DType::kF32, {t, 4, 4});
  HcPreParams pre = {.x = x,
                     .fn = fn,
                     .base = base,
                     .scale = scale,
                     .rms_eps = 1e-6,
                     .hc_eps = 1e-6,
                     .sinkhorn_iters = 20,
                     .y = y,
                     .post = post,
                     .comb = comb};
  reference_->HcPre(pre);
  const Tensor x_there = mirror_->Activation(x);
  pre.x = x_there;
  pre.fn = mirror_->AsIs(fn);
  pre.base = mirror_->AsIs(base);
  pre.scale = mirror_->AsIs(scale);
  pre.y = mirror_->Empty(DType::kBf16, y.shape);
  pre.post = mirror_->Empty(DType::kF32, post.shape);
  pre.comb = mirror_->Empty(DType::kF32, comb.shape);
  stream_->HcPre(pre);
  ExpectClose(pre.y, y, kBf16);
  ExpectClose(pre.post, post, 1e-4);
  ExpectClose(pre.comb, comb, 1e-4);

  const Tensor out = Activation({t, d});
  const Tensor streams =
      data_.Floats(x.shape, std::vector<float>(x.As<float>(), x.As<float>() + x.num_elements()));
  reference_->HcPost({.y = out, .post = post, .comb = comb, .x = streams});
  stream_->HcPost(
      {.y = mirror_->Activation(out), .post = pre.post, .comb = pre.comb, .x = x_there});
  ExpectClose(x_there, streams, kBf16);

  HcHeadParams head = {.x = x,
                       .fn = data_.Normal({4, 4 * d}, 0.05),
                       .base = data_.Normal({4}),
                       .scale = data_.Floats({1}, {0.8F}),
                       .rms_eps = 1e-6,
                       .hc_eps = 1e-6,
                       .y = Unwritten(DType::kF32, {t, d})};
  reference_->HcHead(head);
  HcHeadParams there = head;
  there.x = mirror_->Activation(x);
  there.fn = mirror_->AsIs(head.fn);
  there.base = mirror_->AsIs(head.base);
  there.scale = mirror_->AsIs(head.scale);
  there.y = mirror_->Empty(DType::kBf16, {t, d});
  stream_->HcHead(there);
  ExpectClose(there.y, head.y, kBf16);
}

TEST_P(AscendOps, RouteByScoreAndByTable) {
  const int64_t t = 5;
  for (const bool hashed : {false, true}) {
    const Tensor x = Activation({t, 128});
    MoeGateParams params = {.x = x,
                            .gate = data_.Weight(MatrixFormat::kBf16, 16, 128),
                            .route_scale = 1.5,
                            .experts = Unwritten(DType::kI32, {t, 4}),
                            .weights = Unwritten(DType::kF32, {t, 4})};
    params.ids = data_.Ints({t}, {3, 0, 2, 1, 3});
    if (hashed) {
      params.table = data_.Longs({4, 4}, {1, 2, 3, 4, 15, 0, 7, 8, 4, 3, 2, 1, 9, 10, 11, 12});
    } else {
      params.bias = data_.Normal({16}, 0.1);
    }
    reference_->MoeGate(params);
    MoeGateParams there = params;
    there.x = mirror_->Activation(x);
    there.gate = mirror_->Weight(params.gate, WeightUse::kGate);
    there.bias = mirror_->AsIs(params.bias);
    there.table = mirror_->AsIs(params.table);
    there.ids = mirror_->AsIs(params.ids);
    there.experts = mirror_->Empty(DType::kI32, {t, 4});
    there.weights = mirror_->Empty(DType::kF32, {t, 4});
    stream_->MoeGate(there);
    ExpectClose(there.experts, params.experts, 0);
    ExpectClose(there.weights, params.weights, 1e-5);
  }
}

TEST_P(AscendOps, RunExpertsAndTheSharedOne) {
  const int64_t t = 6;
  const int64_t d = 128;
  const int64_t inner = 64;
  const auto expert = [&] {
    return ExpertWeights{data_.Weight(MatrixFormat::kInt8Channel, inner, d),
                         data_.Weight(MatrixFormat::kInt8Channel, d, inner),
                         data_.Weight(MatrixFormat::kInt8Channel, inner, d)};
  };
  std::vector<ExpertWeights> routed;
  for (int e = 0; e < 5; ++e) {
    routed.push_back(expert());
  }
  const std::vector<ExpertWeights> shared = {expert()};
  const std::vector<ExpertWeights> routed_there = mirror_->Experts(routed);
  const std::vector<ExpertWeights> shared_there = mirror_->Experts(shared);
  const Tensor x = Activation({t, d});
  const Tensor experts = data_.Ints({t, 2}, {0, 1, 4, 3, 1, 0, 3, 1, 0, 4, 1, 3});  // none to 2
  const Tensor weights = data_.Normal({t, 2}, 0.1, 0.7);
  for (const double limit : {0.0, 0.5}) {
    const Tensor y = mirror_->Empty(DType::kBf16, {t, d});
    const Tensor wanted = Unwritten(DType::kF32, {t, d});
    reference_->Experts({.x = x,
                         .experts = experts,
                         .weights = weights,
                         .routed = routed,
                         .shared = shared.data(),
                         .limit = limit,
                         .y = wanted});
    stream_->Experts({.x = mirror_->Activation(x),
                      .experts = mirror_->AsIs(experts),
                      .weights = mirror_->AsIs(weights),
                      .routed = routed_there,
                      .shared = shared_there.data(),
                      .limit = limit,
                      .y = y});
    ExpectClose(y, wanted, kInt8);
  }
}

TEST_P(AscendOps, StoreRowsInTheirPages) {
  const TestStep step = Begin(ShapeOf(4, 128, 8, 32), {{126, 3}, {4, 1}});
  const Tensor x = Activation({4, 128});
  const RowPool pool = data_.Pool({.format = RowFormat::kBf16, .width = 128},
                                  step.num_pages() * TestStep::kPageRows);
  const RowPool there = mirror_->Pool(pool);
  const Tensor slots = data_.Ints({4}, step.window_slots());
  reference_->StoreRows({.x = x, .slots = slots, .pool = pool});
  stream_->StoreRows({.x = mirror_->Activation(x), .slots = mirror_->AsIs(slots), .pool = there});
  const Tensor bytes = {there.data, DType::kU8, {there.num_rows * there.layout.bytes()}};
  const std::vector<uint8_t> found = mirror_->Bytes(bytes);
  EXPECT_EQ(std::memcmp(found.data(), pool.data, found.size()), 0);
}

// A state of cleared rows: kv 0, score -inf.
Tensor ClearedState(ProblemData& data, int64_t channels) {
  const Tensor state =
      data.Floats({1024, 2 * channels}, std::vector<float>(static_cast<size_t>(2048 * channels)));
  for (int64_t row = 0; row < 1024; ++row) {
    std::fill_n(state.As<float>() + row * 2 * channels + channels, channels, -INFINITY);
  }
  return state;
}

TEST_P(AscendOps, CompressAcrossSteps) {
  struct Compression {
    int64_t ratio;
    bool index_keys;
  };
  for (const auto& [ratio, index_keys] : {Compression{4, false}, {4, true}, {128, false}}) {
    SCOPED_TRACE(fmt::format("ratio {}{}", ratio, index_keys ? ", index keys" : ""));
    const bool c4 = ratio == 4;
    const int64_t width = 128;
    const int64_t channels = (c4 ? 2 : 1) * width;
    const int64_t page_entries = c4 ? TestStep::kPageRows / 4 : TestStep::kC128Entries;
    const RowLayout layout = index_keys ? device_->IndexRows(width, RowRounding::kInt8)
                                        : RowLayout{.format = RowFormat::kBf16, .width = width};
    CompressorParams params = {.wkv = data_.Weight(MatrixFormat::kBf16, channels, 64),
                               .wgate = data_.Weight(MatrixFormat::kBf16, channels, 64),
                               .ratio = ratio,
                               .ape = data_.Normal({ratio, channels}),
                               .norm = Activation({width}),
                               .rms_eps = 1e-6,
                               .rope = compressed_,
                               .hadamard = index_keys,
                               .state = ClearedState(data_, channels)};
    params.pool = data_.Pool({.format = RowFormat::kF32, .width = width}, 12 * page_entries);
    if (index_keys) {
      params.pool.layout.rounding = RowRounding::kInt8;
    }
    const StepStateRows state_rows = c4 ? TestStep::kC4State : TestStep::kC128State;
    params.state_span = state_rows.span;
    params.state_rows = state_rows.rows;
    CompressorParams there = params;
    there.wkv = mirror_->Weight(params.wkv, WeightUse::kCompressor);
    there.wgate = mirror_->Weight(params.wgate, WeightUse::kCompressor);
    there.ape = mirror_->AsIs(params.ape);
    there.norm = mirror_->Norm(params.norm);
    there.state = mirror_->AsIs(params.state);
    there.pool = {nullptr, layout, params.pool.num_rows, index_keys ? page_entries : 0};
    const Tensor pool_there = mirror_->Empty(DType::kU8, {params.pool.num_rows * layout.bytes()});
    there.pool.data = pool_there.data;

    std::vector<int32_t> closed;
    for (const Requests& requests :
         {Requests{{0, 129}}, {{129, 1}}, {{130, 9}, {0, 0}}, {{139, 121}, {0, 6}}}) {
      const TestStep step = Begin(ShapeOf(4, 128, 8, 32), requests);
      const int64_t t = step.tokens();
      const std::vector<int32_t>& slots = c4 ? step.c4_slots() : step.c128_slots();
      closed.insert(closed.end(), slots.begin(), slots.end());
      params.x = Activation({t, 64});
      params.kv = params.score = Unwritten(DType::kF32, {t, channels});
      params.score = Unwritten(DType::kF32, {t, channels});
      params.requests = {data_.Ints({step.requests() + 1}, step.query_starts()),
                         data_.Ints({step.requests()}, step.start_pos())};
      params.state_pages = c4 ? data_.Ints({step.requests(), step.columns()}, step.pages())
                              : data_.Ints({step.requests(), 1}, step.c128_state_pages());
      params.entry_slots = data_.Ints({static_cast<int64_t>(slots.size())}, slots);
      there.x = mirror_->Activation(params.x);
      there.kv = mirror_->Empty(DType::kF32, {t, channels});
      there.score = mirror_->Empty(DType::kF32, {t, channels});
      there.state_pages = mirror_->AsIs(params.state_pages);
      reference_->Compressor(params);
      stream_->Compressor(there);
    }
    ASSERT_FALSE(closed.empty());
    std::vector<uint8_t> bytes = mirror_->Bytes(pool_there);
    RowPool found = there.pool;
    found.data = bytes.data();
    std::vector<float> row(static_cast<size_t>(width));
    std::vector<float> wanted(static_cast<size_t>(width));
    for (const int32_t slot : closed) {
      DecodeRow(found, slot, row);
      DecodeRow(params.pool, slot, wanted);
      EXPECT_LE(RelativeError(row, wanted), index_keys ? 1.5e-2 : 8e-3) << slot;
    }
  }
}

TEST_P(AscendOps, SelectEntriesByTheirScores) {
  const int64_t heads = 8;
  const int64_t width = 128;
  const StepShape shape = ShapeOf(4, 128, heads, 32);
  const TestStep step = Begin(shape, {{600, 3}, {40, 1}, {130, 5}, {0, 0}});
  const int64_t t = step.tokens();
  const int64_t page_entries = TestStep::kPageRows / 4;
  RowLayout layout = device_->IndexRows(width, RowRounding::kInt8);
  const int64_t rows = step.num_pages() * page_entries;
  const Tensor memory = Unwritten(DType::kU8, {rows * layout.bytes()});
  const RowPool keys = {memory.data, layout, rows, page_entries};
  const RowPool plain = {
      data_.Unwritten(DType::kF32, {rows, width}).data,
      {.format = RowFormat::kF32, .rounding = RowRounding::kInt8, .width = width},
      rows};
  for (int64_t row = 0; row < rows; ++row) {
    const Tensor values = data_.Normal({width});
    EncodeRow(keys, row, {values.As<float>(), static_cast<size_t>(width)});
    EncodeRow(plain, row, {values.As<float>(), static_cast<size_t>(width)});
  }
  IndexerParams params = {.q = Activation({t, heads, width}),
                          .weights = data_.Normal({t, heads}),
                          .keys = plain,
                          .pages = data_.Ints({step.requests(), step.columns()}, step.pages()),
                          .page_entries = page_entries,
                          .requests = {data_.Ints({step.requests() + 1}, step.query_starts()),
                                       data_.Ints({step.requests()}, step.start_pos())},
                          .top_k = 32,
                          .selected = Unwritten(DType::kI32, {t, 32})};
  IndexerParams there = params;
  there.q = mirror_->Activation(params.q);
  there.weights = mirror_->AsIs(params.weights);
  there.keys = keys;
  there.keys.data = mirror_->AsIs(memory).data;
  there.pages = mirror_->AsIs(params.pages);
  there.selected = mirror_->Empty(DType::kI32, {t, 32});
  reference_->Indexer(params);
  stream_->Indexer(there);
  const std::vector<float> found = mirror_->Values(there.selected);
  int64_t common = 0;
  int64_t wanted = 0;
  for (int64_t token = 0; token < t; ++token) {
    const auto of_token = found.begin() + token * 32;
    for (int64_t i = 0; i < 32; ++i) {
      const int32_t entry = params.selected.As<int32_t>()[token * 32 + i];
      wanted += entry >= 0 ? 1 : 0;
      common += entry >= 0 && std::count(of_token, of_token + 32, static_cast<float>(entry)) == 1;
    }
  }
  EXPECT_GE(static_cast<double>(common), 0.97 * static_cast<double>(wanted));
  // All that there are where they fit, and nothing for padding.
  EXPECT_THAT(std::vector<float>(found.end() - 32, found.end()), Each(-1));
  EXPECT_EQ(std::count(found.begin() + 3 * 32, found.begin() + 4 * 32, -1), 32 - 10);
}

TEST_P(AscendOps, AttendToTheWindowAndToEntries) {
  const int64_t heads = 4;
  const int64_t width = 128;
  const StepShape shape = ShapeOf(heads, width, 8, 32);
  const TestStep step = Begin(shape, {{600, 3}, {40, 1}, {126, 5}, {0, 0}});
  const int64_t t = step.tokens();
  const RowLayout layout = {.format = RowFormat::kBf16, .width = width};
  const RowPool window = data_.Pool(layout, step.num_pages() * TestStep::kPageRows);
  const RowPool window_there = mirror_->Pool(window);
  for (const int64_t ratio : {0, 4, 128}) {
    SCOPED_TRACE(ratio);
    AttentionParams params = {
        .q = Activation({t, heads, width}, 2),
        .sink = data_.Normal({heads}),
        .requests = {data_.Ints({step.requests() + 1}, step.query_starts()),
                     data_.Ints({step.requests()}, step.start_pos())},
        .window = window,
        .window_pages = data_.Ints({step.requests(), step.columns()}, step.pages()),
        .window_page_rows = TestStep::kPageRows,
        .key_begin = data_.Ints({t}, step.key_begin()),
        .key_end = data_.Ints({t}, step.key_end()),
        .ratio = ratio,
        .o = Unwritten(DType::kF32, {t, heads, width})};
    if (ratio == 4) {
      params.page_entries = TestStep::kPageRows / 4;
      params.entries = data_.Pool(layout, step.num_pages() * params.page_entries);
      params.entry_pages = params.window_pages;
      std::vector<int32_t> selected(static_cast<size_t>(t * 32), -1);
      for (int64_t token = 0; token < t; ++token) {
        const int32_t entries = (step.positions()[static_cast<size_t>(token)] + 1) / 4;
        for (int32_t i = 0; i < std::min(entries, 32); ++i) {
          selected[static_cast<size_t>(token * 32 + i)] = entries > 100 ? 3 * i + 1 : i;
        }
      }
      params.selected = data_.Ints({t, 32}, selected);
    } else if (ratio == 128) {
      params.page_entries = TestStep::kC128Entries;
      params.entries = data_.Pool(layout, step.num_c128_pages() * params.page_entries);
      params.entry_pages = data_.Ints({step.requests(), step.c128_columns()}, step.c128_pages());
    }
    AttentionParams there = params;
    there.q = mirror_->Activation(params.q);
    there.sink = mirror_->AsIs(params.sink);
    there.window = window_there;
    there.window_pages = mirror_->AsIs(params.window_pages);
    if (ratio > 0) {
      there.entries = mirror_->Pool(params.entries);
      there.entry_pages = mirror_->AsIs(params.entry_pages);
      there.selected = mirror_->AsIs(params.selected);
    }
    there.o = mirror_->Empty(DType::kBf16, params.o.shape);
    reference_->Attention(params);
    stream_->Attention(there);
    const std::vector<float> found = mirror_->Values(there.o);
    const auto live = static_cast<size_t>((t - 1) * heads * width);  // the last token is padding
    EXPECT_LE(RelativeError(std::span(found).first(live), {params.o.As<float>(), live}), kBf16);
    EXPECT_THAT(std::vector<float>(found.begin() + static_cast<std::ptrdiff_t>(live), found.end()),
                Each(::testing::Truly([](float value) { return std::isfinite(value); })));
  }
}

TEST_P(AscendOps, RecordAndReplay) {
  const Tensor x = mirror_->Activation(Activation({4, 128}));
  const Matrix w = mirror_->Weight(data_.Weight(MatrixFormat::kInt8Channel, 128, 128));
  const Tensor y = mirror_->Empty(DType::kBf16, {4, 128});
  const Tensor z = mirror_->Empty(DType::kBf16, {4, 128});
  const auto run = [&] {
    stream_->RmsNorm({.x = x, .weight = {}, .y = y, .eps = 1e-6});
    stream_->Linear({.x = y, .w = w, .y = z});
  };
  run();
  const std::vector<uint8_t> eager = mirror_->Bytes(z);
  stream_->BeginCapture();
  run();
  const std::unique_ptr<Graph> graph = stream_->EndCapture();
  ASSERT_NE(graph, nullptr);
  stream_->Copy(x, z);
  stream_->Replay(*graph);
  EXPECT_EQ(mirror_->Bytes(z), eager);
}

TEST_P(AscendOps, DoNothingForNoTokens) {
  const Tensor none = mirror_->Empty(DType::kBf16, {1, 128}).Rows(0, 0);
  stream_->RmsNorm({.x = none, .weight = {}, .y = none, .eps = 1e-6});
  stream_->BeginStep({});
  EXPECT_TRUE(stream_->Synchronize());
}

TEST(AscendDevice, NamesAllThatItsLibrariesLackBeforeItIsOpened) {
  const Emulator emulator({{"flavour", "custom"}, {"hide", "aclnnHcPost,aclnnCompressor"}});
  const auto device = emulator.Open();
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, StatusCode::kUnsupported);
  EXPECT_THAT(device.error().message, ::testing::AllOf(::testing::HasSubstr("aclnnHcPost"),
                                                       ::testing::HasSubstr("aclnnCompressor")));
}

void PrintTo(const Configuration& configuration, std::ostream* out) {
  *out << configuration.name();
}

INSTANTIATE_TEST_SUITE_P(Flavours, AscendOps,
                         ::testing::Values(Configuration{"custom"}, Configuration{"official"},
                                           Configuration{"custom", false}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace cachalot::ascend
