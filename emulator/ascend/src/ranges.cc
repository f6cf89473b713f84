#include "ranges.h"

#include <algorithm>
#include <numeric>

namespace ascend_emulator {
namespace {

constexpr int64_t kMostPieces = 16384;

}  // namespace

Ranges Span(uintptr_t address, uint64_t bytes) {
  Ranges ranges;
  if (bytes > 0) ranges.list.push_back({address, address + bytes});
  return ranges;
}

Ranges View(uintptr_t first, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
            int64_t element) {
  // Axes from the narrowest stride out; those that continue what is below widen the piece.
  std::vector<size_t> axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::sort(axes.begin(), axes.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  uint64_t piece = static_cast<uint64_t>(element);
  std::vector<size_t> outer;
  int64_t pieces = 1;
  uintptr_t last = first;
  for (const size_t axis : axes) {
    if (shape[axis] == 0) return {};
    if (shape[axis] == 1) continue;
    last += static_cast<uintptr_t>((shape[axis] - 1) * strides[axis]);
    if (outer.empty() && static_cast<uint64_t>(strides[axis]) <= piece) {
      piece += static_cast<uint64_t>((shape[axis] - 1) * strides[axis]);
    } else {
      outer.push_back(axis);
      pieces = pieces > kMostPieces ? pieces : pieces * shape[axis];
    }
  }
  if (pieces > kMostPieces) {
    Ranges bounds = Span(first, last - first + static_cast<uint64_t>(element));
    bounds.exact = false;
    return bounds;
  }
  std::vector<uintptr_t> starts = {first};
  for (const size_t axis : outer) {
    const size_t count = starts.size();
    for (int64_t i = 1; i < shape[axis]; ++i) {
      for (size_t j = 0; j < count; ++j) {
        starts.push_back(starts[j] + static_cast<uintptr_t>(i * strides[axis]));
      }
    }
  }
  std::sort(starts.begin(), starts.end());
  Ranges ranges;
  for (const uintptr_t start : starts) {
    if (!ranges.list.empty() && start <= ranges.list.back().end) {
      ranges.list.back().end = std::max(ranges.list.back().end, start + piece);
    } else {
      ranges.list.push_back({start, start + piece});
    }
  }
  return ranges;
}

bool Overlap(const Ranges& a, const Ranges& b) {
  if (a.empty() || b.empty() || a.end() <= b.begin() || b.end() <= a.begin()) return false;
  if (!a.exact || !b.exact) {
    const auto whole = [](const Ranges& outer, const Ranges& inner) {
      return outer.exact && outer.list.size() == 1 && outer.begin() <= inner.begin() &&
             outer.end() >= inner.end();
    };
    return whole(a, b) || whole(b, a);
  }
  size_t i = 0;
  size_t j = 0;
  while (i < a.list.size() && j < b.list.size()) {
    if (a.list[i].end <= b.list[j].begin) {
      ++i;
    } else if (b.list[j].end <= a.list[i].begin) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

bool Covers(const Ranges& a, const Ranges& b) {
  if (b.empty()) return true;
  if (a.empty() || !a.exact) return false;
  size_t i = 0;
  for (const auto& range : b.list) {
    while (i < a.list.size() && a.list[i].end < range.end) ++i;
    if (i == a.list.size() || a.list[i].begin > range.begin) return false;
  }
  return true;
}

}  // namespace ascend_emulator
