#include "cli/engine_flags.h"

#include <algorithm>
#include <utility>

#include "engine/cache_plan.h"

namespace cachalot {
namespace {

// "2G", "512M", "100000": bytes, in powers of 1024. The bound also keeps out "-1", which AsSizeValue
// takes for a large number.
CLI::Option* AddBytes(CLI::App& command, const char* name, int64_t& bytes, const char* about) {
  return command.add_option(name, bytes, about)
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 50));
}

CLI::Validator AutoAsZero() {
  return CLI::Validator(
      [](std::string& text) {
        if (text == "auto") {
          text = "0";
        }
        return std::string();
      },
      "");
}

}  // namespace

void EngineFlags::AddTo(CLI::App& command) {
  command.add_option("--max-running", max_running, "requests that run at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("-c,--ctx-size,--context", context,
                  "tokens of a request, its answer included (default: 32768, or the model's)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--chunked-prefill-size", chunked_prefill_size,
                  "tokens of prompts in a step, rounded up to whole pages")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  // CLI11 applies the last of the transforms first.
  AddBytes(command, "--cache-bytes", cache_bytes,
           "of the cache, as 2G or 512M (default: auto, at most a quarter of the free memory)")
      ->transform(AutoAsZero());
  command.add_flag("!--no-prefix-cache", prefix_cache,
                   "let no request begin with what another has computed");
  AddStateFlag(command, state);
  AddBytes(command, "--host-cache-bytes", host_cache_bytes,
           "memory for pages that the cache has no room for (default: none; 1G with --disk-cache)");
  command.add_option("--disk-cache", disk_cache_folder,
                     "a folder for pages that memory has no room for; they outlive the program");
  AddBytes(command, "--disk-cache-bytes", disk_cache_bytes, "of these (default: 16G)");
  command.add_option("--graph", graph, "on: replay recorded steps of one token a request; or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->default_str("on");
}

void EngineFlags::AddQueueTo(CLI::App& command) {
  command.add_option("--max-queue", max_waiting, "requests that may wait; more are refused")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 29))
      ->capture_default_str();
}

Result<EngineOptions> EngineOptionsOf(const EngineFlags& flags, const ModelConfig& config) {
  const int64_t context = flags.context > 0
                              ? flags.context
                              : std::min(EngineFlags::kDefaultContext, config.max_position);
  CACHALOT_RETURN_IF_ERROR(CheckContext(config, context));
  const bool disk = !flags.disk_cache_folder.empty();
  if (!flags.prefix_cache && (disk || flags.host_cache_bytes > 0)) {
    return MakeError(StatusCode::kInvalidArgument,
                     "--no-prefix-cache leaves nothing to keep for {}, expected one of them alone",
                     disk ? "--disk-cache" : "--host-cache-bytes");
  }
  if (flags.state == StateKind::kPaged && flags.prefix_cache) {
    return MakeError(
        StatusCode::kUnsupported,
        "--state paged keeps no state of prefixes, expected --no-prefix-cache with it");
  }
  if (flags.disk_cache_bytes > 0 && !disk) {
    return MakeError(StatusCode::kInvalidArgument, "--disk-cache-bytes goes with --disk-cache");
  }
  EngineOptions options;
  options.max_running = flags.max_running;
  options.max_waiting = flags.max_waiting;
  options.max_context = context;
  options.chunked_prefill_size = flags.chunked_prefill_size;
  options.cache_bytes = flags.cache_bytes;
  options.prefix_cache = flags.prefix_cache;
  options.state = flags.state;
  options.host_cache_bytes = flags.host_cache_bytes;
  options.graph = flags.graph;
  if (disk) {
    options.disk_cache_folder = flags.disk_cache_folder;
    options.disk_cache_bytes =
        flags.disk_cache_bytes > 0 ? flags.disk_cache_bytes : EngineFlags::kDefaultDiskCacheBytes;
    options.host_cache_bytes =
        flags.host_cache_bytes > 0 ? flags.host_cache_bytes : EngineFlags::kHostCacheOfDisk;
  }
  return options;
}

Result<int64_t> DefaultCacheBytes(const Device& device, const ModelConfig& config,
                                  const EngineOptions& options, int64_t available) {
  EngineOptions sized = options;
  sized.cache_tokens = 1;
  CACHALOT_ASSIGN_OR_RETURN(const CachePlan least, PlanCache(device, config, sized));
  sized.cache_tokens = options.max_running * options.max_context;
  // More tokens than pools can ever have are no bound.
  const Result<CachePlan> most = PlanCache(device, config, sized);
  const int64_t quarter = available / 4;
  return std::max(least.bytes(), most ? std::min(quarter, most->bytes()) : quarter);
}

Result<std::unique_ptr<Engine>> OpenEngine(
    Device& device, const ModelFlags& model, const EngineFlags& flags,
    const std::function<void(const std::string&)>& on_trace) {
  CACHALOT_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(model.folder));
  CACHALOT_ASSIGN_OR_RETURN(EngineOptions options, EngineOptionsOf(flags, config));
  CACHALOT_ASSIGN_OR_RETURN(Weights weights, LoadWeights(model, config, device, /*warm=*/true));
  if (options.cache_bytes == 0) {
    // Weights are still to be placed in a device's own memory.
    const std::optional<int64_t> own = device.free_bytes();
    const int64_t available = own ? *own - weights.file_bytes() : AvailableMemory();
    CACHALOT_ASSIGN_OR_RETURN(options.cache_bytes,
                              DefaultCacheBytes(device, config, options, available));
  }
  options.on_trace = on_trace;
  return Engine::New(device, std::move(config), std::move(weights), options);
}

}  // namespace cachalot
