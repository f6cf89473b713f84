#include "cli/loaded_model.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "backends/ascend/ascend_device.h"
#include "backends/ascend/library_search.h"
#include "backends/cpu/cpu_device.h"
#include "cli/progress.h"

namespace cachalot {
namespace {

int64_t PhysicalMemory() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

// Copied where a tenth more than the files fits, else read into the page cache where that has room.
Status BringIn(Weights& weights, const std::string& where, Device& device) {
  using Residence = Weights::Residence;
  const bool fits = weights.file_bytes() / 10 * 11 < AvailableMemory();
  const Residence residence =
      where == "copy" || (where == "auto" && fits) ? Residence::kCopied : Residence::kMapped;
  if (residence == Residence::kMapped && weights.file_bytes() >= PhysicalMemory()) {
    return {};
  }
  ProgressBar bar("loading", "B");
  const std::unique_ptr<Stream> stream = device.NewStream();
  return weights.BringIn(
      residence, [&](int64_t rows, const auto& visit) { stream->ShareRows(rows, visit); },
      [&](int64_t done, int64_t total) { bar.Show(done, total); });
}

}  // namespace

namespace {

// "ascend", "ascend:N" or "ascend:emulated".
Result<std::unique_ptr<Device>> OpenAscend(const ModelFlags& flags) {
  const std::string& name = flags.device;
  constexpr std::string_view kPrefix = "ascend:";
  const std::string which = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : "0";
  ascend::AscendOptions options;
  CACHALOT_ASSIGN_OR_RETURN(options.libraries.flavour, ascend::ParseFlavour(flags.npu_ops));
  options.stream.ops.fused_compressor = flags.npu_compressor == "fused";
  options.stream.host_schedules = flags.npu_schedules == "host";
  if (which == "emulated") {
    CACHALOT_ASSIGN_OR_RETURN(options.libraries.path, ascend::FindEmulator());
  } else {
    const auto [end, error] =
        std::from_chars(which.data(), which.data() + which.size(), options.ordinal);
    if (error != std::errc() || end != which.data() + which.size() || options.ordinal < 0) {
      return MakeError(StatusCode::kInvalidArgument,
                       "device \"{}\", expected cpu, ascend, ascend:N or ascend:emulated", name);
    }
  }
  return ascend::NewAscendDevice(options);
}

}  // namespace

int64_t AvailableMemory() {
  int64_t available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) {
      available = std::atoll(line.c_str() + std::strlen("MemAvailable:")) * 1024;
    }
  }
  int64_t most = 0;
  int64_t current = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> most &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> current) {
    available = std::min(available, most - current);
  }
  return available;
}

void AddStateFlag(CLI::App& command, StateKind& state) {
  command
      .add_option_function<std::string>(
          "--state",
          [&state](const std::string& name) {
            state = name == "paged" ? StateKind::kPaged : StateKind::kRing;
          },
          "of compressors. ring: in rings, which go with pages of the window and with requests; "
          "paged: in pages of its own")
      ->check(CLI::IsMember({"ring", "paged"}))
      ->default_str("ring");
}

void ModelFlags::AddWeightsTo(CLI::App& command) {
  command
      .add_option(
          "--weights", weights,
          "map: use them in the page cache; copy: in memory of their own, in huge pages near "
          "the threads that read them; auto: copy where there is room")
      ->check(CLI::IsMember({"auto", "map", "copy"}))
      ->capture_default_str();
}

void ModelFlags::AddTo(CLI::App& command) {
  command.add_option("-m,--model", folder, "checkpoint folder")->required();
  command.add_option("-t,--threads", num_threads, "threads (default: one for each core)")
      ->check(CLI::Range(1, 1024));
  AddWeightsTo(command);
  command.add_option(
      "--isa", isa,
      "ref, avx2, avx512 or amx (default: the machine's best, at most $CACHALOT_MAX_ISA)");
  AddDeviceTo(command);
}

void ModelFlags::AddDeviceTo(CLI::App& command) {
  command
      .add_option("--device", device,
                  "cpu; ascend or ascend:N, the NPU of that number; ascend:emulated, the emulator "
                  "of one that was built with this program")
      ->capture_default_str();
  command
      .add_option("--npu-ops", npu_ops,
                  "which operators serve on an NPU where two packages have them: those of the "
                  "custom package or of the standard library; auto: custom where there is one")
      ->check(CLI::IsMember({"auto", "custom", "standard"}))
      ->capture_default_str();
  command
      .add_option("--npu-compressor", npu_compressor,
                  "fused: by the vendor's operator, where it takes the state as --state keeps it; "
                  "composed: from plain operators")
      ->check(CLI::IsMember({"fused", "composed"}))
      ->capture_default_str();
  command
      .add_option("--npu-schedules", npu_schedules,
                  "who shares attention out to the cores: the host, for the custom package's "
                  "operators, or the device; the tables are the same")
      ->check(CLI::IsMember({"host", "device"}))
      ->capture_default_str();
}

Result<std::unique_ptr<Device>> OpenDevice(const ModelFlags& flags) {
  if (flags.device != "cpu") {
    return OpenAscend(flags);
  }
  return cpu::NewCpuDevice({.num_threads = flags.num_threads, .isa = flags.isa});
}

Result<Weights> LoadWeights(const ModelFlags& flags, const ModelConfig& config, Device& device,
                            bool warm) {
  CACHALOT_ASSIGN_OR_RETURN(Weights weights, Weights::Load(flags.folder, config));
  // Weights that a device has a place for are read once, on their way there.
  if (warm && device.NewWeightPlacer() == nullptr) {
    CACHALOT_RETURN_IF_ERROR(BringIn(weights, flags.weights, device));
  }
  return weights;
}

Result<LoadedModel> LoadModel(const ModelFlags& flags, RunnerOptions options, bool warm) {
  CACHALOT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(flags));
  return LoadModel(std::move(device), flags, options, warm);
}

Result<LoadedModel> LoadModel(std::unique_ptr<Device> device, const ModelFlags& flags,
                              RunnerOptions options, bool warm) {
  LoadedModel loaded;
  loaded.device = std::move(device);
  CACHALOT_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(flags.folder));
  CACHALOT_ASSIGN_OR_RETURN(Weights weights, LoadWeights(flags, config, *loaded.device, warm));
  if (options.max_context == 0) {
    options.max_context = config.max_position;
  }
  CACHALOT_ASSIGN_OR_RETURN(ModelRunner runner, ModelRunner::New(*loaded.device, std::move(config),
                                                                 std::move(weights), options));
  loaded.runner = std::make_unique<ModelRunner>(std::move(runner));
  return loaded;
}

}  // namespace cachalot
