#include "checkpoint/weights.h"

#include <array>
#include <cstring>
#include <utility>

#include "checkpoint/accounting.h"
#include "checkpoint/materialise.h"
#include "checkpoint/shards.h"
#include "checkpoint/tensor_table.h"

namespace cachalot {

struct Weights::Storage {
  std::vector<SafetensorsFile> files;
  CopyArena copies;
  std::vector<ComponentSize> components;
  int64_t file_bytes = 0;
};

namespace {

std::vector<ComponentSize> Count(const std::vector<TensorSpec>& specs, const Accounts& accounts) {
  std::array<ComponentSize, kNumComponents> sizes = {};
  for (size_t i = 0; i < specs.size(); ++i) {
    const StorageForm& form = accounts.matches[i].form;
    const FoundTensor* scales = accounts.matches[i].scales;
    ComponentSize& size = sizes[static_cast<size_t>(specs[i].component)];
    size.component = NameOf(specs[i].component);
    size.parameters += ParametersOf(specs[i]);
    size.bytes +=
        form.values.bytes() + (scales == nullptr ? 0 : static_cast<int64_t>(scales->data.size()));
  }
  std::vector<ComponentSize> present;
  for (auto& size : sizes) {
    if (!size.component.empty()) {
      present.push_back(std::move(size));
    }
  }
  return present;
}

Status CheckCopies(const Accounts& accounts) {
  for (const auto& [copy, original] : accounts.copies) {
    if (std::memcmp(copy->data.data(), original->data.data(), original->data.size()) != 0) {
      return MakeError(StatusCode::kUnsupported, "{}: tensor {} differs from {}, expected a copy",
                       copy->file, copy->given, original->given);
    }
  }
  return {};
}

}  // namespace

Weights::Weights(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
Weights::Weights(Weights&&) noexcept = default;
Weights& Weights::operator=(Weights&&) noexcept = default;
Weights::~Weights() = default;

Result<Weights> Weights::Load(const std::string& folder, const ModelConfig& config) {
  Weights weights(std::make_unique<Storage>());
  Storage& storage = *weights.storage_;
  CACHALOT_ASSIGN_OR_RETURN(storage.files, OpenShards(folder));
  for (const auto& file : storage.files) {
    storage.file_bytes += file.size();
  }
  const std::vector<TensorSpec> specs = ListTensors(config, weights);
  CACHALOT_ASSIGN_OR_RETURN(const auto found, FindTensors(storage.files, config));
  CACHALOT_ASSIGN_OR_RETURN(const Accounts accounts, MatchTensors(specs, found, config, folder));
  CACHALOT_RETURN_IF_ERROR(CheckCopies(accounts));
  for (size_t i = 0; i < specs.size(); ++i) {
    CACHALOT_RETURN_IF_ERROR(Materialise(specs[i], accounts.matches[i], config, storage.copies));
  }
  storage.components = Count(specs, accounts);
  return weights;
}

const std::vector<ComponentSize>& Weights::components() const { return storage_->components; }
int64_t Weights::file_bytes() const { return storage_->file_bytes; }

void Weights::Warm(const std::function<void(std::span<const std::byte> bytes, int64_t rows)>& warm,
                   const std::function<void(int64_t, int64_t)>& progress) const {
  int64_t total = 0;
  for (const SafetensorsFile& file : storage_->files) {
    for (const SafetensorsEntry& entry : file.entries()) {
      total += entry.end - entry.begin;
    }
  }
  int64_t done = 0;
  for (const SafetensorsFile& file : storage_->files) {
    for (const SafetensorsEntry& entry : file.entries()) {
      const std::span<const std::byte> bytes = file.data(entry);
      warm(bytes, entry.shape.empty() ? 1 : entry.shape[0]);
      done += static_cast<int64_t>(bytes.size());
      progress(done, total);
    }
  }
}

}  // namespace cachalot
