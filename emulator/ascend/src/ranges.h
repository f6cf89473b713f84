// The bytes that a view of memory covers.
#pragma once

#include <cstdint>
#include <vector>

namespace ascend_emulator {

// Sorted, disjoint, not touching each other.
struct Ranges {
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };
  std::vector<Range> list;
  // False where the view has too many pieces to list: then `list` has its bounds alone, which say
  // nothing about an overlap with another view inside them.
  bool exact = true;

  bool empty() const { return list.empty(); }
  uintptr_t begin() const { return list.front().begin; }
  uintptr_t end() const { return list.back().end; }
};

Ranges Span(uintptr_t address, uint64_t bytes);

// A strided view. Strides and the size of an element in bytes; strides are not negative.
Ranges View(uintptr_t first, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
            int64_t element);

// Surely in common: no for views that are not exact, unless one is whole where the other has its bounds.
bool Overlap(const Ranges& a, const Ranges& b);

// All of b lies in a, surely.
bool Covers(const Ranges& a, const Ranges& b);

}  // namespace ascend_emulator
