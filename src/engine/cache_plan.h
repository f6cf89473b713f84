// What a model's configuration asks of the cache.
#pragma once

#include "cache/shape.h"
#include "checkpoint/config.h"

namespace cachalot {

// Layers past the backbone that keep a window of their own: the MTP block, or the DSpark stages.
int64_t NumDraftLayers(const ModelConfig& config);

CacheShape CacheShapeOf(const ModelConfig& config);

}  // namespace cachalot
