#include "device/operator_cost.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace cachalot {
namespace {

template <typename... Tensors>
double BytesOf(const Tensors&... tensors) {
  return static_cast<double>((int64_t{0} + ... + tensors.bytes()));
}

double Times(std::initializer_list<int64_t> factors) {
  double product = 1;
  for (const int64_t factor : factors) {
    product *= static_cast<double>(factor);
  }
  return product;
}

int64_t ExpertBytes(const ExpertWeights& expert) {
  return expert.w1.bytes() + expert.w2.bytes() + expert.w3.bytes();
}

// Calls body(first token, end token, first position) for each request of a step.
template <typename Body>
void ForEachRequest(const StepRequests& requests, const Body& body) {
  const int32_t* starts = requests.query_starts.As<int32_t>();
  for (int64_t b = 0; b < requests.start_pos.shape[0]; ++b) {
    if (starts[b] < starts[b + 1]) {
      body(starts[b], starts[b + 1], requests.start_pos.As<int32_t>()[b]);
    }
  }
}

// Keys that the tokens attend to, each token's own and those that some token of its request needs.
struct KeyCount {
  int64_t pairs = 0;
  int64_t window_rows = 0;
  int64_t entry_rows = 0;
};

void CountWindow(const AttentionParams& params, int64_t begin, int64_t end, KeyCount& count) {
  const int32_t* key_begin = params.key_begin.As<int32_t>();
  const int32_t* key_end = params.key_end.As<int32_t>();
  count.window_rows += *std::max_element(key_end + begin, key_end + end) -
                       *std::min_element(key_begin + begin, key_begin + end);
  for (int64_t t = begin; t < end; ++t) {
    count.pairs += key_end[t] - key_begin[t];
  }
}

void CountEntries(const AttentionParams& params, int64_t begin, int64_t end, int64_t position,
                  KeyCount& count) {
  const int64_t complete = (position + end - begin) / params.ratio;
  if (params.selected.empty()) {
    count.entry_rows += complete;
    for (int64_t t = begin; t < end; ++t) {
      count.pairs += (position + t - begin + 1) / params.ratio;
    }
    return;
  }
  std::vector<bool> needed(static_cast<size_t>(complete), false);
  const int64_t width = params.selected.shape[1];
  const int32_t* selected = params.selected.As<int32_t>();
  for (int64_t i = begin * width; i < end * width; ++i) {
    if (selected[i] >= 0) {
      needed[static_cast<size_t>(selected[i])] = true;
      ++count.pairs;
    }
  }
  count.entry_rows += std::count(needed.begin(), needed.end(), true);
}

}  // namespace

OperatorCost CostOf(const EmbeddingParams& params) {
  const double row = BytesOf(params.table) / static_cast<double>(params.table.rows);
  return {BytesOf(params.ids, params.y) + row * static_cast<double>(params.ids.num_elements()), 0};
}

OperatorCost CostOf(const BroadcastStreamsParams& params) {
  return {BytesOf(params.x, params.y) + (params.accumulate ? BytesOf(params.y) : 0), 0};
}

OperatorCost CostOf(const StreamMeanParams& params) { return {BytesOf(params.x, params.y), 0}; }

OperatorCost CostOf(const CopyColumnsParams& params) { return {2 * BytesOf(params.src), 0}; }

OperatorCost CostOf(const GatherRowsParams& params) {
  return {BytesOf(params.rows) + 2 * BytesOf(params.dst), 0};
}

OperatorCost CostOf(const RmsNormParams& params) {
  return {BytesOf(params.x, params.y) + (params.weight.empty() ? 0 : BytesOf(params.weight)), 0};
}

OperatorCost CostOf(const RopeParams& params) {
  const int64_t width = params.x.shape[2];
  const double turned =
      width == 0 ? 0 : static_cast<double>(params.table.dim) / static_cast<double>(width);
  return {2 * BytesOf(params.x) * turned + BytesOf(params.positions), 0};
}

OperatorCost CostOf(const LinearParams& params) {
  const int64_t tokens = params.x.shape[0];
  if (tokens == 0) {
    return {};
  }
  return {BytesOf(params.x, params.w, params.y) + (params.accumulate ? BytesOf(params.y) : 0),
          2 * Times({tokens, params.w.rows, params.w.cols})};
}

OperatorCost CostOf(const HcPreParams& params) {
  return {BytesOf(params.x, params.fn, params.y, params.post, params.comb),
          2 * Times({params.x.num_elements(), params.fn.shape[0] + 1})};
}

