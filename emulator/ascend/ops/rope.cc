// Rotary positions: aclnnInplacePartialRotaryMul (custom), aclnnRotaryPositionEmbedding and
// aclnnInterleaveRope (standard).
#include <algorithm>
#include <vector>

#include "export.h"
#include "op.h"
#include "paged.h"
#include "rows.h"

namespace ascend_emulator {
namespace {

// Which elements make a pair: i and i + half; neighbours; i and i + quarter within each half;
// neighbours, which then end up half a row apart.
enum Mode : int64_t { kHalf = 0, kInterleave = 1, kQuarter = 2, kInterleaveHalf = 3 };

struct Rope {
  Operand x;
  Operand cos;  // 4-D, axes of 1 repeat; the last one is the slice's width
  Operand sin;
  Operand out;  // may be x
  int64_t mode = kHalf;
  int64_t begin = 0;
  int64_t width = 0;
};

void RotateBy(int64_t mode, std::vector<float>& row, const std::vector<float>& cos,
              const std::vector<float>& sin) {
  const auto width = static_cast<int64_t>(row.size());
  if (mode == kQuarter) {
    const int64_t half = width / 2;
    Rotate(row.data(), cos.data(), sin.data(), half, false);
    Rotate(row.data() + half, cos.data() + half, sin.data() + half, half, false);
    return;
  }
  if (mode == kInterleaveHalf) {
    const std::vector<float> pairs = row;
    for (int64_t i = 0; i < width / 2; ++i) {
      row[static_cast<size_t>(i)] = pairs[static_cast<size_t>(2 * i)];
      row[static_cast<size_t>(width / 2 + i)] = pairs[static_cast<size_t>(2 * i + 1)];
    }
  }
  Rotate(row.data(), cos.data(), sin.data(), width, mode == kInterleave);
}

void Turn(Kernel& kernel, const Rope& call) {
  const Rows x(kernel, call.x);
  const Rows cos(kernel, call.cos);
  const Rows sin(kernel, call.sin);
  Rows out(kernel, call.out);
  std::vector<float> row(static_cast<size_t>(call.width));
  const auto at = [](const Operand& operand, const int64_t(&index)[3]) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < 3; ++axis) {
      offset += operand.shape[axis] == 1 ? 0 : index[axis] * operand.strides[axis];
    }
    return offset;
  };
  int64_t index[3];
  for (index[0] = 0; index[0] < call.x.dim(0); ++index[0]) {
    for (index[1] = 0; index[1] < call.x.dim(1); ++index[1]) {
      for (index[2] = 0; index[2] < call.x.dim(2); ++index[2]) {
        x.Read(at(call.x, index) + call.begin, call.width, row.data());
        RotateBy(call.mode, row, cos.Read(at(call.cos, index), call.width),
                 sin.Read(at(call.sin, index), call.width));
        out.Write(at(call.out, index) + call.begin, call.width, row.data());
      }
    }
  }
}

void CheckTables(Call& call, const Rope& a) {
  if (!call.ok()) {
    return;
  }
  call.Expect(a.mode >= kHalf && a.mode <= kInterleaveHalf, kAclnnInvalid, "mode {}, not in 0..3",
              a.mode);
  call.Expect(a.x.dim(3) <= 1024 && a.width > 0 && a.width % (a.mode == kQuarter ? 4 : 2) == 0,
              kAclnnInvalid, "x: last axis {}, rotated {}: more than 1024, or not in pairs",
              a.x.dim(3), a.width);
  call.Rank(a.cos, {4});
  call.SameShape(a.cos, a.sin);
  call.Expect(a.cos.dtype == a.sin.dtype, kAclnnInvalid, "sin: {}, but cos is {}",
              NameOf(a.sin.dtype), NameOf(a.cos.dtype));
  call.Contiguous(a.cos);
  call.Contiguous(a.sin);
  if (!call.ok()) {
    return;
  }
  for (int64_t axis = 0; axis < 3; ++axis) {
    call.Expect(a.cos.dim(axis) == 1 || a.cos.dim(axis) == a.x.dim(axis), kAclnnInvalid,
                "cos: axis {} is {}, neither 1 nor x's {}", axis, a.cos.dim(axis), a.x.dim(axis));
  }
  call.Expect(a.cos.dim(3) == a.width, kAclnnInvalid, "cos: last axis {}, rotated are {}",
              a.cos.dim(3), a.width);
  call.Expect(a.x.strides[3] == 1, kAclnnInvalid, "x: the last axis has stride {}", a.x.strides[3]);
}

