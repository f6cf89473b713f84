#include "checkpoint/synth.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/random_values.h"
#include "checkpoint/storage_form.h"
#include "checkpoint/tensor_table.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace cachalot {
namespace {

constexpr int64_t kChunkBytes = 8 << 20;

// Standard deviations of the codes themselves; their scales make up the rest. fp4: of all 16 codes
// equally likely. fp8 and int8: low enough that no value of NormalCodes saturates.
constexpr double kFp4Deviation = 2.9262;
constexpr double kFp8Deviation = 60;
constexpr double kInt8Deviation = 36;

// One tensor to write.
struct Part {
  std::string name;
  StoredPart stored;
  const TensorSpec* spec;
  MatrixFormat format;
  bool is_scale;
  uint64_t key;
};

double DeviationOf(const TensorSpec& spec) {
  const auto ends = [&](const char* suffix) { return spec.name.ends_with(suffix); };
  if (spec.name == "embed.weight" || ends("markov_w1.weight")) {
    return 1;
  }
  if (spec.kind == TensorKind::kNorm) {
    return 0.1;
  }
  if (ends("hc_attn_scale") || ends("hc_ffn_scale") || ends("hc_head_scale")) {
    return 0.14;
  }
  if (spec.shape.rank() == 1 || ends("ape")) {
    return 0.5;
  }
  const double gain = ends("wo_b.weight") || ends("w2.weight") ? 0.3 : 1;
  return gain / std::sqrt(static_cast<double>(spec.shape[1]));
}

double MeanOf(const TensorSpec& spec) {
  const bool hc_scale = spec.kind == TensorKind::kFloat && spec.name.ends_with("_scale");
  return spec.kind == TensorKind::kNorm || hc_scale ? 1 : 0;
}

// Elements [first, ...) of the part.
void FillPart(const Part& part, const ModelConfig& config, int64_t first,
              std::span<std::byte> bytes) {
  const TensorSpec& spec = *part.spec;
  const double deviation = DeviationOf(spec);
  if (spec.kind == TensorKind::kTokenExperts) {
    const std::span ids(reinterpret_cast<int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t));
    return FillDistinctIds(part.key, first / spec.shape[1], spec.shape[1], config.num_experts, ids);
  }
  switch (part.format) {
    case MatrixFormat::kFp4Block:
      return part.is_scale ? FillRandomScales(part.key, first, deviation / kFp4Deviation, bytes)
                           : FillRandomBytes(part.key, first, bytes);
    case MatrixFormat::kFp8Block:
      return part.is_scale
                 ? FillRandomScales(part.key, first, deviation / kFp8Deviation, bytes)
                 : NormalCodes(DType::kF8E4M3, 0, kFp8Deviation).Fill(part.key, first, bytes);
    case MatrixFormat::kInt8Channel: {
      const double scale = deviation / kInt8Deviation;
      return part.is_scale
                 ? NormalCodes(DType::kF32, scale, 0.1 * scale).Fill(part.key, first, bytes)
                 : NormalCodes(DType::kI8, 0, kInt8Deviation).Fill(part.key, first, bytes);
    }
    default:
      return NormalCodes(part.stored.dtype, MeanOf(spec), deviation).Fill(part.key, first, bytes);
  }
}

std::vector<Part> ListParts(const std::vector<TensorSpec>& specs, const ModelConfig& config,
                            uint64_t seed) {
  std::vector<Part> parts;
  const auto add = [&](const std::string& name, const StoredPart& stored, const TensorSpec& spec,
                       MatrixFormat format, bool is_scale) {
    parts.push_back({name, stored, &spec, format, is_scale, RandomBits(seed, parts.size())});
  };
  for (const auto& spec : specs) {
    const StorageForm form = FormsOf(spec, config).front();
    add(spec.name, form.values, spec, form.format, false);
    if (form.scales) {
      add(ScaleNameOf(spec.name), *form.scales, spec, form.format, true);
    }
  }
  return parts;
}

// Consecutive parts up to the size of a shard, wide dtypes first so that every tensor is aligned.
std::vector<std::vector<Part>> SplitIntoShards(std::vector<Part> parts, int64_t max_shard_bytes) {
  std::vector<std::vector<Part>> shards(1);
  int64_t bytes = 0;
  for (auto& part : parts) {
    if (bytes + part.stored.bytes() > max_shard_bytes && !shards.back().empty()) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += part.stored.bytes();
    shards.back().push_back(std::move(part));
  }
  for (auto& shard : shards) {
    std::stable_sort(shard.begin(), shard.end(), [](const Part& a, const Part& b) {
      return SizeOf(a.stored.dtype) > SizeOf(b.stored.dtype);
    });
  }
  return shards;
}

