// aclnnEmbedding, aclnnIndexSelect, aclnnCat: rows moved byte for byte.
#include "export.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

// False and a fault where an index is outside [0, limit).
bool InRange(Kernel& kernel, const Operand& operand, const std::vector<int64_t>& indices,
             int64_t limit) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= limit) {
      kernel.Fault(kVectorCoreException, "{}[{}] is {}, outside [0, {})", operand.name, i,
                   indices[i], limit);
      return false;
    }
  }
  return true;
}

aclnnStatus EmbeddingSize(const aclTensor* weight, const aclTensor* indices, const aclTensor* out,
                          uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnEmbedding", size, executor);
  const Operand table = call.Input("weight", weight, kMovable);
  const Operand index = call.Input("indices", indices, {ACL_INT32, ACL_INT64});
  const Operand result = call.Output("out", out, {table.dtype});
  call.Rank(table, {2});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  std::vector<int64_t> shape = index.shape;
  shape.push_back(table.dim(1));
  call.Shape(result, shape);
  return call.Finish([=](Kernel& kernel) {
    const std::vector<int64_t> rows = kernel.LoadIntegers(index);
    if (!InRange(kernel, index, rows, table.dim(0))) {
      return;
    }
    const Rows from(kernel, table);
    const Rows to(kernel, result);
    for (size_t i = 0; i < rows.size(); ++i) {
      to.Copy(static_cast<int64_t>(i), from, rows[i]);
    }
  });
}

aclnnStatus IndexSelectSize(const aclTensor* self, int64_t dim, const aclTensor* index,
                            aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnIndexSelect", size, executor);
  const Operand source = call.Input("self", self, kMovable);
  const Operand chosen = call.Input("index", index, {ACL_INT32, ACL_INT64});
  const Operand result = call.Output("out", out, {source.dtype});
  call.Rank(chosen, {1});
  const int64_t axis = Axis(call, source, dim);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  std::vector<int64_t> shape = source.shape;
  shape[axis] = chosen.dim(0);
  call.Shape(result, shape);
  return call.Finish([=](Kernel& kernel) {
    const std::vector<int64_t> indices = kernel.LoadIntegers(chosen);
    if (!InRange(kernel, chosen, indices, source.shape[axis])) {
      return;
    }
    for (size_t i = 0; i < indices.size(); ++i) {
      const Rows from(kernel, Slice(source, axis, indices[i], 1));
      const Rows to(kernel, Slice(result, axis, static_cast<int64_t>(i), 1));
      for (int64_t row = 0; row < from.count(); ++row) {
        to.Copy(row, from, row);
      }
    }
  });
}

aclnnStatus CatSize(const aclTensorList* tensors, int64_t dim, aclTensor* out, uint64_t* size,
                    aclOpExecutor** executor) {
  Call call("aclnnCat", size, executor);
  const std::vector<Operand> parts = call.Inputs("tensors", tensors, kMovable);
  call.Expect(!parts.empty(), kAclnnInvalid, "tensors: an empty list");
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const Operand result = call.Output("out", out, {parts[0].dtype});
  const int64_t axis = Axis(call, parts[0], dim);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  std::vector<int64_t> shape = parts[0].shape;
  shape[axis] = 0;
  for (const Operand& part : parts) {
    std::vector<int64_t> expected = parts[0].shape;
    if (part.rank() == parts[0].rank()) {
      expected[axis] = part.shape[axis];
    }
    ShapeOr(call, kAclnnInvalid, part, expected);
    call.Expect(part.dtype == parts[0].dtype, kAclnnInvalid, "{}: {} after {} of {}", part.name,
                NameOf(part.dtype), NameOf(parts[0].dtype), parts[0].name);
    if (!call.ok()) {
      return call.Finish(nullptr);
    }
    shape[axis] += part.shape[axis];
  }
  call.Shape(result, shape);
  return call.Finish([=](Kernel& kernel) {
    int64_t begin = 0;
    for (const Operand& part : parts) {
      const Rows from(kernel, part);
      const Rows to(kernel, Slice(result, axis, begin, part.shape[axis]));
      for (int64_t row = 0; row < from.count(); ++row) {
        to.Copy(row, from, row);
      }
      begin += part.shape[axis];
    }
  });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnEmbedding, EmbeddingSize);
EMULATOR_STANDARD_OP(aclnnIndexSelect, IndexSelectSize);
EMULATOR_STANDARD_OP(aclnnCat, CatSize);

}  // namespace ascend_emulator::standard
