#include "checkpoint/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
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

Digest Weights::Fingerprint() const {
  constexpr size_t kSamples = 4;
  constexpr size_t kSampleBytes = 64;
  std::vector<std::span<const std::byte>> parts;
  for (const SafetensorsFile& file : storage_->files) {
    parts.push_back(file.mapped().bytes().first(static_cast<size_t>(file.data_begin())));
    for (const SafetensorsEntry& entry : file.entries()) {
      const std::span<const std::byte> data = file.data(entry);
      const size_t bytes = std::min(kSampleBytes, data.size());
      for (size_t i = 0; i < kSamples; ++i) {
        parts.push_back(data.subspan((data.size() - bytes) * i / (kSamples - 1), bytes));
      }
    }
  }
  return DigestOf(parts);
}

namespace {

void TouchPages(std::span<const std::byte> bytes) {
  constexpr size_t kPage = 4096;
  for (size_t at = 0; at < bytes.size(); at += kPage) {
    static_cast<void>(*static_cast<const volatile std::byte*>(&bytes[at]));
  }
}

}  // namespace

Status Weights::BringIn(Residence residence, const ShareRows& share_rows,
                        const std::function<void(int64_t, int64_t)>& progress) {
  int64_t done = 0;
  for (SafetensorsFile& file : storage_->files) {
    std::optional<MappedFile::Copy> copy;
    if (residence == Residence::kCopied) {
      CACHALOT_ASSIGN_OR_RETURN(MappedFile::Copy empty, file.mapped().NewCopy());
      copy.emplace(std::move(empty));
      CACHALOT_RETURN_IF_ERROR(copy->Read(0, file.data_begin()));
    }
    for (const SafetensorsEntry& entry : file.entries()) {
      const int64_t rows = entry.shape.empty() ? 1 : std::max<int64_t>(entry.shape[0], 1);
      const int64_t row_bytes = (entry.end - entry.begin) / rows;
      std::mutex mutex;
      Status status;
      share_rows(rows, [&](int64_t begin, int64_t end) {
        if (!copy) {
          TouchPages(file.data(entry).subspan(static_cast<size_t>(begin * row_bytes),
                                              static_cast<size_t>((end - begin) * row_bytes)));
          return;
        }
        const int64_t at = file.data_begin() + entry.begin;
        Status part = copy->Read(at + begin * row_bytes, at + end * row_bytes);
        if (!part) {
          const std::lock_guard lock(mutex);
          status = std::move(part);
        }
      });
      CACHALOT_RETURN_IF_ERROR(status);
      done += entry.end - entry.begin;
      progress(done, storage_->file_bytes);
    }
    if (copy) {
      CACHALOT_RETURN_IF_ERROR(file.mapped().Adopt(*std::move(copy)));
    }
    done += file.data_begin();
    progress(done, storage_->file_bytes);
  }
  return {};
}

}  // namespace cachalot
