// The two frequency tables of the model's rotary embeddings. Source: YaRN without its magnitude
// factor, as the published code has it, in double.
#pragma once

#include <vector>

#include "checkpoint/config.h"
#include "device/ops.h"

namespace cachalot {

class RopeFrequencies {
 public:
  explicit RopeFrequencies(const ModelConfig& config);

  // Layers with a compressed cache turn by the long-context table in everything they rotate; the
  // others, and all draft layers, by the plain one.
  RopeTable ForRatio(int64_t ratio) const { return {dim_, ratio > 0 ? compressed_ : plain_}; }

 private:
  int64_t dim_;
  std::vector<double> plain_;  // theta^(-2i / dim)
  std::vector<double>
      compressed_;  // the same from compress_rope_theta, slow pairs divided by the YaRN factor
};

}  // namespace cachalot
