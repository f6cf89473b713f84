#include "matrix.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "half.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileBytes = 32;
constexpr int64_t kColumns = 32;  // unpacked at a time: the sums of one row stay in registers
constexpr int64_t kPartialSum = 64;

int64_t CeilDiv(int64_t value, int64_t by) { return (value + by - 1) / by; }

float ToHf32(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000U);
}

// Calls visit(k, n, count, offset, step) for pieces of columns [first, first + columns): `count` elements
// along k, `step` apart. Pieces are short, so that what they touch of rows stays in the cache.
template <typename Visit>
void ForEachPiece(const MatrixLayout& layout, int64_t first, int64_t columns, Visit visit) {
  const int64_t length = layout.nz && layout.c_is_k ? layout.c0 : kTileRows;
  const int64_t step = !layout.nz ? layout.k_stride : layout.c_is_k ? 1 : layout.c0;
  for (int64_t k = 0; k < layout.k; k += length) {
    for (int64_t n = first; n < first + columns; ++n) {
      visit(k, n - first, std::min(length, layout.k - k), layout.Offset(k, n), step);
    }
  }
}

template <typename T, typename ToFloat>
void UnpackFloats(const MatrixLayout& layout, const T* weight, int64_t first, int64_t columns,
                  float* panel, ToFloat to_float) {
  ForEachPiece(layout, first, columns,
               [&](int64_t k, int64_t column, int64_t count, int64_t offset, int64_t step) {
                 for (int64_t i = 0; i < count; ++i) {
                   panel[(k + i) * kColumns + column] = to_float(weight[offset + i * step]);
                 }
               });
}

// Panel [k, kColumns]; what is beyond `columns` is left as it was.
void UnpackFloats(const MatrixLayout& layout, const void* weight, int64_t first, int64_t columns,
                  float* panel) {
  switch (layout.dtype) {
    case ACL_BF16:
      return UnpackFloats(layout, static_cast<const uint16_t*>(weight), first, columns, panel,
                          [](uint16_t bits) { return FromBf16(bits); });
    case ACL_FLOAT16:
      return UnpackFloats(layout, static_cast<const uint16_t*>(weight), first, columns, panel,
                          [](uint16_t bits) { return FromFp16(bits); });
    default:
      return UnpackFloats(layout, static_cast<const float*>(weight), first, columns, panel,
                          [](float value) { return value; });
  }
}

// Panel [kColumns, k]: sums of products of INT16 pairs are one instruction.
void UnpackIntegers(const MatrixLayout& layout, const int8_t* weight, int64_t first,
                    int64_t columns, int16_t* panel) {
  ForEachPiece(layout, first, columns,
               [&](int64_t k, int64_t column, int64_t count, int64_t offset, int64_t step) {
                 for (int64_t i = 0; i < count; ++i) {
                   panel[column * layout.k + k + i] = weight[offset + i * step];
                 }
               });
}

void RowTimesPanel(const float* x, int64_t k, const float* panel, float* sums) {
  float total[kColumns] = {};
  for (int64_t begin = 0; begin < k; begin += kPartialSum) {
    const int64_t end = std::min(begin + kPartialSum, k);
    float partial[kColumns] = {};
    for (int64_t i = begin; i < end; ++i) {
      const float value = x[i];
      const float* weights = panel + i * kColumns;
      for (int64_t c = 0; c < kColumns; ++c) {
        partial[c] += value * weights[c];
      }
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      total[c] += partial[c];
    }
  }
  std::copy_n(total, kColumns, sums);
}

int32_t Dot(const int16_t* a, const int16_t* b, int64_t k) {
  int32_t sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    sum += static_cast<int32_t>(a[i]) * b[i];
  }
  return sum;
}

}  // namespace

int64_t Product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> NzStorage(const std::vector<int64_t>& shape, aclDataType dtype) {
  const int64_t c0 = kTileBytes / SizeOf(dtype);
  const int64_t rows = shape[shape.size() - 2];
  const int64_t columns = shape[shape.size() - 1];
  std::vector<int64_t> storage(shape.begin(), shape.end() - 2);
  storage.insert(storage.end(), {CeilDiv(columns, c0), CeilDiv(rows, kTileRows), kTileRows, c0});
  return storage;
}

