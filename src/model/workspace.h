// Workspace: the activations of one step, taken in the order of the layers and given back scope by
// scope.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/device.h"

namespace cachalot {

class Workspace {
 public:
  static Result<Workspace> New(Device& device, int64_t bytes);

  // Uninitialised; lives until the innermost Scope that encloses the call ends.
  Tensor Take(DType dtype, Shape shape);

  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), mark_(workspace.used_) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { workspace_.used_ = mark_; }

   private:
    Workspace& workspace_;
    int64_t mark_;
  };

  int64_t capacity() const { return buffer_.bytes(); }

 private:
  explicit Workspace(Buffer buffer) : buffer_(std::move(buffer)) {}

  Buffer buffer_;
  int64_t used_ = 0;
};

}  // namespace cachalot
