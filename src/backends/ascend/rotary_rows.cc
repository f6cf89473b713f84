#include "backends/ascend/rotary_rows.h"

#include <cmath>

namespace cachalot::ascend {
namespace {

constexpr int64_t kFinePositions = 2048;

}  // namespace

RotaryRows::RotaryRows(const RopeTable& table)
    : frequencies_(table.frequencies), fine_(Turns(kFinePositions, 1)) {}

std::vector<RotaryRows::Turn> RotaryRows::Turns(int64_t count, int64_t step) const {
  std::vector<Turn> turns;
  turns.reserve(static_cast<size_t>(count) * frequencies_.size());
  for (int64_t i = 0; i < count; ++i) {
    for (const double frequency : frequencies_) {
      const double angle = static_cast<double>(i * step) * frequency;
      turns.push_back({std::cos(angle), std::sin(angle)});
    }
  }
  return turns;
}

void RotaryRows::Fill(int64_t position, float* cos, float* sin) {
  const size_t pairs = frequencies_.size();
  const auto coarse = static_cast<size_t>(position / kFinePositions);
  if (coarse_.size() <= coarse * pairs) {
    coarse_ = Turns(static_cast<int64_t>(coarse) + 16, kFinePositions);
  }
  const Turn* a = coarse_.data() + coarse * pairs;
  const Turn* b = fine_.data() + static_cast<size_t>(position % kFinePositions) * pairs;
  for (size_t i = 0; i < pairs; ++i) {
    const auto c = static_cast<float>(a[i].cos * b[i].cos - a[i].sin * b[i].sin);
    const auto s = static_cast<float>(a[i].sin * b[i].cos + a[i].cos * b[i].sin);
    cos[2 * i] = cos[2 * i + 1] = c;
    sin[2 * i] = sin[2 * i + 1] = s;
  }
}

}  // namespace cachalot::ascend
