// A checkpoint folder made ready to run: what the commands that run a model share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "cache/state_layout.h"
#include "device/device.h"
#include "engine/runner.h"

namespace cachalot {

struct ModelFlags {
  std::string folder;
  int num_threads = 0;
  std::string isa;
  std::string device = "cpu";            // cpu, ascend, ascend:N or ascend:emulated
  std::string npu_ops = "auto";          // auto, custom or standard: which package's operators
  std::string npu_compressor = "fused";  // fused or composed
  std::string npu_schedules = "host";    // host or device
  std::string weights = "auto";          // auto, map or copy

  void AddTo(CLI::App& command);
  void AddWeightsTo(CLI::App& command);  // --weights alone
  void AddDeviceTo(CLI::App& command);   // --device and what belongs to it
};

// --state: where the compressors keep their state.
void AddStateFlag(CLI::App& command, StateKind& state);

struct LoadedModel {
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelRunner> runner;  // uses the device
};

Result<std::unique_ptr<Device>> OpenDevice(const ModelFlags& flags);

// Bytes that may be allocated without driving anything out: of the machine, and of the control group
// that this process is in.
int64_t AvailableMemory();

// `warm` brings the weights in, with a bar, so that the first token need not wait for the disk; files
// larger than memory are left to be read as they are used.
Result<Weights> LoadWeights(const ModelFlags& flags, const ModelConfig& config, Device& device,
                            bool warm);

// options.max_context 0 stands for the model's own.
Result<LoadedModel> LoadModel(const ModelFlags& flags, RunnerOptions options, bool warm);
Result<LoadedModel> LoadModel(std::unique_ptr<Device> device, const ModelFlags& flags,
                              RunnerOptions options, bool warm);

}  // namespace cachalot
