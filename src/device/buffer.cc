#include "device/buffer.h"

#include "base/check.h"

namespace cachalot {

Buffer::~Buffer() {
  if (owner_ != nullptr) {
    owner_->Free(data_, bytes_);
  }
}

Tensor Buffer::As(DType dtype, Shape shape) const {
  const Tensor tensor{data_, dtype, shape};
  CACHALOT_CHECK(tensor.bytes() <= bytes_, "{} of {} in a buffer of {} bytes", shape.ToString(),
                 NameOf(dtype), bytes_);
  return tensor;
}

void Buffer::Swap(Buffer& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
}

}  // namespace cachalot
