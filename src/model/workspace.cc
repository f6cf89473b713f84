#include "model/workspace.h"

#include "base/check.h"

namespace cachalot {

Result<Workspace> Workspace::New(Device& device, int64_t bytes) {
  CACHALOT_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(bytes));
  return Workspace(std::move(buffer));
}

Tensor Workspace::Take(DType dtype, Shape shape) {
  constexpr int64_t kAlignment = 256;
  const Tensor tensor{static_cast<uint8_t*>(buffer_.data()) + used_, dtype, shape};
  const int64_t bytes = (tensor.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  CACHALOT_CHECK(used_ + bytes <= buffer_.bytes(),
                 "workspace of {} bytes: {} used, {} more asked for", buffer_.bytes(), used_,
                 bytes);
  used_ += bytes;
  return tensor;
}

}  // namespace cachalot