int64_t MatrixLayout::Offset(int64_t k_index, int64_t n_index) const {
  if (!nz) {
    return k_index * k_stride + n_index * n_stride;
  }
  const int64_t row = c_is_k ? n_index : k_index;
  const int64_t column = c_is_k ? k_index : n_index;
  return ((column / c0 * row_tiles + row / kTileRows) * kTileRows + row % kTileRows) * c0 +
         column % c0;
}

MatrixLayout LayoutOf(Call& call, const Operand& operand, bool transposed) {
  MatrixLayout layout;
  if (!call.ok()) {
    return layout;
  }
  const int64_t rank = operand.rank();
  const int64_t rows = operand.shape[rank - 2];
  const int64_t columns = operand.shape[rank - 1];
  layout.dtype = operand.dtype;
  layout.k = transposed ? columns : rows;
  layout.n = transposed ? rows : columns;
  layout.k_stride = operand.strides[transposed ? rank - 1 : rank - 2];
  layout.n_stride = operand.strides[transposed ? rank - 2 : rank - 1];
  layout.batch_stride = rank > 2 ? operand.strides[rank - 3] : 0;
  if (operand.format != ACL_FORMAT_FRACTAL_NZ) {
    return layout;
  }

  Operand stored = operand;
  if (!stored.contiguous()) {
    stored = Transposed(stored, rank - 2, rank - 1);
    transposed = !transposed;
  }
  call.Expect(stored.contiguous() && stored.offset == 0, kAclnnInvalid,
              "{}: strides {} and offset {} of a FRACTAL_NZ tensor are neither those of a whole "
              "tensor nor of its transpose",
              operand.name, ShapeText(operand.strides), operand.offset);
  const std::vector<int64_t> storage = NzStorage(stored.shape, stored.dtype);
  call.Expect(operand.storage == storage, kAclnnInvalid,
              "{}: storage {} where FRACTAL_NZ has {} for {}", operand.name,
              ShapeText(operand.storage), ShapeText(storage), ShapeText(stored.shape));
  layout.nz = true;
  layout.c_is_k = transposed;
  layout.c0 = storage.back();
  layout.row_tiles = storage[storage.size() - 3];
  layout.batch_stride = layout.row_tiles * kTileRows * storage[storage.size() - 4] * layout.c0;
  return layout;
}

std::vector<float> Multiply(const std::vector<float>& x, int64_t rows, const MatrixLayout& layout,
                            const void* weight, bool hf32) {
  std::vector<float> out(rows * layout.n);
  if (rows == 0) {
    return out;
  }
  std::vector<float> left = x;
  std::vector<float> panel(layout.k * kColumns);
  if (hf32) {
    std::transform(left.begin(), left.end(), left.begin(), ToHf32);
  }
  for (int64_t first = 0; first < layout.n; first += kColumns) {
    const int64_t columns = std::min(kColumns, layout.n - first);
    UnpackFloats(layout, weight, first, columns, panel.data());
    if (hf32) {
      std::transform(panel.begin(), panel.end(), panel.begin(), ToHf32);
    }
    for (int64_t row = 0; row < rows; ++row) {
      float sums[kColumns];
      RowTimesPanel(left.data() + row * layout.k, layout.k, panel.data(), sums);
      std::copy_n(sums, columns, out.data() + row * layout.n + first);
    }
  }
  return out;
}

std::vector<int32_t> Multiply(const std::vector<int8_t>& x, int64_t rows,
                              const MatrixLayout& layout, const void* weight) {
  std::vector<int32_t> out(rows * layout.n);
  if (rows == 0) {
    return out;
  }
  const std::vector<int16_t> left(x.begin(), x.end());
  std::vector<int16_t> panel(layout.k * kColumns);
  for (int64_t first = 0; first < layout.n; first += kColumns) {
    const int64_t columns = std::min(kColumns, layout.n - first);
    UnpackIntegers(layout, static_cast<const int8_t*>(weight), first, columns, panel.data());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t c = 0; c < columns; ++c) {
        out[row * layout.n + first + c] =
            Dot(left.data() + row * layout.k, panel.data() + c * layout.k, layout.k);
      }
    }
  }
  return out;
}

}  // namespace ascend_emulator::standard
