// The tensors that a model of a given configuration has: name, shape, kind, and their place in
// ModelTensors. The one list that loading, writing and counting go by.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/weights.h"

namespace cachalot {

enum class TensorKind : uint8_t {
  kLinear,       // a projection, quantised as the layout says
  kLinearKept,   // a projection that W8A8 files leave in bf16
  kExpert,       // a projection of a routed expert
  kMatrix,       // never quantised: bf16, or f32
  kNorm,         // a vector, bf16 or f32, in memory F32
  kFloat,        // F32
  kTokenExperts  // a table of expert ids, I64 or I32, in memory I64
};

enum class Component : uint8_t {
  kAttention,
  kCompressors,
  kIndexers,
  kHyperConnections,
  kGates,
  kHashTables,
  kSharedExperts,
  kRoutedExperts,
  kEmbed,
  kHead,
  kNorms,
  kMtp,
  kDspark
};
inline constexpr int kNumComponents = 13;
const char* NameOf(Component component);

struct TensorSpec {
  std::string name;  // published: "layers.0.attn.wq_a.weight"
  TensorKind kind;
  Component component;
  Shape shape;  // of the values that it stands for: [rows, cols] of a Matrix, however stored
  std::variant<Matrix*, Tensor*> slot;
};

// Gives `tensors` its layers, experts and optional parts, as far as it lacks them, and lists every
// tensor. Slots point into `tensors`, which must stay where it is.
std::vector<TensorSpec> ListTensors(const ModelConfig& config, ModelTensors& tensors);

}  // namespace cachalot
