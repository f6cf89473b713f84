#include "cache/shape.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace cachalot {

int64_t CacheShape::CountLayers(int64_t ratio) const {
  return std::count(ratios.begin(), ratios.end(), ratio);
}

std::vector<LayerPlace> PlaceLayers(const CacheShape& shape) {
  std::vector<LayerPlace> places;
  std::map<int64_t, int64_t> counts;
  for (const int64_t stored : shape.ratios) {
    const int64_t ratio = stored == 1 ? 0 : stored;
    CACHALOT_CHECK(ratio == 0 || ratio == 4 || ratio == 128, "compression ratio {}", ratio);
    places.push_back({ratio, counts[ratio]++});
  }
  return places;
}

}  // namespace cachalot
