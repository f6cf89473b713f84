// How files store a tensor of each kind: dtypes, shapes, and the tensor of scales beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/tensor_table.h"

namespace cachalot {

// A tensor as a file has it.
struct StoredPart {
  DType dtype;
  Shape shape;

  int64_t bytes() const { return shape.num_elements() * SizeOf(dtype); }
};

struct StorageForm {
  MatrixFormat format = MatrixFormat::kF32;  // of a Matrix; has no meaning for a Tensor
  StoredPart values;
  std::optional<StoredPart> scales;
};

// The forms in which a checkpoint of this layout may store the tensor, each with another dtype of
// values; the first is the usual one.
std::vector<StorageForm> FormsOf(const TensorSpec& spec, const ModelConfig& config);

// Weights of a spec: its elements, but 0 for a table of expert ids.
int64_t ParametersOf(const TensorSpec& spec);

// "layers.0.attn.wq_a.weight" → "layers.0.attn.wq_a.scale".
std::string ScaleNameOf(const std::string& weight_name);

}  // namespace cachalot
