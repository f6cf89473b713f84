// CacheShape: what a model needs kept, as plain numbers. CacheGeometry: how many pages of what size
// there are. All other files of the room speak in these.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/ids.h"
#include "tensor/rows.h"

namespace cachalot {

// Every layer keeps one window row per token. Ratio 4: an entry and an index key for 4 tokens,
// state of two compressors. Ratio 128: an entry for 128 tokens, state of one. Draft layers have
// ratio 0.
struct CacheShape {
  std::vector<int64_t> ratios;  // of the layers, each 0, 4 or 128; 1 counts as 0
  int64_t num_draft_layers = 0;
  int64_t head_dim = 0;
  int64_t rope_dim = 0;
  int64_t index_head_dim = 0;
  int64_t window = kPageTokens;  // tokens that a token sees, itself included
  RowRounding kv_rounding = RowRounding::kNone;
  RowRounding index_rounding = RowRounding::kNone;

  int64_t CountLayers(int64_t ratio) const;
  // Layers and draft layers.
  int64_t num_window_layers() const {
    return static_cast<int64_t>(ratios.size()) + num_draft_layers;
  }
};

// Where a layer's pools stand: its ratio and its number among the layers of that ratio.
struct LayerPlace {
  int64_t ratio = 0;
  int64_t index = 0;

  bool operator==(const LayerPlace&) const = default;
};
std::vector<LayerPlace> PlaceLayers(const CacheShape& shape);

// Pages that can be handed out, page 0 not counted. Full pages carry no rows of their own: they are
// the tokens' identities, and the c4 pools have kPageTokens / 4 rows under the same page id.
struct CacheGeometry {
  int64_t max_requests = 1;
  int64_t full_pages = 0;
  int64_t swa_pages = 0;
  int64_t c128_pages = 0;          // 0: no layer of ratio 128
  int64_t c128_page_entries = 16;  // rows of a c128 page, a multiple of 16
  bool has_c4 = false;             // whether a layer has ratio 4
  // Of paged state; 0: rings, or no layer of the ratio.
  int64_t c4_state_pages = 0;
  int64_t c128_state_pages = 0;
  int64_t window = kPageTokens;

  bool has_paged_state() const { return c4_state_pages > 0 || c128_state_pages > 0; }
  bool has_c128() const { return c128_pages > 0; }
  bool operator==(const CacheGeometry&) const = default;
};

inline constexpr int64_t kC4PageEntries = kPageTokens / 4;

}  // namespace cachalot
