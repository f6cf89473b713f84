// Buffer: memory of a device with one owner, freed when the owner goes.
#pragma once

#include <cstdint>
#include <utility>

#include "tensor/tensor.h"

namespace cachalot {

class BufferOwner {
 public:
  virtual ~BufferOwner() = default;

 private:
  friend class Buffer;
  virtual void Free(void* data, int64_t bytes) = 0;
};

// The owner must outlive its buffers.
class Buffer {
 public:
  Buffer() = default;
  Buffer(BufferOwner* owner, void* data, int64_t bytes)
      : owner_(owner), data_(data), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { Swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~Buffer();

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // The first elements of the buffer as a tensor; it must hold them.
  Tensor As(DType dtype, Shape shape) const;

 private:
  void Swap(Buffer& other) noexcept;

  BufferOwner* owner_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace cachalot
