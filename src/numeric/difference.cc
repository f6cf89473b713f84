#include "numeric/difference.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace cachalot {

double Difference(std::span<const float> found, std::span<const float> wanted) {
  CACHALOT_CHECK_EQ(found.size(), wanted.size());
  double cross = 0;
  double squares = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double x = found[i];
    const double y = wanted[i];
    if (!std::isfinite(x) || !std::isfinite(y)) {
      const bool same = (std::isnan(x) && std::isnan(y)) || x == y;
      if (!same) {
        return std::numeric_limits<double>::infinity();
      }
      continue;
    }
    cross += x * y;
    squares += x * x + y * y;
  }
  return squares > 0 ? 1 - 2 * cross / squares : 0;
}

double RelativeError(std::span<const float> found, std::span<const float> wanted) {
  CACHALOT_CHECK_EQ(found.size(), wanted.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double apart = static_cast<double>(found[i]) - static_cast<double>(wanted[i]);
    error += apart * apart;
    norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  if (norm == 0) {
    return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  return std::sqrt(error / norm);
}

std::string FirstBitDifference(std::span<const float> found, std::span<const float> wanted) {
  if (found.size() != wanted.size()) {
    return fmt::format("{} values against {}", found.size(), wanted.size());
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const auto x = std::bit_cast<uint32_t>(found[i]);
    const auto y = std::bit_cast<uint32_t>(wanted[i]);
    if (x != y) {
      return fmt::format("value {}: {} ({:08x}) against {} ({:08x})", i, found[i], x, wanted[i], y);
    }
  }
  return {};
}

}  // namespace cachalot