OperatorCost CostOf(const HcPostParams& params) {
  return {BytesOf(params.y, params.post, params.comb) + 2 * BytesOf(params.x),
          2 * Times({params.x.num_elements(), params.x.shape[1] + 1})};
}

OperatorCost CostOf(const HcHeadParams& params) {
  return {BytesOf(params.x, params.fn, params.y),
          2 * Times({params.x.num_elements(), params.fn.shape[0] + 1})};
}

OperatorCost CostOf(const StoreRowsParams& params) {
  return {BytesOf(params.x, params.slots) + Times({params.x.shape[0], params.pool.layout.bytes()}),
          0};
}

OperatorCost CostOf(const CompressorParams& params) {
  int64_t closed = 0;
  ForEachRequest(params.requests, [&](int64_t begin, int64_t end, int64_t position) {
    closed += (position + end - begin) / params.ratio - position / params.ratio;
  });
  const int64_t rows = params.ratio == 4 ? 2 * params.ratio : params.ratio;
  // Every token's row is written to the ring; the rows of a closed entry are read, from there or
  // from this step.
  const double state_row = BytesOf(params.kv, params.score);
  OperatorCost cost{2 * state_row + Times({closed, params.pool.layout.bytes()}),
                    2 * Times({closed, rows, params.pool.layout.width})};
  cost += CostOf(LinearParams{.x = params.x, .w = params.wkv, .y = params.kv});
  cost += CostOf(LinearParams{.x = params.x, .w = params.wgate, .y = params.score});
  return cost;
}

OperatorCost CostOf(const IndexerParams& params) {
  OperatorCost cost{BytesOf(params.q, params.weights, params.selected), 0};
  const int64_t heads = params.q.shape[1];
  const int64_t width = params.q.shape[2];
  ForEachRequest(params.requests, [&](int64_t begin, int64_t end, int64_t position) {
    const int64_t complete = (position + end - begin) / 4;
    if (complete <= params.top_k) {
      return;  // all are selected, whatever their scores
    }
    cost.bytes += Times({complete, params.keys.layout.bytes()});
    for (int64_t t = begin; t < end; ++t) {
      const int64_t scored = (position + t - begin + 1) / 4;
      cost.flops += scored > params.top_k ? 2 * Times({scored, heads, width}) : 0;
    }
  });
  return cost;
}

OperatorCost CostOf(const AttentionParams& params) {
  KeyCount count;
  ForEachRequest(params.requests, [&](int64_t begin, int64_t end, int64_t position) {
    CountWindow(params, begin, end, count);
    if (params.ratio > 0) {
      CountEntries(params, begin, end, position, count);
    }
  });
  OperatorCost cost{BytesOf(params.q, params.o),
                    4 * Times({count.pairs, params.q.shape[1], params.q.shape[2]})};
  cost.bytes += Times({count.window_rows, params.window.layout.bytes()});
  if (params.ratio > 0) {
    cost.bytes += Times({count.entry_rows, params.entries.layout.bytes()});
  }
  return cost;
}

OperatorCost CostOf(const MoeGateParams& params) {
  const int64_t tokens = params.x.shape[0];
  if (tokens == 0) {
    return {};
  }
  return {BytesOf(params.x, params.gate, params.experts, params.weights),
          2 * Times({tokens, params.gate.rows, params.gate.cols})};
}

OperatorCost CostOf(const ExpertsParams& params) {
  const int64_t tokens = params.x.shape[0];
  if (tokens == 0) {
    return {};
  }
  OperatorCost cost{BytesOf(params.x, params.experts, params.weights, params.y), 0};
  std::vector<bool> hit(params.routed.size(), false);
  const int64_t places = params.experts.num_elements();
  for (int64_t i = 0; i < places; ++i) {
    hit[static_cast<size_t>(params.experts.As<int32_t>()[i])] = true;
  }
  for (size_t e = 0; e < hit.size(); ++e) {
    cost.bytes += hit[e] ? static_cast<double>(ExpertBytes(params.routed[e])) : 0;
  }
  if (!params.routed.empty()) {
    cost.flops += 6 * Times({places, params.routed[0].w1.rows, params.routed[0].w1.cols});
  }
  if (params.shared != nullptr) {
    cost.bytes += static_cast<double>(ExpertBytes(*params.shared));
    cost.flops += 6 * Times({tokens, params.shared->w1.rows, params.shared->w1.cols});
  }
  return cost;
}

}  // namespace cachalot
