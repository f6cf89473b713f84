#include "cli/loaded_model.h"

#include <unistd.h>

#include <utility>

#include "backends/cpu/cpu_device.h"
#include "cli/progress.h"

namespace cachalot {
namespace {

int64_t PhysicalMemory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

void ModelFlags::AddTo(CLI::App& command) {
  command.add_option("-m,--model", folder, "checkpoint folder")->required();
  command.add_option("-t,--threads", num_threads, "threads (default: one for each core)")
      ->check(CLI::Range(1, 1024));
  command.add_option(
      "--isa", isa,
      "ref, avx2, avx512 or amx (default: the machine's best, at most $CACHALOT_MAX_ISA)");
}

Result<std::unique_ptr<Device>> OpenDevice(const ModelFlags& flags) {
  return cpu::NewCpuDevice({.num_threads = flags.num_threads, .isa = flags.isa});
}

Result<LoadedModel> LoadModel(const ModelFlags& flags, RunnerOptions options, bool warm) {
  CACHALOT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(flags));
  return LoadModel(std::move(device), flags.folder, options, warm);
}

Result<LoadedModel> LoadModel(std::unique_ptr<Device> device, const std::string& folder,
                              RunnerOptions options, bool warm) {
  LoadedModel loaded;
  loaded.device = std::move(device);
  CACHALOT_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(folder));
  CACHALOT_ASSIGN_OR_RETURN(Weights weights, Weights::Load(folder, config));
  if (warm && weights.file_bytes() < PhysicalMemory()) {
    ProgressBar bar("loading", "B");
    const std::unique_ptr<Stream> stream = loaded.device->NewStream();
    weights.Warm(
        [&](std::span<const std::byte> bytes, int64_t rows) { stream->WarmRows(bytes, rows); },
        [&](int64_t done, int64_t total) { bar.Show(done, total); });
  }
  if (options.max_context == 0) {
    options.max_context = config.max_position;
  }
  CACHALOT_ASSIGN_OR_RETURN(ModelRunner runner, ModelRunner::New(*loaded.device, std::move(config),
                                                                 std::move(weights), options));
  loaded.runner = std::make_unique<ModelRunner>(std::move(runner));
  return loaded;
}

}  // namespace cachalot
