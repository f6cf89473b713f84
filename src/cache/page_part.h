// The two parts of a cached page, kept and evicted apart (docs/contracts/cache.md, I24).
#pragma once

#include <cstdint>

namespace cachalot {

enum class PagePart : uint8_t {
  kHistory,  // c4 entries, index keys and the c128 entry of its tokens
  kWindow,   // window rows of its tokens, and the c4 state at its end
};
inline constexpr PagePart kPageParts[] = {PagePart::kHistory, PagePart::kWindow};

inline const char* NameOf(PagePart part) {
  return part == PagePart::kHistory ? "history" : "window";
}

}  // namespace cachalot
