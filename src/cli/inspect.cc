// `cachalot inspect`: what a checkpoint is and what it costs to run.
#include <cstdio>
#include <map>

#include "checkpoint/footprint.h"
#include "checkpoint/weights.h"
#include "cli/commands.h"
#include "io/json.h"

namespace cachalot {
namespace {

struct InspectFlags {
  std::string folder;
  int64_t context = 32768;
  int64_t requests = 1;
  bool json = false;
};

const char* NameOf(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kNative:
      return "native";
    case WeightLayout::kBf16:
      return "bf16";
    case WeightLayout::kW8A8:
      return "w8a8";
  }
  return "?";
}

OrderedJson Describe(const InspectFlags& flags, const ModelConfig& config,
                     const std::vector<ComponentSize>& components) {
  OrderedJson config_json = {
      {"layout", NameOf(config.layout)},
      {"layers", config.num_layers},
      {"hash_layers", config.num_hash_layers},
      {"compress_ratios", config.compress_ratios},
      {"hidden_size", config.hidden_size},
      {"heads", config.num_heads},
      {"head_dim", config.head_dim},
      {"experts", config.num_experts},
      {"experts_per_token", config.experts_per_token},
      {"vocab_size", config.vocab_size},
      {"max_context", config.max_position},
      {"mtp", config.has_mtp},
      {"dspark_stages", config.dspark ? config.dspark->num_stages : 0},
  };
  OrderedJson parts = OrderedJson::array();
  for (const ComponentSize& component : components) {
    parts.push_back({{"component", component.component},
                     {"parameters", component.parameters},
                     {"bytes", component.bytes}});
  }
  const WeightTotals totals = TotalOf(components);
  const CacheFootprint cache = CountCache(config);
  const int64_t request_bytes = CountRequestBytes(config, flags.context);
  return {
      {"model", flags.folder},
      {"config", config_json},
      {"components", parts},
      {"parameters", totals.parameters},
      {"active_parameters", CountActiveParameters(config)},
      {"weight_bytes", totals.bytes},
      {"cache",
       {{"kv_row_bytes", cache.kv_row_bytes},
        {"index_row_bytes", cache.index_row_bytes},
        {"bytes_per_token", cache.bytes_per_token},
        {"window_bytes_per_request", cache.window_bytes},
        {"state_bytes_per_request", cache.compressor_state_bytes},
        {"context", flags.context},
        {"requests", flags.requests},
        {"bytes_per_request", request_bytes},
        {"bytes", request_bytes * flags.requests}}},
  };
}

std::string InMegabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// How many layers have each compression ratio: "2 x 0, 21 x 4, 20 x 128".
std::string CountRatios(const std::vector<int64_t>& ratios) {
  std::map<int64_t, int> counts;
  for (const int64_t ratio : ratios) {
    ++counts[ratio];
  }
  std::string text;
  for (const auto& [ratio, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, ratio);
  }
  return text;
}

void PrintTable(const InspectFlags& flags, const ModelConfig& config,
                const std::vector<ComponentSize>& components) {
  const auto row = [](const std::string& name, const std::string& value) {
    std::printf("%-24s %s\n", name.c_str(), value.c_str());
  };
  row("model", flags.folder);
  row("layout", NameOf(config.layout));
  row("layers by ratio", CountRatios(config.compress_ratios));
  row("hidden, heads",
      fmt::format("{}, {} x {}", config.hidden_size, config.num_heads, config.head_dim));
  row("experts", fmt::format("{} of {} + 1 shared, {} hash-routed layers", config.experts_per_token,
                             config.num_experts, config.num_hash_layers));
  row("vocabulary, context", fmt::format("{}, {}", config.vocab_size, config.max_position));
  row("drafts", config.dspark ? fmt::format("DSpark, {} stages", config.dspark->num_stages)
                              : (config.has_mtp ? "MTP" : "none"));
  std::printf("\n%-24s %18s %18s\n", "component", "parameters", "bytes");
  const auto size = [](const std::string& name, int64_t parameters, int64_t bytes) {
    std::printf("%-24s %18lld %18lld\n", name.c_str(), static_cast<long long>(parameters),
                static_cast<long long>(bytes));
  };
  for (const ComponentSize& component : components) {
    size(component.component, component.parameters, component.bytes);
  }
  const WeightTotals totals = TotalOf(components);
  size("total", totals.parameters, totals.bytes);
  size("active per token", CountActiveParameters(config), 0);

  const CacheFootprint cache = CountCache(config);
  const int64_t request_bytes = CountRequestBytes(config, flags.context);
  std::printf("\n");
  row("cache per token",
      fmt::format("{:.1f} B (rows of {} B, index keys of {} B)", cache.bytes_per_token,
                  cache.kv_row_bytes, cache.index_row_bytes));
  row("fixed per request",
      fmt::format("{} window, {} compressor state", InMegabytes(cache.window_bytes),
                  InMegabytes(cache.compressor_state_bytes)));
  row(fmt::format("{} x {} tokens", flags.requests, flags.context),
      InMegabytes(request_bytes * flags.requests));
}

Status RunInspect(const InspectFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.folder));
  CACHALOT_ASSIGN_OR_RETURN(const Weights weights, Weights::Load(flags.folder, config));
  if (flags.context > config.max_position) {
    return MakeError(StatusCode::kInvalidArgument,
                     "--ctx-size is {}, but the model's context is {}", flags.context,
                     config.max_position);
  }
  if (flags.json) {
    std::printf("%s\n", DumpJson(Describe(flags, config, weights.components()), 2).c_str());
  } else {
    PrintTable(flags, config, weights.components());
  }
  return {};
}

}  // namespace

void AddInspectCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Configuration, parameters and bytes by component, cache bytes");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("-m,--model", flags->folder, "checkpoint folder")->required();
  command->add_option("-c,--ctx-size,--context", flags->context, "tokens of a request")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--requests,--parallel", flags->requests, "requests at once")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_flag("--json", flags->json, "as JSON");
  command->callback([flags, &action] { action = [flags] { return RunInspect(*flags); }; });
}

}  // namespace cachalot
