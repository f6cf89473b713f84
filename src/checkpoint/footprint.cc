#include "checkpoint/footprint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "checkpoint/storage_form.h"
#include "checkpoint/tensor_table.h"
#include "tensor/rows.h"

namespace cachalot {
namespace {

int64_t CountLayers(const ModelConfig& config, int64_t ratio) {
  return std::count(config.compress_ratios.begin(), config.compress_ratios.end(), ratio);
}

RowLayout KvRow(const ModelConfig& config) {
  return config.quantised_kv()
             ? RowLayout{RowFormat::kFp8Bf16, RowRounding::kFp8, config.head_dim, config.rope_dim}
             : RowLayout{RowFormat::kBf16, RowRounding::kNone, config.head_dim, 0};
}

RowLayout IndexRow(const ModelConfig& config) {
  return config.quantised_kv()
             ? RowLayout{RowFormat::kFp4, RowRounding::kFp4, config.index_head_dim, 0}
             : RowLayout{RowFormat::kInt8, RowRounding::kInt8, config.index_head_dim, 0};
}

// Keys and gates of the open groups in float32: two overlapping groups for ratio 4.
int64_t CompressorState(int64_t ratio, int64_t width) {
  const int64_t overlap = ratio == 4 ? 2 : 1;
  return overlap * ratio * overlap * width * 2 * static_cast<int64_t>(sizeof(float));
}

}  // namespace

std::vector<ComponentSize> CountWeights(const ModelConfig& config) {
  std::array<ComponentSize, kNumComponents> sizes = {};
  ModelTensors tensors;
  for (const auto& spec : ListTensors(config, tensors)) {
    const StorageForm form = FormsOf(spec, config).front();
    ComponentSize& size = sizes[static_cast<size_t>(spec.component)];
    size.component = NameOf(spec.component);
    size.parameters += ParametersOf(spec);
    size.bytes += form.values.bytes() + (form.scales ? form.scales->bytes() : 0);
  }
  std::vector<ComponentSize> present;
  for (auto& size : sizes) {
    if (!size.component.empty()) {
      present.push_back(std::move(size));
    }
  }
  return present;
}

WeightTotals TotalOf(const std::vector<ComponentSize>& components) {
  WeightTotals totals;
  for (const auto& size : components) {
    const bool draft =
        size.component == NameOf(Component::kMtp) || size.component == NameOf(Component::kDspark);
    totals.parameters += size.parameters;
    totals.bytes += size.bytes;
    totals.backbone_parameters += draft ? 0 : size.parameters;
    totals.backbone_bytes += draft ? 0 : size.bytes;
  }
  return totals;
}

int64_t CountActiveParameters(const ModelConfig& config) {
  const int64_t idle = config.num_experts - config.experts_per_token;
  const int64_t expert = 3 * config.expert_inter_size * config.hidden_size;
  return TotalOf(CountWeights(config)).backbone_parameters - config.num_layers * idle * expert;
}

StepCost CostOfStep(const ModelConfig& config, int64_t tokens, int64_t logit_rows) {
  const auto experts = static_cast<double>(config.num_experts);
  const double chosen = static_cast<double>(config.experts_per_token) / experts;
  const double hit = 1 - std::pow(1 - chosen, static_cast<double>(tokens));
  StepCost cost;
  const auto add = [&](const ComponentSize& size, double read, double rows) {
    cost.bytes += static_cast<double>(size.bytes) * read;
    cost.flops += 2 * static_cast<double>(size.parameters) * rows;
  };
  for (const auto& size : CountWeights(config)) {
    if (size.component == NameOf(Component::kRoutedExperts)) {
      add(size, hit, chosen * static_cast<double>(tokens));
    } else if (size.component == NameOf(Component::kHead)) {
      add(size, logit_rows > 0 ? 1 : 0, static_cast<double>(logit_rows));
    } else if (size.component != NameOf(Component::kEmbed) &&
               size.component != NameOf(Component::kHashTables) &&
               size.component != NameOf(Component::kMtp) &&
               size.component != NameOf(Component::kDspark)) {
      add(size, 1, static_cast<double>(tokens));
    }
  }
  return cost;
}

StepCost CostOfAttention(const ModelConfig& config, int64_t position, int64_t tokens) {
  // Rows that are read, and pairs of a token and a row, of one layer of each kind.
  struct Reads {
    int64_t rows = 0;
    int64_t pairs = 0;
  };
  Reads window{std::min(position, config.window - 1) + tokens, 0};
  Reads c4{std::min((position + tokens) / 4, tokens * config.index_topk), 0};
  Reads c128{(position + tokens) / 128, 0};
  Reads index;
  if ((position + tokens) / 4 > config.index_topk) {
    index.rows = (position + tokens) / 4;
  }
  for (int64_t seen = position + 1; seen <= position + tokens; ++seen) {
    window.pairs += std::min(seen, config.window);
    c4.pairs += std::min(seen / 4, config.index_topk);
    c128.pairs += seen / 128;
    index.pairs += seen / 4 > config.index_topk ? seen / 4 : 0;
  }
  const int64_t n4 = CountLayers(config, 4);
  const int64_t n128 = CountLayers(config, 128);
  const auto attended = [&](int64_t Reads::*field) {
    return static_cast<double>(config.num_layers * window.*field + n4 * c4.*field +
                               n128 * c128.*field);
  };
  StepCost cost;
  cost.bytes = attended(&Reads::rows) * static_cast<double>(KvRow(config).bytes());
  cost.flops =
      4 * attended(&Reads::pairs) * static_cast<double>(config.num_heads * config.head_dim);
  if (n4 > 0) {
    cost.bytes += static_cast<double>(n4 * index.rows * IndexRow(config).bytes());
    cost.flops +=
        2 * static_cast<double>(n4 * index.pairs * config.index_heads * config.index_head_dim);
  }
  return cost;
}

CacheFootprint CountCache(const ModelConfig& config) {
  const int64_t n4 = CountLayers(config, 4);
  const int64_t n128 = CountLayers(config, 128);
  const int64_t stages = config.dspark ? config.dspark->num_stages : (config.has_mtp ? 1 : 0);
  CacheFootprint cache;
  cache.kv_row_bytes = KvRow(config).bytes();
  cache.index_row_bytes = config.index_heads > 0 ? IndexRow(config).bytes() : 0;
  cache.bytes_per_token =
      static_cast<double>(n4 * (cache.kv_row_bytes + cache.index_row_bytes)) / 4 +
      static_cast<double>(n128 * cache.kv_row_bytes) / 128;
  cache.window_bytes = (config.num_layers + stages) * config.window * cache.kv_row_bytes;
  cache.compressor_state_bytes =
      n4 * (CompressorState(4, config.head_dim) + CompressorState(4, config.index_head_dim)) +
      n128 * CompressorState(128, config.head_dim);
  return cache;
}

int64_t CountRequestBytes(const ModelConfig& config, int64_t context) {
  const CacheFootprint cache = CountCache(config);
  return CountLayers(config, 4) * (context / 4) * (cache.kv_row_bytes + cache.index_row_bytes) +
         CountLayers(config, 128) * (context / 128) * cache.kv_row_bytes + cache.fixed_bytes();
}

}  // namespace cachalot
