#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

struct EncodeRows {
  const float* x;        // [rows, layout.width]
  const int32_t* slots;  // [rows]
  int64_t rows;
  RowLayout layout;
  uint8_t* pool;
  int64_t row_bytes;
};

namespace avx2 {
void Encode(const EncodeRows& task);
}
namespace avx512 {
void Encode(const EncodeRows& task);
}

// The reason against rows of this layout, for all operators that read or write them, or null.
const char* RowsUnsupported(const RowLayout& layout);

const char* VectorStoreRowsSupports(const StoreRowsParams& params);
void Avx2StoreRows(const StoreRowsParams& params, Context& context);
void Avx512StoreRows(const StoreRowsParams& params, Context& context);

}  // namespace cachalot::cpu
