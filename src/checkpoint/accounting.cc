#include "checkpoint/accounting.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "checkpoint/names.h"
#include "io/json.h"

namespace cachalot {
namespace {

// Both spellings where they differ, fit for one line.
std::string Shown(const FoundTensor& tensor) {
  constexpr size_t kShown = 160;
  const std::string given = DumpJson(Json(std::string(tensor.given.substr(0, kShown))));
  return tensor.given == tensor.name
             ? given
             : fmt::format("{} ({})", given, DumpJson(Json(tensor.name.substr(0, kShown))));
}

Status CheckShape(const FoundTensor& tensor, const Shape& expected) {
  // [rows] and [rows, 1] hold the same scales.
  const bool column = expected.rank() == 2 && expected[1] == 1 && tensor.shape.rank() == 1 &&
                      tensor.shape[0] == expected[0];
  if (tensor.shape == expected || column) {
    return {};
  }
  return MakeError(StatusCode::kDataLoss, "{}: tensor {} has shape {}, expected {}", tensor.file,
                   Shown(tensor), tensor.shape.ToString(), expected.ToString());
}

// Takes the fused tensor apart: rows [begin, end) of each expert's matrix are `names` of it.
struct Slice {
  const char* weight;
  int64_t begin;
  int64_t end;
};

Status AddFused(const FoundTensor& fused, int64_t rows, int64_t cols, int64_t num_experts,
                std::initializer_list<Slice> slices, std::vector<FoundTensor>& found) {
  if (fused.dtype != NameOf(DType::kBf16)) {
    return MakeError(StatusCode::kDataLoss, "{}: tensor {} has dtype {}, expected BF16", fused.file,
                     Shown(fused), fused.dtype);
  }
  CACHALOT_RETURN_IF_ERROR(CheckShape(fused, {num_experts, rows, cols}));
  const std::string prefix = fused.name.substr(0, fused.name.rfind('.') + 1);
  const int64_t row_bytes = cols * SizeOf(DType::kBf16);
  for (int64_t e = 0; e < num_experts; ++e) {
    for (const Slice& slice : slices) {
      FoundTensor part = fused;
      part.name = fmt::format("{}{}.{}.weight", prefix, e, slice.weight);
      part.shape = {slice.end - slice.begin, cols};
      part.data = fused.data.subspan(static_cast<size_t>((e * rows + slice.begin) * row_bytes),
                                     static_cast<size_t>((slice.end - slice.begin) * row_bytes));
      found.push_back(std::move(part));
    }
  }
  return {};
}

class Matcher {
 public:
  Matcher(const ModelConfig& config, const std::string& folder)
      : config_(config), folder_(folder) {}

  Status Index(std::span<const FoundTensor> found) {
    by_name_.reserve(found.size());
    for (const auto& tensor : found) {
      const auto [place, is_new] = by_name_.emplace(tensor.name, Entry{&tensor, false});
      if (!is_new) {
        const FoundTensor& first = *place->second.tensor;
        return MakeError(StatusCode::kDataLoss, "{}: tensor {} is there twice, also as {} in {}",
                         tensor.file, Shown(tensor), Shown(first), first.file);
      }
    }
    return {};
  }

  Result<MatchedTensor> Match(const TensorSpec& spec) {
    CACHALOT_ASSIGN_OR_RETURN(const FoundTensor* values, Take(spec.name, ""));
    const std::vector<StorageForm> forms = FormsOf(spec, config_);
    const auto form = std::find_if(forms.begin(), forms.end(), [&](const StorageForm& f) {
      return values->dtype == NameOf(f.values.dtype);
    });
    if (form == forms.end()) {
      std::vector<const char*> dtypes;
      for (const auto& f : forms) {
        dtypes.push_back(NameOf(f.values.dtype));
      }
      return MakeError(StatusCode::kDataLoss, "{}: tensor {} has dtype {}, expected {}",
                       values->file, Shown(*values), values->dtype, fmt::join(dtypes, " or "));
    }
    CACHALOT_RETURN_IF_ERROR(CheckShape(*values, form->values.shape));
    MatchedTensor match{values, nullptr, *form};
    if (form->scales) {
      CACHALOT_ASSIGN_OR_RETURN(
          match.scales, Take(ScaleNameOf(spec.name), fmt::format(", the scale of {}", spec.name)));
      CACHALOT_RETURN_IF_ERROR(CheckScales(*match.scales, *form->scales));
    }
    return match;
  }

