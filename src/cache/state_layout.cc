#include "cache/state_layout.h"

#include "cache/paged_state.h"
#include "cache/ring_state.h"

namespace cachalot {

Status CheckDraftWidth(const CacheShape& shape, StateKind kind, int64_t num_tokens) {
  for (const int64_t ratio : {4, 128}) {
    const int64_t limit =
        kind == StateKind::kPaged ? PagedDraftTokens(ratio) : RingDraftTokens(ratio);
    if (shape.CountLayers(ratio) > 0 && num_tokens > limit) {
      return MakeError(StatusCode::kUnsupported,
                       "speculation: {} tokens to verify at once, but layers of ratio {} take at "
                       "most {}",
                       num_tokens, ratio, limit);
    }
  }
  return {};
}

}  // namespace cachalot
