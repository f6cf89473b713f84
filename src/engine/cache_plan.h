// What a model's configuration asks of the cache.
#pragma once

#include "base/result.h"
#include "cache/shape.h"
#include "checkpoint/config.h"

namespace cachalot {

// Layers past the backbone that keep a window of their own: the MTP block, or the DSpark stages.
int64_t NumDraftLayers(const ModelConfig& config);

// Tokens past a request's own that one draft of DSpark takes room for; 0 without its stages.
int64_t DraftBlockTokens(const ModelConfig& config);

// kInvalidArgument for a context of no tokens, or of more than the model has positions.
Status CheckContext(const ModelConfig& config, int64_t max_context);

CacheShape CacheShapeOf(const ModelConfig& config);

}  // namespace cachalot
