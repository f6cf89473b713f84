// aclnnSigmoid and aclnnArange.
#include <cmath>

#include "export.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

aclnnStatus SigmoidSize(const aclTensor* self, aclTensor* out, uint64_t* size,
                        aclOpExecutor** executor) {
  Call call("aclnnSigmoid", size, executor);
  const Operand input = call.Input("self", self, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  const Operand result = call.Output("out", out, {input.dtype});
  call.SameShape(input, result);
  return call.Finish([=](Kernel& kernel) {
    const Rows in(kernel, input);
    const Rows to(kernel, result);
    for (int64_t row = 0; row < in.count(); ++row) {
      std::vector<float> values = in.Read(row);
      for (float& value : values) {
        value = 1.0F / (1.0F + std::exp(-value));
      }
      to.Write(row, values.data());
    }
  });
}

aclnnStatus ArangeSize(const aclScalar* start, const aclScalar* end, const aclScalar* step,
                       aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnArange", size, executor);
  const double first = call.Number("start", start);
  const double last = call.Number("end", end);
  const double stride = call.Number("step", step);
  const Operand result =
      call.Output("out", out, {ACL_INT32, ACL_INT64, ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  call.Expect(stride != 0, kAclnnInvalid, "step: 0");
  call.Expect(stride > 0 ? first <= last : first >= last, kAclnnInvalid,
              "step: {} leads from start {} away from end {}", stride, first, last);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const auto count = static_cast<int64_t>(std::ceil((last - first) / stride));
  call.Shape(result, {count});
  return call.Finish([=](Kernel& kernel) {
    for (int64_t i = 0; i < count; ++i) {
      kernel.Store(result, i, static_cast<float>(first + static_cast<double>(i) * stride));
    }
  });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnSigmoid, SigmoidSize);
EMULATOR_STANDARD_OP(aclnnArange, ArangeSize);

}  // namespace ascend_emulator::standard
