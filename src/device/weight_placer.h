// WeightPlacer: puts the weights of a model where a device's kernels read them, in the layout that
// they read. A device whose kernels read the checkpoint's own memory has none.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "tensor/matrix.h"
#include "tensor/tensor.h"

namespace cachalot {

// The precision in which a device's kernels take the matrices of a model.
enum class WeightRecipe : uint8_t {
  kStored,  // that of the checkpoint
  kW8A8,    // kInt8Channel for the large ones, kBf16 for the others: checkpoint/convert_w8a8.h
};

// What the operators do with a weight, where its layout may depend on that.
enum class WeightUse : uint8_t {
  kValues,      // read value by value: scales, biases, hyper-connections, tables of experts
  kNorm,        // the weight of RmsNorm or of the Compressor's norm
  kTable,       // Embedding's: rows are picked by id
  kLinear,      // Linear's, with results in the activations' dtype
  kLinearF32,   // Linear's, with results in F32
  kCompressor,  // wkv and wgate of CompressorParams
  kGate,        // MoeGate's
};

// The views that it returns are what the operators of the device's streams are given: format, rows
// and cols are those of the source. Where their bytes lie, in which order and, for vectors, in
// which dtype is between the placer and these operators. The placer owns them and frees them all.
// A source is in host memory and is not looked at after the call. kResourceExhausted where the
// device has not the room, kInvalidArgument for formats and sizes that its kernels do not take.
class WeightPlacer {
 public:
  virtual ~WeightPlacer() = default;

  // kValues or kNorm; F32 or I64, of any shape.
  virtual Result<Tensor> Place(const Tensor& values, WeightUse use) = 0;
  // The others. groups: those of LinearParams.
  virtual Result<Matrix> Place(const Matrix& matrix, WeightUse use, int64_t groups) = 0;

  // The experts of one layer, all of one format and size, or the shared one alone: side by side, so
  // that a grouped product finds w1 and w3 as one tensor [count, 2 * I, d], in each expert w1 before
  // w3, and w2 as [count, d, I]; their scales likewise. expert(e) gives the source of one, good
  // until the next call; it is called once for each, in rising order.
  using ExpertSource = std::function<Result<ExpertWeights>(int64_t expert)>;
  virtual Result<std::vector<ExpertWeights>> PlaceExperts(int64_t count,
                                                          const ExpertSource& expert) = 0;
};

}  // namespace cachalot
