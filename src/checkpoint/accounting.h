// Strict accounting: every tensor that a model has is in the files once, as it should be, and
// nothing is left over. Looks at headers only, never at data.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/storage_form.h"
#include "checkpoint/tensor_table.h"
#include "io/safetensors.h"

namespace cachalot {

// A tensor of a file, or one expert's part of a tensor in which a file fuses all experts.
struct FoundTensor {
  std::string name;        // published
  std::string_view given;  // as the file spells it
  std::string_view file;
  std::string_view dtype;
  Shape shape;
  std::span<const std::byte> data;
};

// Views the entries of the files under their published names. Fused experts are taken apart; they
// must have the shapes [experts, 2 * inter, hidden] (gate rows first) and [experts, hidden, inter]
// and be bf16.
Result<std::vector<FoundTensor>> FindTensors(std::span<const SafetensorsFile> files,
                                             const ModelConfig& config);

struct MatchedTensor {
  const FoundTensor* values = nullptr;
  const FoundTensor* scales = nullptr;
  StorageForm form;
};

struct Accounts {
  std::vector<MatchedTensor> matches;  // one for each spec, in their order
  // Copies of embed and head that files keep under mtp.*, with what they must equal.
  std::vector<std::pair<const FoundTensor*, const FoundTensor*>> copies;
};

// Refuses a tensor that is there twice under two spellings, missing, of another dtype or shape,
// without its scale, or not of this model; the error names it and `folder` or its file.
Result<Accounts> MatchTensors(std::span<const TensorSpec> specs, std::span<const FoundTensor> found,
                              const ModelConfig& config, const std::string& folder);

}  // namespace cachalot
