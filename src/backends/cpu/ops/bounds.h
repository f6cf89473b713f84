// How far a variant may be from the reference: the relative error, in the Euclidean norm, of each
// floating output. Integer outputs (experts, selections) are equal, and a bound of 0 asks for equal
// bits.
#pragma once

#include <string>
#include <string_view>

#include "backends/cpu/isa.h"
#include "base/check.h"

namespace cachalot::cpu {

struct Bound {
  std::string_view op;
  std::string_view output;  // "" for every output
  std::string_view format;  // of weights or rows; "" for every format
  double relative_error;
  Isa from = Isa::kRef;  // of variants from this instruction set on
};

// The first line that fits holds. A float32 has a unit roundoff of 6e-8; the reference sums in
// double, so a bound is what the variants' own sums may lose.
inline constexpr Bound kBounds[] = {
    // One sum of squares, one root, two products.
    {"rms_norm", "", "", 5e-7},
    // Angles in double; sine, cosine and two products in float32.
    {"rope", "", "", 5e-7},
    // On tiles (tile_formats.h): inputs of fp4 products are rounded to bf16, at most 2^-8 of each,
    // 1.7e-3 in the root mean square; inputs of int8 products have 16 bits, one power of two for a
    // token, so that what is lost grows with its largest over its typical column; with bf16 and fp8
    // weights inputs are the sum of two bf16, at most 2^-16 off.
    {"linear", "", "f32", 2e-6},
    {"linear", "", "fp4", 3e-3, Isa::kAmx},
    {"linear", "", "int8", 5e-4, Isa::kAmx},
    {"linear", "", "", 2e-5, Isa::kAmx},
    // Inputs of fp4 products in 16 bits, one power of two for each 32: at most 2^-15 of the largest.
    {"linear", "", "fp4", 1e-4},
    // Every element of a weight is exact in float32; sums of up to 8192 products in lanes.
    {"linear", "", "", 2e-6},
    // A sum over all streams at once (up to 28672 products), then functions of it.
    {"hc_pre", "y", "", 5e-6},
    {"hc_pre", "post", "", 5e-6},
    // Sinkhorn's divisions keep the error of the exponentials.
    {"hc_pre", "comb", "", 2e-5},
    {"hc_head", "", "", 5e-6},
    // Five products.
    {"hc_post", "", "", 5e-7},
    // The rounding of rows is a definition.
    {"store_rows", "", "", 0},
    // Copies and one float32 sum.
    {"compressor", "state", "", 0},
    // Exponentials and two sums of up to 128 terms; bf16 may round the other way where a value is
    // within that of a tie, and so may a code: a whole step of e4m3 is 1/16, of e2m1 1/2.
    {"compressor", "pool", "f32", 2e-6},
    {"compressor", "pool", "bf16", 1e-4},
    {"compressor", "pool", "f32/fp8", 1e-3},
    {"compressor", "pool", "bf16/fp8", 1e-3},
    {"compressor", "pool", "fp8bf16/fp8", 1e-3},
    {"compressor", "pool", "", 1e-2},
    // Two sums (over D, over keys) and an exponential of scores up to about ten.
    {"attention", "", "", 5e-6},
    // softplus, a root and a division after one sum; float32 logits.
    {"moe_gate", "weights", "", 5e-6},
    // Three products in a row, each as linear, and silu.
    {"experts", "", "f32", 5e-6},
    {"experts", "", "fp4", 6e-3, Isa::kAmx},
    {"experts", "", "int8", 5e-4, Isa::kAmx},
    {"experts", "", "", 4e-5, Isa::kAmx},
    {"experts", "", "fp4", 2e-4},
    {"experts", "", "", 5e-6},
};

inline double BoundOf(std::string_view op, std::string_view output, std::string_view format,
                      Isa isa) {
  for (const Bound& bound : kBounds) {
    if (bound.op == op && (bound.output.empty() || bound.output == output) &&
        (bound.format.empty() || bound.format == format) && bound.from <= isa) {
      return bound.relative_error;
    }
  }
  CACHALOT_CHECK(false, "no bound for output {} of {}", output, op);
}

}  // namespace cachalot::cpu
