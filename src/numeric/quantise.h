// Block quantisation as the model defines it: one scale for a block of the last axis, values to
// nearest-even. The scale of fp8 and fp4 blocks is the smallest power of two s with amax / s inside
// the format.
#pragma once

#include <cstdint>
#include <span>

namespace cachalot {

// 2^ceil(log2(fp32(amax * fp32(1/largest)))), the ue8m0 rule; amax > 0.
float PowerOfTwoScale(float amax, float largest);

// e4m3 codes of one block; returns its scale. amax is floored at 1e-4.
float QuantiseFp8(std::span<const float> block, std::span<uint8_t> codes);

// e2m1 codes of one block, two to a byte, even element in the low nibble; returns its scale. amax
// is floored at 6 * 2^-126.
float QuantiseFp4(std::span<const float> block, std::span<uint8_t> pairs);

// Symmetric int8 of one row; returns its float32 scale, max(|x|, 1e-12) / 127. Codes are clamped to
// +-127.
float QuantiseInt8(std::span<const float> row, std::span<int8_t> codes);

// The rounding alone, in place: values become what their quantised form stands for.
void RoundFp8Blocks(std::span<float> row, int64_t block);
void RoundFp4Blocks(std::span<float> row, int64_t block);
// The scale is kept in float16, as int8 indexer keys have it; codes are made with the float32
// scale.
void RoundInt8Row(std::span<float> row);

}  // namespace cachalot