  // After all matches: what is left must be copies of embed and head.
  Status Close(std::span<const FoundTensor> found, Accounts& accounts) {
    for (const auto& tensor : found) {
      if (by_name_.at(tensor.name).taken) {
        continue;
      }
      const FoundTensor* original = OriginalOf(tensor.name);
      if (original == nullptr) {
        return MakeError(StatusCode::kDataLoss,
                         "{}: tensor {} is unexpected, it has no place in this model", tensor.file,
                         Shown(tensor));
      }
      if (tensor.dtype != original->dtype || !(tensor.shape == original->shape)) {
        return MakeError(StatusCode::kDataLoss,
                         "{}: tensor {} is {} {}, expected a copy of {}, {} {}", tensor.file,
                         Shown(tensor), tensor.dtype, tensor.shape.ToString(), original->given,
                         original->dtype, original->shape.ToString());
      }
      accounts.copies.emplace_back(&tensor, original);
    }
    return {};
  }

 private:
  struct Entry {
    const FoundTensor* tensor;
    bool taken;
  };

  Result<const FoundTensor*> Take(const std::string& name, const std::string& role) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      return MakeError(StatusCode::kDataLoss, "{}: tensor {}{} is missing", folder_, name, role);
    }
    found->second.taken = true;
    return found->second.tensor;
  }

  Status CheckScales(const FoundTensor& scales, const StoredPart& expected) const {
    // ue8m0 also travels as U8, for readers that do not know it; int8 scales also as bf16.
    const bool ue8m0 = expected.dtype == DType::kF8E8M0;
    const DType other = ue8m0 ? DType::kU8 : DType::kBf16;
    if (scales.dtype != NameOf(expected.dtype) && scales.dtype != NameOf(other)) {
      return MakeError(StatusCode::kDataLoss, "{}: tensor {} has dtype {}, expected {} or {}",
                       scales.file, Shown(scales), scales.dtype, NameOf(expected.dtype),
                       NameOf(other));
    }
    return CheckShape(scales, expected.shape);
  }

  const FoundTensor* OriginalOf(const std::string& name) const {
    const int64_t stages = config_.dspark ? config_.dspark->num_stages : (config_.has_mtp ? 1 : 0);
    for (int64_t i = 0; i < stages; ++i) {
      const std::string prefix = fmt::format("mtp.{}.", i);
      if (name == prefix + "embed.weight" || name == prefix + "emb.tok_emb.weight") {
        return by_name_.at("embed.weight").tensor;
      }
      if (name == prefix + "head.weight") {
        return by_name_.at("head.weight").tensor;
      }
    }
    return nullptr;
  }

  const ModelConfig& config_;
  const std::string& folder_;
  std::unordered_map<std::string_view, Entry> by_name_;
};

}  // namespace

Result<std::vector<FoundTensor>> FindTensors(std::span<const SafetensorsFile> files,
                                             const ModelConfig& config) {
  const int64_t d = config.hidden_size;
  const int64_t inter = config.expert_inter_size;
  std::vector<FoundTensor> found;
  for (const auto& file : files) {
    for (const auto& entry : file.entries()) {
      FoundTensor tensor{CanonicalName(entry.name),
                         entry.name,
                         file.path(),
                         entry.dtype,
                         Shape(std::span<const int64_t>(entry.shape)),
                         file.data(entry)};
      if (tensor.name.ends_with(".experts.gate_up_proj")) {
        CACHALOT_RETURN_IF_ERROR(AddFused(tensor, 2 * inter, d, config.num_experts,
                                          {{"w1", 0, inter}, {"w3", inter, 2 * inter}}, found));
      } else if (tensor.name.ends_with(".experts.down_proj")) {
        CACHALOT_RETURN_IF_ERROR(
            AddFused(tensor, d, inter, config.num_experts, {{"w2", 0, d}}, found));
      } else {
        found.push_back(std::move(tensor));
      }
    }
  }
  return found;
}

Result<Accounts> MatchTensors(std::span<const TensorSpec> specs, std::span<const FoundTensor> found,
                              const ModelConfig& config, const std::string& folder) {
  Matcher matcher(config, folder);
  CACHALOT_RETURN_IF_ERROR(matcher.Index(found));
  Accounts accounts;
  accounts.matches.reserve(specs.size());
  for (const auto& spec : specs) {
    CACHALOT_ASSIGN_OR_RETURN(MatchedTensor match, matcher.Match(spec));
    accounts.matches.push_back(match);
  }
  CACHALOT_RETURN_IF_ERROR(matcher.Close(found, accounts));
  return accounts;
}

}  // namespace cachalot
