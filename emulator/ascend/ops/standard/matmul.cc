// Products of BF16, FP16 and FP32 matrices with FP32 sums: aclnnMatmul, aclnnMm, aclnnMatmulWeightNz,
// aclnnFusedMatmul and aclnnTransposeBatchMatMul.
#include <string>
#include <string_view>

#include "export.h"
#include "matrix.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

// cubeMathType: 0 as they are, 1 FP32 may be HF32, 2 FP16, 3 HF32. True: HF32.
bool MathType(Call& call, const Operand& operand, int8_t type) {
  call.Expect(type >= 0 && type <= 3, kAclnnInvalid, "cubeMathType: {} is outside [0, 3]",
              static_cast<int>(type));
  call.Expect(type != 2 || operand.dtype == ACL_FLOAT16, kAclnnInvalid,
              "cubeMathType: 2 (USE_FP16) with {} in {}", NameOf(operand.dtype), operand.name);
  return operand.dtype == ACL_FLOAT && (type == 1 || type == 3);
}

struct Problem {
  Operand x;    // [.., k]
  Operand out;  // [.., n]
  Operand weight;
  MatrixLayout layout;
  bool hf32 = false;
};

// One product: all rows of x with one matrix.
void Compute(Kernel& kernel, const Problem& problem, const void* weight) {
  const Rows in(kernel, problem.x);
  const Rows out(kernel, problem.out);
  const int64_t k = problem.layout.k;
  std::vector<float> x(in.count() * k);
  for (int64_t row = 0; row < in.count(); ++row) {
    in.Read(row, x.data() + row * k);
  }
  const std::vector<float> product = Multiply(x, in.count(), problem.layout, weight, problem.hf32);
  for (int64_t row = 0; row < in.count(); ++row) {
    out.Write(row, product.data() + row * problem.layout.n);
  }
}

// The matrices of 3-D operands, one by one.
void ComputeBatch(Kernel& kernel, const Problem& problem) {
  if (problem.weight.count() == 0 || problem.out.count() == 0) {
    return;
  }
  const auto* weight = kernel.Data<uint8_t>(problem.weight);
  if (problem.weight.rank() == 2) {
    return Compute(kernel, problem, weight);
  }
  const int64_t step = problem.layout.batch_stride * SizeOf(problem.layout.dtype);
  for (int64_t batch = 0; batch < problem.weight.dim(0); ++batch) {
    Problem one = problem;
    one.x = Slice(problem.x, 0, batch, 1);
    one.out = Slice(problem.out, 0, batch, 1);
    Compute(kernel, one, weight + batch * step);
  }
}

// out = self · mat2 with the checks that all have in common.
aclnnStatus MatmulCall(Call& call, const aclTensor* self, const aclTensor* mat2,
                       const aclTensor* out, int8_t math_type, aclFormat format,
                       std::initializer_list<int64_t> self_ranks,
                       std::initializer_list<int64_t> mat2_ranks) {
  const Operand left = call.Input("self", self, {ACL_BF16, ACL_FLOAT16, ACL_FLOAT});
  const Operand right = call.Input("mat2", mat2, {left.dtype});
  const Operand result = call.Output("out", out, {left.dtype});
  call.Rank(left, self_ranks);
  call.Rank(right, mat2_ranks);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  FormatIs(call, left, ACL_FORMAT_ND);
  FormatIs(call, right, format);
  call.Expect(format == ACL_FORMAT_ND || left.dtype != ACL_FLOAT, kAclnnInvalid,
              "self: FLOAT where mat2 is FRACTAL_NZ");
  call.Expect(left.dim(-1) == right.dim(-2), kAclnnInvalid, "self: k is {} where mat2 has {}",
              left.dim(-1), right.dim(-2));
  std::vector<int64_t> shape = left.shape;
  shape.back() = right.dim(-1);
  call.Shape(result, shape);
  call.Expect(right.rank() == 2 || (left.rank() == 3 && left.dim(0) == right.dim(0)), kAclnnInvalid,
              "self: shape {} where mat2 has the batches of {}", ShapeText(left.shape),
              ShapeText(right.shape));
  Problem problem{left, result, right, LayoutOf(call, right, false),
                  MathType(call, left, math_type)};
  return call.Finish([=](Kernel& kernel) { ComputeBatch(kernel, problem); });
}

