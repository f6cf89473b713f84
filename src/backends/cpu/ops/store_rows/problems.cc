#include "backends/cpu/ops/store_rows/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cachalot::cpu {
namespace {

// int8 keeps its scale in float16, which ends at 65504.
constexpr float kLargestInt8 = 8e6F;

// Rows that meet the edges of the formats: zeros of both signs, values below every floor,
// subnormals, the largest and the smallest magnitudes, ties of each code.
void AddEdges(const Tensor& x, RowRounding rounding) {
  const int64_t width = x.shape[1];
  const float edges[] = {0.0F,  -0.0F, 1e-40F, -3e-39F, 1e-5F,  3e38F,  -3e38F, 0.25F,
                         0.75F, 2.5F,  5.0F,   -3.5F,   448.0F, 449.0F, 6.1F,   1.0625F};
  for (int64_t row = 0; row + 1 < x.shape[0]; row += 4) {
    for (int64_t c = 0; c < width; ++c) {
      float& value = x.As<float>()[row * width + c];
      switch (row / 4 % 4) {
        case 0:
          value = c % 3 == 0 ? -0.0F : 0.0F;
          break;
        case 1:
          value = edges[static_cast<size_t>(c * 7 + row) % std::size(edges)];
          break;
        case 2:
          value = std::ldexp(std::round(value * 8) / 8, -20);
          break;
        default:
          value = std::round(value * 16) / 16;
      }
      if (rounding == RowRounding::kInt8) {
        value = std::clamp(value, -kLargestInt8, kLargestInt8);
      }
    }
  }
}

}  // namespace

std::vector<Problem<StoreRowsParams>> StoreRowsProblems() {
  const RowLayout layouts[] = {
      {RowFormat::kF32, RowRounding::kNone, 512, 0},
      {RowFormat::kF32, RowRounding::kNone, 37, 0},
      {RowFormat::kF32, RowRounding::kFp8, 512, 64},
      {RowFormat::kF32, RowRounding::kFp8, 80, 16},
      {RowFormat::kF32, RowRounding::kFp4, 128, 0},
      {RowFormat::kF32, RowRounding::kInt8, 128, 0},
      {RowFormat::kBf16, RowRounding::kNone, 512, 64},
      {RowFormat::kBf16, RowRounding::kNone, 45, 0},
      {RowFormat::kBf16, RowRounding::kFp8, 512, 64},
      {RowFormat::kFp8Bf16, RowRounding::kFp8, 512, 64},
      {RowFormat::kFp8Bf16, RowRounding::kFp8, 128, 64},
      {RowFormat::kFp8Bf16, RowRounding::kFp8, 80, 16},
      {RowFormat::kFp4, RowRounding::kFp4, 128, 0},
      {RowFormat::kFp4, RowRounding::kFp4, 32, 0},
      {RowFormat::kInt8, RowRounding::kInt8, 128, 0},
      {RowFormat::kInt8, RowRounding::kInt8, 37, 0},
  };
  std::vector<Problem<StoreRowsParams>> problems;
  for (const RowLayout& layout : layouts) {
    for (const int64_t tokens : {0, 1, 3, 17}) {
      const std::string name =
          fmt::format("{} rows of {}, {} wide", tokens, NameOf(layout), layout.width);
      problems.push_back({name, NameOf(layout), [layout, tokens](Case<StoreRowsParams>& made) {
                            StoreRowsParams& params = made.params;
                            params.x = made.data.Normal({tokens, layout.width}, 2);
                            AddEdges(params.x, layout.rounding);
                            auto slots = made.data.Shuffled(tokens + 3);
                            slots.resize(static_cast<size_t>(tokens));
                            params.slots = made.data.Ints({tokens}, slots);
                            params.pool = made.data.Pool(layout, tokens + 3);
                            made.tokens = tokens;
                            made.outputs = {{"pool", {}, params.pool}};
                          }});
    }
  }
  return problems;
}

StoreRowsParams Slice(const StoreRowsParams& params, int64_t begin, int64_t end, ProblemData&) {
  return {params.x.Rows(begin, end), params.slots.Rows(begin, end), params.pool};
}

}  // namespace cachalot::cpu
