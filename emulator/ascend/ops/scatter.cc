// Writes rows of a cache in place: aclnnScatterNdUpdateV2 (custom) skips rows with a negative index,
// aclnnScatterNdUpdate (standard) has no such rows.
#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <vector>

#include "export.h"
#include "op.h"
#include "paged.h"

namespace ascend_emulator {
namespace {

struct Scatter {
  Operand var;
  Operand indices;  // [rows, depth]: the first axes of var
  Operand updates;  // [rows, the other axes of var]
  bool skips_negative = false;

  int64_t depth() const { return indices.dim(1); }
};

void Write(Kernel& kernel, const Scatter& call) {
  const std::vector<int64_t> indices = kernel.LoadIntegers(call.indices);
  const int64_t rows = call.indices.dim(0);
  const int64_t depth = call.depth();
  const int64_t size = SizeOf(call.var.dtype);
  auto* var = kernel.Data<uint8_t>(call.var);
  const auto* updates = kernel.Data<uint8_t>(call.updates);
  const int64_t bytes = rows == 0 ? 0 : call.updates.count() / rows * size;
  std::unordered_set<int64_t> written;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* index = indices.data() + row * depth;
    if (call.skips_negative && *std::min_element(index, index + depth) < 0) {
      continue;
    }
    int64_t at = 0;
    for (int64_t axis = 0; axis < depth; ++axis) {
      if (index[axis] < 0 || index[axis] >= call.var.dim(axis)) {
        kernel.Fault(kVectorCoreException,
                     "indices: element {} of row {} is {}, axis {} of var has {}", axis, row,
                     index[axis], axis, call.var.dim(axis));
        return;
      }
      at += index[axis] * call.var.strides[static_cast<size_t>(axis)];
    }
    // Rows that nobody reads go to the first block, as many as there are. Elsewhere the order of two
    // writes is up to the device.
    if (index[0] != 0 && !written.insert(at).second) {
      kernel.Fault(kVectorCoreException,
                   "indices: row {} writes an element written before, from {}", row, index[0]);
      return;
    }
    std::memcpy(var + at * size, updates + row * bytes, static_cast<size_t>(bytes));
  }
}

void Check(Call& call, const Scatter& a) {
  call.Rank(a.indices, {2});
  call.Expect(a.var.dtype == a.updates.dtype, kAclnnInvalid, "updates: {}, but var is {}",
              NameOf(a.updates.dtype), NameOf(a.var.dtype));
  if (!call.ok()) {
    return;
  }
  const int64_t depth = a.depth();
  call.Expect(depth >= 1 && depth <= a.var.rank(), kAclnnInvalid,
              "indices: {} numbers a row, var has {} axes", depth, a.var.rank());
  if (!call.ok()) {
    return;
  }
  std::vector<int64_t> shape(a.var.shape.begin() + depth, a.var.shape.end());
  shape.insert(shape.begin(), a.indices.dim(0));
  call.Shape(a.updates, shape);
  call.Contiguous(a.indices);
  call.Contiguous(a.updates);
  call.Expect(a.var.contiguous_rows(), kAclnnInvalid, "var: only axis 0 may be strided");
}

const Call::DTypes kTypes = {ACL_BF16,  ACL_FLOAT16, ACL_FLOAT, ACL_INT8,
                             ACL_INT32, ACL_INT64,   ACL_BOOL};

aclnnStatus CustomSize(aclTensor* var, const aclTensor* indices, const aclTensor* updates,
                       const aclIntArray* strides, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnScatterNdUpdateV2", size, executor);
  Scatter a;
  a.var = call.InOut("var", var, kTypes);
  a.indices = call.Input("indices", indices, {ACL_INT32, ACL_INT64});
  a.updates = call.Input("updates", updates, kTypes);
  a.skips_negative = true;
  const std::vector<int64_t> given = call.Integers("strides", strides);
  Check(call, a);
  if (call.ok()) {
    call.Expect(given.size() == a.var.strides.size(), kAclnnInvalid,
                "strides: {} numbers, var has {} axes", given.size(), a.var.rank());
    for (size_t axis = 0; call.ok() && axis < given.size(); ++axis) {
      call.Expect(given[axis] == a.var.strides[axis] || a.var.shape[axis] == 1, kAclnnInvalid,
                  "strides: {} on axis {}, var has {}", given[axis], axis, a.var.strides[axis]);
    }
  }
  return call.Finish([a](Kernel& kernel) { Write(kernel, a); });
}

aclnnStatus StandardSize(aclTensor* var, const aclTensor* indices, const aclTensor* updates,
                         uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnScatterNdUpdate", size, executor);
  Scatter a;
  a.var = call.InOut("var", var, kTypes);
  a.indices = call.Input("indices", indices, {ACL_INT32, ACL_INT64});
  a.updates = call.Input("updates", updates, kTypes);
  Check(call, a);
  return call.Finish([a](Kernel& kernel) { Write(kernel, a); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnScatterNdUpdateV2, ascend_emulator::CustomSize);
EMULATOR_STANDARD_OP(aclnnScatterNdUpdate, ascend_emulator::StandardSize);