std::string HeaderOf(const std::vector<Part>& shard) {
  std::vector<SafetensorsEntry> entries;
  int64_t offset = 0;
  for (const auto& part : shard) {
    SafetensorsEntry entry{part.name, NameOf(part.stored.dtype), {}, offset, 0};
    for (int axis = 0; axis < part.stored.shape.rank(); ++axis) {
      entry.shape.push_back(part.stored.shape[axis]);
    }
    offset += part.stored.bytes();
    entry.end = offset;
    entries.push_back(std::move(entry));
  }
  return FormatSafetensorsHeader(entries);
}

class Writer {
 public:
  Writer(const ModelConfig& config, std::string folder, const SynthProgress& progress)
      : config_(config), folder_(std::move(folder)), progress_(progress), chunk_(kChunkBytes) {}

  Status WriteAll(const std::vector<std::vector<Part>>& shards) {
    Json index = {{"metadata", Json::object()}, {"weight_map", Json::object()}};
    for (const auto& shard : shards) {
      for (const auto& part : shard) {
        total_ += part.stored.bytes();
      }
    }
    CACHALOT_RETURN_IF_ERROR(CheckSpace());
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shards.size() == 1 ? "model.safetensors"
                                                  : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                                i + 1, shards.size());
      CACHALOT_RETURN_IF_ERROR(WriteShard(name, shards[i]));
      for (const auto& part : shards[i]) {
        index["weight_map"][part.name] = name;
      }
    }
    if (shards.size() > 1) {
      index["metadata"]["total_size"] = total_;
      CACHALOT_RETURN_IF_ERROR(WriteText("model.safetensors.index.json", DumpJson(index, 1)));
    }
    return WriteText("config.json", FormatModelConfig(config_));
  }

  void RemoveWritten() const {
    for (const auto& path : written_) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  }

 private:
  Status CheckSpace() const {
    std::error_code error;
    const auto space = std::filesystem::space(folder_, error);
    if (!error && space.available < static_cast<uintmax_t>(total_)) {
      return MakeError(StatusCode::kResourceExhausted,
                       "{}: {} bytes free on the disk, the checkpoint needs {}", folder_,
                       space.available, total_);
    }
    return {};
  }

  Result<OutputFile> Create(const std::string& name) {
    written_.push_back(folder_ + "/" + name);
    return OutputFile::Create(written_.back());
  }

  Status WriteText(const std::string& name, const std::string& text) {
    CACHALOT_ASSIGN_OR_RETURN(OutputFile file, Create(name));
    CACHALOT_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(text.data(), text.size()))));
    return file.Close();
  }

  Status WriteShard(const std::string& name, const std::vector<Part>& shard) {
    CACHALOT_ASSIGN_OR_RETURN(OutputFile file, Create(name));
    const std::string header = HeaderOf(shard);
    CACHALOT_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(header.data(), header.size()))));
    for (const auto& part : shard) {
      CACHALOT_RETURN_IF_ERROR(WritePart(part, file));
    }
    return file.Close();
  }

  Status WritePart(const Part& part, OutputFile& file) {
    // Chunks of whole rows of ids, and of a multiple of 8 elements otherwise.
    const int64_t element = SizeOf(part.stored.dtype);
    const int64_t unit =
        part.spec->kind == TensorKind::kTokenExperts ? element * part.stored.shape[1] : 8 * element;
    const int64_t step = kChunkBytes / unit * unit;
    for (int64_t begin = 0; begin < part.stored.bytes(); begin += step) {
      const auto bytes =
          std::span(chunk_).first(static_cast<size_t>(std::min(step, part.stored.bytes() - begin)));
      FillPart(part, config_, begin / element, bytes);
      CACHALOT_RETURN_IF_ERROR(file.Write(bytes));
      done_ += static_cast<int64_t>(bytes.size());
      if (progress_) {
        progress_(done_, total_);
      }
    }
    return {};
  }

  const ModelConfig& config_;
  std::string folder_;
  const SynthProgress& progress_;
  std::vector<std::byte> chunk_;
  std::vector<std::string> written_;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

// Makes the folder unless it is there and empty.
Status PrepareFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return MakeError(StatusCode::kIoError, "{}: cannot create the folder: {}", folder,
                     error.message());
  }
  const bool empty = std::filesystem::is_empty(folder, error);
  if (error || !empty) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {}, expected an empty folder", folder,
                     error ? error.message() : "there are files in it");
  }
  return {};
}

}  // namespace

Status WriteSynthCheckpoint(const ModelConfig& config, uint64_t seed, const std::string& folder,
                            const SynthProgress& progress, int64_t max_shard_bytes) {
  CACHALOT_RETURN_IF_ERROR(PrepareFolder(folder));
  ModelTensors tensors;
  const std::vector<TensorSpec> specs = ListTensors(config, tensors);
  Writer writer(config, folder, progress);
  Status status = writer.WriteAll(SplitIntoShards(ListParts(specs, config, seed), max_shard_bytes));
  if (!status) {
    writer.RemoveWritten();
  }
  return status;
}

}  // namespace cachalot
