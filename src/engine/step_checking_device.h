// A CPU that checks what it is told of steps, for this room's tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cache/ids.h"
#include "device/call_recorder.h"
#include "device/forwarding_device.h"

namespace cachalot {

// What a stream was told of the steps, and which operators it then ran.
struct StepLog {
  int64_t steps = 0;
  int64_t of_drafts = 0;
  int64_t replays = 0;
  int64_t attentions = 0;
  int64_t compressors = 0;
  int64_t indexers = 0;
};

// Holds the operators of each step, replayed ones too, to what BeginStep was told of it.
class StepCheckingStream final : public ForwardingStream {
 public:
  StepCheckingStream(std::unique_ptr<Stream> inner, StepLog& log)
      : ForwardingStream(std::move(inner)), log_(log) {}

  void BeginStep(const StepMetadata& step) override {
    EXPECT_FALSE(recorder_.recording());
    step_ = step;
    kept_.clear();
    for (std::span<const int32_t>* values :
         {&step_.ids, &step_.positions, &step_.query_starts, &step_.start_pos, &step_.window_slots,
          &step_.key_begin, &step_.key_end, &step_.window_pages.values, &step_.c4_slots,
          &step_.c4_pages.values, &step_.c4_state_pages.values, &step_.c128_slots,
          &step_.c128_pages.values, &step_.c128_state_pages.values}) {
      *values = kept_.emplace_back(values->begin(), values->end());
    }
    EXPECT_EQ(step_.num_tokens(), static_cast<int64_t>(step_.positions.size()));
    EXPECT_EQ(step_.num_requests() + 1, static_cast<int64_t>(step_.query_starts.size()));
    EXPECT_EQ(step_.window_page_rows, kPageTokens);
    ++log_.steps;
    log_.of_drafts += !step_.shape.has_c4 && !step_.shape.has_c128 ? 1 : 0;
    waiting_ = true;
  }

#define CACHALOT_OPERATOR(name)                                         \
  void name(const name##Params& params) override {                      \
    if (recorder_.recording()) {                                        \
      recorder_.Add([params](Stream& stream) { stream.name(params); }); \
      return;                                                           \
    }                                                                   \
    Check(params);                                                      \
    inner().name(params);                                               \
  }
#include "device/operators.def"
#undef CACHALOT_OPERATOR

  void BeginCapture() override { recorder_.Begin(); }
  std::unique_ptr<Graph> EndCapture() override { return recorder_.End(); }
  void Replay(const Graph& graph) override {
    EXPECT_TRUE(waiting_) << "a replay of a step that did not begin";
    ++log_.replays;
    ReplayCalls(graph, *this);
  }

 private:
  // The CPU's tensors are in host memory.
  static bool Same(const Tensor& tensor, std::span<const int32_t> values) {
    const std::span<const int32_t> found(tensor.As<int32_t>(),
                                         static_cast<size_t>(tensor.num_elements()));
    return std::ranges::equal(found, values);
  }
  static bool Same(const Tensor& tensor, const StepPageTable& table) {
    return tensor.shape[1] == table.columns && Same(tensor, table.values);
  }
  void CheckRequests(const StepRequests& requests) {
    EXPECT_TRUE(Same(requests.query_starts, step_.query_starts));
    EXPECT_TRUE(Same(requests.start_pos, step_.start_pos));
    waiting_ = false;
  }

  template <typename Params>
  void Check(const Params&) {}
  void Check(const RopeParams& params) { EXPECT_TRUE(Same(params.positions, step_.positions)); }
  void Check(const StoreRowsParams& params) { EXPECT_TRUE(Same(params.slots, step_.window_slots)); }
  void Check(const MoeGateParams& params) { EXPECT_TRUE(Same(params.ids, step_.ids)); }
  void Check(const CompressorParams& params) {
    ++log_.compressors;
    CheckRequests(params.requests);
    const bool c4 = params.ratio == 4;
    EXPECT_TRUE(c4 ? step_.shape.has_c4 : step_.shape.has_c128);
    const StepStateRows& state = c4 ? step_.c4_state : step_.c128_state;
    EXPECT_EQ(params.state_span, state.span);
    EXPECT_EQ(params.state_rows, state.rows);
    EXPECT_EQ(params.state.shape[0], state.num_rows);
    EXPECT_TRUE(Same(params.state_pages, c4 ? step_.c4_state_pages : step_.c128_state_pages));
    EXPECT_TRUE(Same(params.entry_slots, c4 ? step_.c4_slots : step_.c128_slots));
    const RopeTable& rope = c4 ? step_.shape.rope_c4 : step_.shape.rope_c128;
    EXPECT_EQ(params.rope.dim, rope.dim);
    EXPECT_TRUE(std::ranges::equal(params.rope.frequencies, rope.frequencies));
  }
  void Check(const IndexerParams& params) {
    ++log_.indexers;
    CheckRequests(params.requests);
    EXPECT_TRUE(Same(params.pages, step_.c4_pages));
    EXPECT_EQ(params.page_entries, step_.c4_page_entries);
    EXPECT_EQ(params.top_k, step_.shape.top_k);
    EXPECT_EQ(params.q.shape,
              (Shape{step_.num_tokens(), step_.shape.index_heads, step_.shape.index_head_dim}));
  }
  void Check(const AttentionParams& params) {
    ++log_.attentions;
    CheckRequests(params.requests);
    EXPECT_EQ(params.q.shape, (Shape{step_.num_tokens(), step_.shape.heads, step_.shape.head_dim}));
    EXPECT_TRUE(Same(params.window_pages, step_.window_pages));
    EXPECT_EQ(params.window_page_rows, step_.window_page_rows);
    EXPECT_TRUE(Same(params.key_begin, step_.key_begin));
    EXPECT_TRUE(Same(params.key_end, step_.key_end));
    if (params.ratio > 0) {
      const bool c4 = params.ratio == 4;
      EXPECT_TRUE(Same(params.entry_pages, c4 ? step_.c4_pages : step_.c128_pages));
      EXPECT_EQ(params.page_entries, c4 ? step_.c4_page_entries : step_.c128_page_entries);
    }
  }

  StepLog& log_;
  CallRecorder recorder_;
  StepMetadata step_;
  std::vector<std::vector<int32_t>> kept_;
  bool waiting_ = false;  // for the operators of a step that began
};

class StepCheckingDevice final : public ForwardingDevice {
 public:
  // `log` outlives the device's streams.
  StepCheckingDevice(std::unique_ptr<Device> cpu, StepLog& log)
      : ForwardingDevice(std::move(cpu)), log_(log) {}
  std::unique_ptr<Stream> NewStream() override {
    return std::make_unique<StepCheckingStream>(ForwardingDevice::NewStream(), log_);
  }

 private:
  StepLog& log_;
};

}  // namespace cachalot
