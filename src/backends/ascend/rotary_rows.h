// Cosines and sines of a rotary embedding by position, in the form that the operators read: float32
// rows as wide as the rotated part, each pair's value twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/ops.h"

namespace cachalot::ascend {

// Angles are position * frequency in double. The position is split in two, and the cosine of the sum
// comes from tables of both parts: no trigonometry in a step, and no table as long as the context.
class RotaryRows {
 public:
  explicit RotaryRows(const RopeTable& table);

  // Whose rows these are: tables are told apart by where their frequencies stand.
  const double* frequencies() const { return frequencies_.data(); }
  int64_t dim() const { return 2 * static_cast<int64_t>(frequencies_.size()); }

  // Both of `dim` values; position in [0, 2^31).
  void Fill(int64_t position, float* cos, float* sin);

 private:
  struct Turn {
    double cos = 1;
    double sin = 0;
  };
  // The turns of all frequencies for positions 0, step, ... (count - 1) * step.
  std::vector<Turn> Turns(int64_t count, int64_t step) const;

  std::span<const double> frequencies_;
  std::vector<Turn> fine_;
  std::vector<Turn> coarse_;  // of one step of fine_, grown as positions need it
};

}  // namespace cachalot::ascend