aclnnStatus MatmulSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                       int8_t math_type, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnMatmul", size, executor);
  return MatmulCall(call, self, mat2, out, math_type, ACL_FORMAT_ND, {2, 3}, {2, 3});
}

aclnnStatus MmSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t math_type,
                   uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnMm", size, executor);
  return MatmulCall(call, self, mat2, out, math_type, ACL_FORMAT_ND, {2}, {2});
}

aclnnStatus MatmulWeightNzSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                               int8_t math_type, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnMatmulWeightNz", size, executor);
  return MatmulCall(call, self, mat2, out, math_type, ACL_FORMAT_FRACTAL_NZ, {2}, {2});
}

// "16cast32", BF16 or FP16 in and FP32 out, is what A2 and A3 have of the fused types.
aclnnStatus FusedMatmulSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* bias,
                            const aclTensor* x3, const char* type, int8_t math_type,
                            const aclTensor* y, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnFusedMatmul", size, executor);
  const Operand left = call.Input("x1", x1, {ACL_BF16, ACL_FLOAT16});
  const Operand right = call.Input("x2", x2, {left.dtype});
  call.Absent(call.OptionalInput("bias", bias, kMovable), "16cast32 has none");
  call.Absent(call.OptionalInput("x3", x3, kMovable), "16cast32 has none");
  call.Expect(type != nullptr, kAclnnNull, "fusedOpType: null");
  const std::string_view fused = type != nullptr ? type : "";
  call.Expect(fused == "16cast32", kAclnnInvalid,
              "fusedOpType: \"{}\" where A2 and A3 have \"16cast32\"", fused);
  const Operand result = call.Output("y", y, {ACL_FLOAT});
  call.Rank(left, {2});
  call.Rank(right, {2});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  FormatIs(call, left, ACL_FORMAT_ND);
  FormatIs(call, right, ACL_FORMAT_ND);
  call.Expect(left.dim(1) == right.dim(0), kAclnnInvalid, "x1: k is {} where x2 has {}",
              left.dim(1), right.dim(0));
  call.Shape(result, {left.dim(0), right.dim(1)});
  MathType(call, left, math_type);
  const Problem problem{left, result, right, LayoutOf(call, right, false)};
  return call.Finish([=](Kernel& kernel) { ComputeBatch(kernel, problem); });
}

