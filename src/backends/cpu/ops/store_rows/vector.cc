#include "backends/cpu/ops/store_rows/vector.h"

#include "backends/cpu/ops/share_values.h"

namespace cachalot::cpu {
namespace {

void Run(const StoreRowsParams& params, Context& context, void (*encode)(const EncodeRows&)) {
  const RowLayout& layout = params.pool.layout;
  ShareValues(context.pool(), params.x.shape[0], layout.width, [&](int64_t begin, int64_t end) {
    encode({params.x.As<float>() + begin * layout.width, params.slots.As<int32_t>() + begin,
            end - begin, layout, static_cast<uint8_t*>(params.pool.data), layout.bytes()});
  });
}

}  // namespace

const char* RowsUnsupported(const RowLayout& layout) {
  if (layout.width % 16 != 0) {
    return "row width is no multiple of 16";
  }
  if (layout.rounding == RowRounding::kFp8 && (layout.width - layout.rope_dim) % 64 != 0) {
    return "rows before their rope part are no multiple of 64";
  }
  if (layout.rounding == RowRounding::kFp4 && layout.width % 32 != 0) {
    return "row width is no multiple of 32";
  }
  return nullptr;
}

const char* VectorStoreRowsSupports(const StoreRowsParams& params) {
  return RowsUnsupported(params.pool.layout);
}
void Avx2StoreRows(const StoreRowsParams& params, Context& context) {
  Run(params, context, avx2::Encode);
}
void Avx512StoreRows(const StoreRowsParams& params, Context& context) {
  Run(params, context, avx512::Encode);
}

}  // namespace cachalot::cpu
