#include "engine/cache_plan.h"

namespace cachalot {

int64_t NumDraftLayers(const ModelConfig& config) {
  if (config.dspark) {
    return config.dspark->num_stages;
  }
  return config.has_mtp ? 1 : 0;
}

int64_t DraftBlockTokens(const ModelConfig& config) {
  return config.dspark ? config.dspark->block_size : 0;
}

Status CheckContext(const ModelConfig& config, int64_t max_context) {
  if (max_context < 1 || max_context > config.max_position) {
    return MakeError(StatusCode::kInvalidArgument,
                     "a context of {} tokens asked for, expected 1 to the model's {}", max_context,
                     config.max_position);
  }
  return {};
}

CacheShape CacheShapeOf(const ModelConfig& config) {
  CacheShape shape;
  shape.ratios = config.compress_ratios;
  shape.num_draft_layers = NumDraftLayers(config);
  shape.head_dim = config.head_dim;
  shape.rope_dim = config.rope_dim;
  shape.index_head_dim = config.index_head_dim;
  shape.window = config.window;
  shape.kv_rounding = config.quantised_kv() ? RowRounding::kFp8 : RowRounding::kNone;
  shape.index_rounding = config.quantised_kv() ? RowRounding::kFp4 : RowRounding::kInt8;
  return shape;
}

}  // namespace cachalot
