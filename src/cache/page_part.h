// PagePart: the two parts of a page's content, kept and evicted apart from each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cachalot {

enum class PagePart : uint8_t {
  kHistory,  // compressed rows and index keys of the page's tokens
  kWindow,   // their window rows, and the compressors' state at the page's end
};
inline constexpr std::array<PagePart, 2> kPageParts = {PagePart::kHistory, PagePart::kWindow};

inline constexpr size_t IndexOf(PagePart part) { return static_cast<size_t>(part); }

inline constexpr const char* NameOf(PagePart part) {
  return part == PagePart::kHistory ? "history" : "window";
}

}  // namespace cachalot