// x1 [b, m, k] or [m, b, k], x2 [b, k, n] or [b, n, k]; out [m, b, n], or [split, m, b·n/split].
aclnnStatus TransposeBatchMatMulSize(const aclTensor* x1, const aclTensor* x2,
                                     const aclTensor* bias, const aclTensor* scale,
                                     const aclIntArray* perm_x1, const aclIntArray* perm_x2,
                                     const aclIntArray* perm_y, int8_t math_type,
                                     int32_t batch_split, aclTensor* out, uint64_t* size,
                                     aclOpExecutor** executor) {
  using Order = std::vector<int64_t>;
  Call call("aclnnTransposeBatchMatMul", size, executor);
  Operand left = call.Input("x1", x1, {ACL_BF16, ACL_FLOAT16, ACL_FLOAT});
  const Operand right = call.Input("x2", x2, {left.dtype});
  call.Absent(call.OptionalInput("bias", bias, kMovable), "it is reserved");
  call.Absent(call.OptionalInput("scale", scale, kMovable), "it is for INT8 outputs");
  const Order order1 = call.Integers("permX1", perm_x1);
  const Order order2 = call.Integers("permX2", perm_x2);
  const Order order_y = call.Integers("permY", perm_y);
  const Operand result = call.Output("out", out, {left.dtype});
  call.Rank(left, {3});
  call.Rank(right, {3});
  call.Rank(result, {3});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const bool rows_first = order1 == Order{1, 0, 2};
  const bool transposed = order2 == Order{0, 2, 1};
  call.Expect(rows_first || order1 == Order{0, 1, 2}, kAclnnInvalid,
              "permX1: {} is neither [0,1,2] nor [1,0,2]", ShapeText(order1));
  call.Expect(transposed || order2 == Order{0, 1, 2}, kAclnnInvalid,
              "permX2: {} is neither [0,1,2] nor [0,2,1]", ShapeText(order2));
  call.Expect(order_y == Order{1, 0, 2}, kAclnnInvalid, "permY: {} is not [1,0,2]",
              ShapeText(order_y));
  FormatIs(call, left, ACL_FORMAT_ND);
  FormatIs(call, right, ACL_FORMAT_ND);
  if (rows_first) {
    left = Transposed(left, 0, 1);
  }
  const int64_t batches = left.dim(0);
  const int64_t rows = left.dim(1);
  const MatrixLayout layout = LayoutOf(call, right, transposed);
  call.Expect(right.dim(0) == batches, kAclnnInvalid, "x2: {} batches where x1 has {}",
              right.dim(0), batches);
  call.Expect(layout.k == left.dim(2), kAclnnInvalid, "x2: k is {} where x1 has {}", layout.k,
              left.dim(2));
  call.Expect(batches >= 1 && batches < 65536, kAclnnInvalid, "x1: {} batches, outside [1, 65536)",
              batches);
  call.Expect(layout.n >= 1 && layout.n < 65536, kAclnnInvalid, "x2: n is {}, outside [1, 65536)",
              layout.n);
  call.Expect(layout.k <= 65535, kAclnnInvalid, "x1: k is {}, more than 65535", layout.k);
  call.Expect(batch_split >= 1 && batches > 0 && batches % batch_split == 0, kAclnnInvalid,
              "batchSplitFactor: {} does not divide {} batches", batch_split, batches);
  const bool wide = rows_first && batches * layout.k > 65535;
  call.Expect(!wide || batch_split == 1, kAclnnInvalid,
              "batchSplitFactor: {} where rows of x1 have {} elements, more than 65535",
              batch_split, batches * layout.k);
  call.Expect(!transposed || (rows_first && batch_split == 1), kAclnnInvalid,
              "permX2: [0,2,1] with permX1 {} and batchSplitFactor {}", ShapeText(order1),
              batch_split);
  const bool hf32 = MathType(call, left, math_type);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  if (batch_split == 1) {
    call.Shape(result, {rows, batches, layout.n});
  } else {
    call.Shape(result, {batch_split, rows, batches * layout.n / batch_split});
  }
  return call.Finish([=](Kernel& kernel) {
    if (result.count() == 0) {
      return;
    }
    const auto* weight = kernel.Data<uint8_t>(right);
    const int64_t per_part = batches / batch_split;
    for (int64_t batch = 0; batch < batches; ++batch) {
      const int64_t column = batch % per_part * layout.n;
      const Operand part = batch_split == 1
                               ? Slice(result, 1, batch, 1)
                               : Slice(Slice(result, 0, batch / per_part, 1), 2, column, layout.n);
      Compute(kernel, {Slice(left, 0, batch, 1), part, right, layout, hf32},
              weight + batch * layout.batch_stride * SizeOf(layout.dtype));
    }
  });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnMatmul, MatmulSize);
EMULATOR_STANDARD_OP(aclnnMm, MmSize);
EMULATOR_STANDARD_OP(aclnnMatmulWeightNz, MatmulWeightNzSize);
EMULATOR_STANDARD_OP(aclnnFusedMatmul, FusedMatmulSize);
EMULATOR_STANDARD_OP(aclnnTransposeBatchMatMul, TransposeBatchMatMulSize);

}  // namespace ascend_emulator::standard
