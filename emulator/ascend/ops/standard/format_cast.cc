// aclnnNpuFormatCast: ND to FRACTAL_NZ storage and back.
#include <algorithm>
#include <cstring>

#include "export.h"
#include "matrix.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

// Element by element between a row-major matrix and its tiles.
template <typename T>
void Convert(T* rows, T* tiles, const MatrixLayout& layout, bool to_tiles) {
  for (int64_t r = 0; r < layout.k; ++r) {
    for (int64_t c = 0; c < layout.n; ++c) {
      T& row = rows[r * layout.n + c];
      T& tile = tiles[layout.Offset(r, c)];
      (to_tiles ? tile : row) = to_tiles ? row : tile;
    }
  }
}

void Convert(uint8_t* rows, uint8_t* tiles, const MatrixLayout& layout, bool to_tiles) {
  switch (SizeOf(layout.dtype)) {
    case 1:
      return Convert<uint8_t>(rows, tiles, layout, to_tiles);
    case 2:
      return Convert(reinterpret_cast<uint16_t*>(rows), reinterpret_cast<uint16_t*>(tiles), layout,
                     to_tiles);
    default:
      return Convert(reinterpret_cast<uint32_t*>(rows), reinterpret_cast<uint32_t*>(tiles), layout,
                     to_tiles);
  }
}

aclnnStatus NpuFormatCastSize(const aclTensor* src, aclTensor* dst, uint64_t* size,
                              aclOpExecutor** executor) {
  Call call("aclnnNpuFormatCast", size, executor);
  const Operand source =
      call.Input("srcTensor", src,
                 {ACL_INT8, ACL_UINT8, ACL_BF16, ACL_FLOAT16, ACL_INT32, ACL_UINT32, ACL_FLOAT});
  const Operand target = call.Output("dstTensor", dst, {source.dtype});
  call.Rank(source, {2, 3, 4, 5, 6});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  call.Contiguous(source);
  call.Contiguous(target);
  call.SameShape(source, target);
  call.Expect(source.count() > 0, kAclnnInvalid, "srcTensor: empty, shape {}",
              ShapeText(source.shape));
  const bool to_tiles = target.format == ACL_FORMAT_FRACTAL_NZ;
  call.Expect(to_tiles != (source.format == ACL_FORMAT_FRACTAL_NZ), kAclnnRuntime,
              "srcTensor: no conversion from format {} to {}", static_cast<int>(source.format),
              static_cast<int>(target.format));
  const Operand tiled = to_tiles ? target : source;
  const MatrixLayout layout = LayoutOf(call, tiled, false);
  return call.Finish([=](Kernel& kernel) {
    auto* rows = kernel.Data<uint8_t>(to_tiles ? source : target);
    auto* tiles = kernel.Data<uint8_t>(tiled);
    const int64_t element = SizeOf(layout.dtype);
    const int64_t matrix = layout.k * layout.n * element;
    const int64_t stored = Product(tiled.storage) / (tiled.count() * element / matrix) * element;
    for (int64_t batch = 0; batch < tiled.count() * element / matrix; ++batch) {
      if (to_tiles) {
        std::memset(tiles + batch * stored, 0, stored);
      }
      Convert(rows + batch * matrix, tiles + batch * stored, layout, to_tiles);
    }
  });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnNpuFormatCast, NpuFormatCastSize);

}  // namespace ascend_emulator::standard
