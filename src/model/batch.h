// Batch: the tokens of one step and where their rows stand in the caches. The model sees no
// requests beyond it.
#pragma once

#include <cstdint>

#include "device/ops.h"
#include "tensor/tensor.h"

namespace cachalot {

// T tokens of B requests; all tensors are on the device, I32. Page tables hold page ids, as
// device/ops.h reads them.
struct Batch {
  int64_t num_tokens = 0;
  Tensor ids;             // [T]
  Tensor positions;       // [T]
  StepRequests requests;  // query starts [B + 1], first positions [B]
  Tensor window_slots;    // [T] rows of every layer's window pool
  // Window keys of a token: positions [key_begin, key_end).
  Tensor key_begin;     // [T]
  Tensor key_end;       // [T]
  Tensor window_pages;  // [B, n]
  // Entries that this step closes, and where all entries stand, for the two ratios.
  Tensor c4_slots;          // [N4]
  Tensor c4_pages;          // [B, n]
  Tensor c4_state_pages;    // [B, n]
  Tensor c128_slots;        // [N128]
  Tensor c128_pages;        // [B, n]
  Tensor c128_state_pages;  // [B, n], n = 1 with rings
};

}  // namespace cachalot