aclnnStatus PartialSize(aclTensor* x, const aclTensor* cos, const aclTensor* sin, int64_t mode,
                        const aclIntArray* partial_slice, uint64_t* size,
                        aclOpExecutor** executor) {
  Call call("aclnnInplacePartialRotaryMul", size, executor);
  const Call::DTypes types = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};
  Rope a;
  a.x = call.InOut("x", x, types);
  a.cos = call.Input("cos", cos, types);
  a.sin = call.Input("sin", sin, types);
  const std::vector<int64_t> slice = call.Integers("partialSlice", partial_slice);
  call.Rank(a.x, {4});
  call.Expect(slice.size() == 2, kAclnnInvalid, "partialSlice: {} numbers, not 2", slice.size());
  if (call.ok()) {
    call.Expect(slice[0] >= 0 && slice[0] < slice[1] && slice[1] <= a.x.dim(3), kAclnnInvalid,
                "partialSlice: [{}, {}) of {}", slice[0], slice[1], a.x.dim(3));
    a.begin = slice[0];
    a.width = slice[1] - slice[0];
  }
  a.mode = mode;
  CheckTables(call, a);
  if (call.ok()) {
    call.Expect(a.cos.dim(2) == 1, kAclnnInvalid, "cos: axis 2 is {}, not 1", a.cos.dim(2));
  }
  a.out = a.x;
  return call.Finish([a](Kernel& kernel) { Turn(kernel, a); });
}

aclnnStatus EmbeddingSize(const aclTensor* x, const aclTensor* cos, const aclTensor* sin,
                          int64_t mode, aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnRotaryPositionEmbedding", size, executor);
  const Call::DTypes types = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};
  Rope a;
  a.x = call.Input("x", x, types);
  a.cos = call.Input("cos", cos, types);
  a.sin = call.Input("sin", sin, types);
  a.out = call.Output("out", out, types);
  call.Rank(a.x, {4});
  call.SameShape(a.x, a.out);
  for (const Operand* operand : {&a.cos, &a.sin, &a.out}) {
    call.Expect(operand->dtype == a.x.dtype, kAclnnInvalid, "{}: {}, but x is {}", operand->name,
                NameOf(operand->dtype), NameOf(a.x.dtype));
  }
  call.Contiguous(a.out);
  a.mode = mode;
  a.width = call.ok() ? a.x.dim(3) : 0;
  CheckTables(call, a);
  return call.Finish([a](Kernel& kernel) { Turn(kernel, a); });
}

aclnnStatus InterleaveSize(const aclTensor* x, const aclTensor* cos, const aclTensor* sin,
                           aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnInterleaveRope", size, executor);
  Rope a;
  a.x = call.Input("x", x, kHalfTypes);
  a.cos = call.Input("cos", cos, kHalfTypes);
  a.sin = call.Input("sin", sin, kHalfTypes);
  a.out = call.Output("out", out, kHalfTypes);
  call.Rank(a.x, {4});
  call.SameShape(a.x, a.out);
  for (const Operand* operand : {&a.cos, &a.sin, &a.out}) {
    call.Expect(operand->dtype == a.x.dtype, kAclnnInvalid, "{}: {}, but x is {}", operand->name,
                NameOf(operand->dtype), NameOf(a.x.dtype));
  }
  call.Contiguous(a.out);
  a.mode = kInterleaveHalf;
  a.width = call.ok() ? a.x.dim(3) : 0;
  if (call.ok()) {
    call.Limit(a.width == 64, "InterleaveRope.head_dim", "x: last axis {}, not 64", a.width);
  }
  CheckTables(call, a);
  return call.Finish([a](Kernel& kernel) { Turn(kernel, a); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnInplacePartialRotaryMul, ascend_emulator::PartialSize);
EMULATOR_STANDARD_OP(aclnnRotaryPositionEmbedding, ascend_emulator::EmbeddingSize);
EMULATOR_STANDARD_OP(aclnnInterleaveRope, ascend_emulator::InterleaveSize);
