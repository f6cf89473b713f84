// From bytes of a file to a Tensor or Matrix: views where the bytes can be used in place, copies
// where they must be converted or moved to an aligned address. Checks the values that a wrong file
// would do harm with: scales and expert ids.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/accounting.h"

namespace cachalot {

// Memory for the copies; its blocks are aligned to 64 bytes and stay where they are.
class CopyArena {
 public:
  std::byte* Allocate(size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* block) const;
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
};

// Fills the slot of `spec` from its match.
Status Materialise(const TensorSpec& spec, const MatchedTensor& match, const ModelConfig& config,
                   CopyArena& arena);

}  // namespace cachalot
