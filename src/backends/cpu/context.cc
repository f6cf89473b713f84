#include "backends/cpu/context.h"

#include <cstdlib>

#include "base/check.h"

namespace cachalot::cpu {

void Scratch::FreeMemory::operator()(void* data) const { std::free(data); }

void* Scratch::ReserveBytes(int64_t bytes) {
  if (bytes > bytes_) {
    constexpr int64_t kAlignment = 64;
    bytes_ = (bytes + bytes / 4 + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(std::aligned_alloc(kAlignment, static_cast<size_t>(bytes_)));
    CACHALOT_CHECK(data_ != nullptr, "no memory for {} bytes of scratch", bytes_);
  }
  return data_.get();
}

}  // namespace cachalot::cpu
