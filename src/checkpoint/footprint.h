// What a model costs in memory: weights by component, caches by request. Pure arithmetic on a
// configuration.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/weights.h"

namespace cachalot {

// A checkpoint of this configuration as its files store it: one entry for each component of
// Weights::components(), with the same figures where the files have the usual forms.
std::vector<ComponentSize> CountWeights(const ModelConfig& config);

struct WeightTotals {
  int64_t backbone_parameters = 0;  // all but mtp and dspark
  int64_t backbone_bytes = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;
};
WeightTotals TotalOf(const std::vector<ComponentSize>& components);

// Parameters that take part in one token's forward pass through the backbone, the embedding table
// included.
int64_t CountActiveParameters(const ModelConfig& config);

// What the weights cost in one step of `tokens` tokens, of which `logit_rows` get logits: bytes
// that are read at least once, with the experts that tokens hit when routing is even, and
// multiply-adds, two operations each. Caches and attention over them come on top.
struct StepCost {
  double bytes = 0;
  double flops = 0;
};
StepCost CostOfStep(const ModelConfig& config, int64_t tokens, int64_t logit_rows);

// What comes on top for one request whose `tokens` new tokens follow `position` others: cache rows
// that attention and indexers read at least once, and the products with them.
StepCost CostOfAttention(const ModelConfig& config, int64_t position, int64_t tokens);

// Bytes of the caches of one request. Entries are closed every 4 or 128 tokens.
struct CacheFootprint {
  int64_t kv_row_bytes = 0;            // a key/value row, window or compressed
  int64_t index_row_bytes = 0;         // an indexer key; 0 without indexers
  double bytes_per_token = 0;          // growth with the context: compressed rows and indexer keys
  int64_t window_bytes = 0;            // rings of `window` rows: each layer and each draft stage
  int64_t compressor_state_bytes = 0;  // float32 rows of the open groups

  int64_t fixed_bytes() const { return window_bytes + compressor_state_bytes; }
};
CacheFootprint CountCache(const ModelConfig& config);

// Bytes of one request with `context` tokens: closed entries and the fixed part.
int64_t CountRequestBytes(const ModelConfig& config, int64_t context);

}  // namespace cachalot
