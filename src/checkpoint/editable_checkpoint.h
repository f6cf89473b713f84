// For tests: a checkpoint's tensors in memory, to be changed and written again.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/named_shapes.h"
#include "checkpoint/shards.h"
#include "checkpoint/synth.h"
#include "io/safetensors.h"

namespace cachalot {

struct EditableTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

// The place of this run's folders, removed at its end.
class ScratchFolder {
 public:
  static const std::string& path() {
    static const ScratchFolder scratch;
    return scratch.path_;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

 private:
  ScratchFolder() : path_(testing::TempDir() + "cachalot_checkpoint." + std::to_string(getpid())) {}
  std::string path_;
};

// A fresh, empty folder; the name's earlier one goes.
inline std::string FreshFolder(const std::string& name) {
  const std::string folder = ScratchFolder::path() + "/" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// nano with DSpark stages in place of its MTP block.
inline ModelConfig NanoDspark(WeightLayout layout) {
  ModelConfig config = *NamedShape("nano", layout);
  config.has_mtp = false;
  config.dspark = DsparkConfig{3, 4, 2, {1, 3, 4}, 32};
  return config;
}

// A synth checkpoint of the configuration, written anew.
inline std::string SynthFolder(const std::string& name, const ModelConfig& config) {
  const std::string folder = FreshFolder(name);
  const Status status = WriteSynthCheckpoint(config, 1, folder, nullptr);
  EXPECT_TRUE(status) << status.error().message;
  return folder;
}

inline std::vector<EditableTensor> ReadTensors(const std::string& folder) {
  std::vector<EditableTensor> tensors;
  const auto files = OpenShards(folder);
  EXPECT_TRUE(files) << files.error().message;
  for (const auto& file : *files) {
    for (const auto& entry : file.entries()) {
      const auto data = file.data(entry);
      tensors.push_back({entry.name, std::string(entry.dtype), entry.shape,
                         std::string(reinterpret_cast<const char*>(data.data()), data.size())});
    }
  }
  return tensors;
}

inline EditableTensor& Find(std::vector<EditableTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const EditableTensor& t) { return t.name == name; });
  EXPECT_NE(found, tensors.end()) << name;
  return *found;
}

inline std::vector<SafetensorsEntry> EntriesOf(const std::vector<EditableTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  int64_t offset = 0;
  for (const auto& tensor : tensors) {
    const auto size = static_cast<int64_t>(tensor.bytes.size());
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, offset, offset + size});
    offset += size;
  }
  return entries;
}

// In the order given; the data begin `shift` bytes after a multiple of 8.
inline void WriteTensors(const std::string& path, const std::vector<EditableTensor>& tensors,
                         int shift = 0) {
  std::string header = FormatSafetensorsHeader(EntriesOf(tensors));
  header.append(static_cast<size_t>(shift), ' ');
  const uint64_t length = header.size() - sizeof(length);
  std::memcpy(header.data(), &length, sizeof(length));
  std::ofstream file(path, std::ios::binary);
  file << header;
  for (const auto& tensor : tensors) {
    file << tensor.bytes;
  }
  EXPECT_TRUE(file.good()) << path;
}

}  // namespace cachalot
