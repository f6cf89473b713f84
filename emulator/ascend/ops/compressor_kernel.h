// What an aclnnCompressor of either flavour comes to once its arguments are checked.
#pragma once

#include <cstdint>

#include "op.h"

namespace ascend_emulator {

// Rows of a token: kv, then score with its position's bias, `channels` each.
struct Compressor {
  Operand x;      // [T, H] or [B, S, H]
  Operand wkv;    // [channels, H]
  Operand wgate;  // [channels, H]
  Operand state;  // FP32 [blocks, block size, 2 * channels]
  Operand ape;    // FP32 [ratio, channels]
  Operand norm;   // [D]; absent: no norm, no rope
  Operand sin;
  Operand cos;
  Operand table;  // state rows: pages of [B, n], or one row per position of [B, width]
  Operand starts;
  Operand used;
  Operand start_pos;
  Operand out;
  int64_t ratio = 0;
  int64_t overlap = 1;  // 2: a group mixes in the one before it
  bool explicit_rows = false;
  bool interleaved = true;
  int64_t rope_width = 0;
  float eps = 0;

  bool packed() const { return x.rank() == 2; }
  int64_t requests() const { return packed() ? starts.dim(0) - 1 : x.dim(0); }
  int64_t hidden() const { return x.dim(-1); }
  int64_t channels() const { return wkv.dim(0); }
  int64_t width() const { return channels() / overlap; }
};

// Pools the groups that the new tokens close, then keeps the new tokens' rows in the state.
void Compress(Kernel& kernel, const Compressor& call);

}  // namespace ascend_emulator
