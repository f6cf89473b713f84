// aclnnDynamicQuant: INT8 per row. The INT4 outputs are left out.
#include "export.h"
#include "quantise.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

aclnnStatus DynamicQuantSize(const aclTensor* x, const aclTensor* smooth, const aclTensor* y,
                             const aclTensor* scale, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnDynamicQuant", size, executor);
  const Operand input = call.Input("x", x, {ACL_BF16, ACL_FLOAT16});
  const Operand factor = call.OptionalInput("smoothScales", smooth, {input.dtype});
  const Operand output = call.Output("yOut", y, {ACL_INT8});
  const Operand scales = call.Output("scaleOut", scale, {ACL_FLOAT});
  call.Rank(input, {2, 3, 4, 5, 6, 7, 8});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  if (!factor.absent()) {
    call.Shape(factor, {input.dim(-1)});
  }
  call.SameShape(input, output);
  call.Shape(scales, std::vector<int64_t>(input.shape.begin(), input.shape.end() - 1));
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, input);
    const Rows out(kernel, output);
    const std::vector<float> factors =
        factor.absent() ? std::vector<float>(in.width(), 1.0F) : kernel.LoadAll(factor);
    for (int64_t row = 0; row < in.count(); ++row) {
      std::vector<float> values = in.Read(row);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] *= factors[i];
      }
      kernel.Store(scales, row, QuantiseRow(values));
      out.Write(row, values.data());
    }
  });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnDynamicQuant, DynamicQuantSize);

}  // namespace ascend_emulator::standard
