// What the operators of a stream work with beside their operands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "backends/ascend/op_call.h"
#include "backends/ascend/runtime_stream.h"
#include "backends/ascend/step_buffers.h"
#include "device/ops.h"

namespace cachalot::ascend {

// Tensors of a few values that never change, made when they are first asked for: before any capture,
// as operators run once before they are recorded.
class Constants {
 public:
  Constants(std::shared_ptr<RuntimeDevice> device, RuntimeStream& stream)
      : device_(std::move(device)), stream_(stream) {}

  // BF16 [n] of ones.
  Tensor Ones(int64_t n);
  // BF16 [n, n], n a power of two: the Sylvester matrix divided by sqrt(n).
  Tensor Hadamard(int64_t n);

 private:
  enum class Kind { kOnes, kHadamard };
  Tensor Get(Kind kind, int64_t n);

  std::shared_ptr<RuntimeDevice> device_;
  RuntimeStream& stream_;
  std::map<std::pair<Kind, int64_t>, Buffer> made_;
};

struct OpOptions {
  // Compression by one operator of the vendor's where it takes the state as the cache keeps it;
  // else composed from plain operators.
  bool fused_compressor = true;
};

struct OpContext {
  RuntimeStream& stream;
  StepBuffers& step;
  Constants& constants;
  OpOptions options;

  const SymbolTable& symbols() const { return stream.symbols(); }
  bool custom() const { return stream.flavour() == Flavour::kCustom; }
  // Where there is none the stream has a fault and drops all calls: any address will do, so that views
  // can be made of it.
  Tensor Scratch(DType dtype, const Shape& shape) const {
    Tensor tensor = stream.Scratch(dtype, shape);
    if (tensor.data == nullptr) {
      tensor.data = &stream;
    }
    return tensor;
  }
};

}  // namespace cachalot::ascend
