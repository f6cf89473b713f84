// `cachalot bench`: what the machine can do, and what the engine makes of it.
#include <cstdio>

#include "cli/bench_kernels.h"
#include "cli/bench_schedule.h"
#include "cli/bench_serving.h"
#include "cli/bench_throughput.h"
#include "cli/commands.h"
#include "io/json.h"

namespace cachalot {
namespace {

struct BenchFlags {
  ModelFlags model;
  ThroughputOptions throughput;
  cpu::KernelBenchOptions kernels;
  std::vector<std::string> isas;  // of the kernels
  bool json = false;
};

void Print(int64_t threads, cpu::Isa isa, const cpu::MachineLimits& limits) {
  std::printf("%3lld threads  %s  stream read %.1f GB/s  float32 fma %.1f GFLOP/s",
              static_cast<long long>(threads), cpu::NameOf(isa),
              limits.stream_bytes_per_second / 1e9, limits.fma_flops_per_second / 1e9);
  const struct {
    const char* name;
    double rate;
  } others[] = {{"vnni int8", limits.vnni_ops_per_second},
                {"amx bf16", limits.tile_bf16_flops_per_second},
                {"amx int8", limits.tile_int8_ops_per_second}};
  for (const auto& other : others) {
    if (other.rate > 0) {
      std::printf("  %s %.1f GOP/s", other.name, other.rate / 1e9);
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

OrderedJson ToJson(int64_t threads, cpu::Isa isa, const cpu::MachineLimits& limits) {
  OrderedJson json = {{"threads", threads},
                      {"isa", cpu::NameOf(isa)},
                      {"stream_bytes_per_second", limits.stream_bytes_per_second},
                      {"fma_flops_per_second", limits.fma_flops_per_second}};
  if (limits.vnni_ops_per_second > 0) {
    json["vnni_ops_per_second"] = limits.vnni_ops_per_second;
  }
  if (limits.tile_bf16_flops_per_second > 0) {
    json["tile_bf16_flops_per_second"] = limits.tile_bf16_flops_per_second;
    json["tile_int8_ops_per_second"] = limits.tile_int8_ops_per_second;
  }
  return json;
}

Status RunLimits(const BenchFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const cpu::Isa isa, cpu::ChooseIsa({}));
  if (isa < cpu::Isa::kAvx2) {
    return MakeError(StatusCode::kUnsupported, "bench needs AVX2: the limits are measured with it");
  }
  OrderedJson list = OrderedJson::array();
  for (const int64_t threads : flags.throughput.threads) {
    ThreadPool pool(static_cast<int>(threads));
    const cpu::MachineLimits limits = cpu::MeasureLimits(pool, isa);
    if (flags.json) {
      list.push_back(ToJson(threads, isa, limits));
    } else {
      Print(threads, isa, limits);
    }
  }
  if (flags.json) {
    std::printf("%s\n", DumpJson(list, 2).c_str());
  }
  return {};
}

Status RunKernels(const BenchFlags& flags) {
  cpu::KernelBenchOptions options = flags.kernels;
  options.threads = flags.throughput.threads;
  options.repetitions = flags.throughput.repetitions;
  if (cpu::DetectIsa() < cpu::Isa::kAvx2) {
    return MakeError(StatusCode::kUnsupported, "bench needs AVX2: the limits are measured with it");
  }
  for (const std::string& name : flags.isas) {
    CACHALOT_ASSIGN_OR_RETURN(const cpu::Isa isa, cpu::ChooseIsa(name));
    options.isas.push_back(isa);
  }
  return RunBenchKernels(options, flags.json);
}

// Where the time went: an operator for a line, the longest first.
void PrintProfile(const ThroughputResult& result) {
  std::printf("\n%s, %lld threads, depth %lld, batch %lld\n", result.test.c_str(),
              static_cast<long long>(result.threads), static_cast<long long>(result.depth),
              static_cast<long long>(result.batch));
  std::printf("| %-16s | %-27s | %7s | %10s | %6s | %7s | %7s | %12s |\n", "operator", "of",
              "calls", "us a call", "time", "GB/s", "GFLOP/s", "of the limit");
  std::printf(
      "| ---------------- | --------------------------- | ------: | ---------: | -----: | ------: "
      "| "
      "------: | -----------: |\n");
  double rest = result.seconds;
  for (const OperatorTime& time : result.profile) {
    rest -= time.seconds;
    std::printf("| %-16s | %-27s | %7lld | %10.1f | %4.1f %% | %7.2f | %7.2f | %10.0f %% |\n",
                time.op.c_str(), time.detail.c_str(), static_cast<long long>(time.calls),
                1e6 * time.seconds / static_cast<double>(time.calls),
                100 * time.seconds / result.seconds, time.cost.bytes / time.seconds / 1e9,
                time.cost.flops / time.seconds / 1e9,
                100 * result.machine.SecondsFor(time.cost) / time.seconds);
  }
  std::printf("| %-16s | %-27s | %7s | %10s | %4.1f %% | %7s | %7s | %12s |\n", "the rest",
              "between operators", "", "", 100 * rest / result.seconds, "", "", "");
}

OrderedJson ToJson(const ThroughputResult& result) {
  OrderedJson json = {{"test", result.test},
                      {"threads", result.threads},
                      {"depth", result.depth},
                      {"batch", result.batch},
                      {"tokens_per_second", result.tokens_per_second},
                      {"limit", result.limit},
                      {"limit_tokens_per_second", result.limit_tokens_per_second},
                      {"limit_fraction", result.limit_fraction()}};
  for (const OperatorTime& time : result.profile) {
    json["profile"].push_back(
        {{"operator", time.op},
         {"of", time.detail},
         {"calls", time.calls},
         {"seconds", time.seconds},
         {"time_fraction", time.seconds / result.seconds},
         {"bytes", time.cost.bytes},
         {"flops", time.cost.flops},
         {"limit_fraction", result.machine.SecondsFor(time.cost) / time.seconds}});
  }
  return json;
}

Status RunThroughputCommand(const BenchFlags& flags) {
  std::vector<ThroughputResult> profiled;  // their tables come after the one of all tests
  OrderedJson list = OrderedJson::array();
  if (!flags.json) {
    std::printf(
        "| test    | threads |  depth | batch | tokens/s (median) | limit   | of the limit |\n");
    std::printf(
        "| ------- | ------: | -----: | ----: | ----------------: | ------- | -----------: |\n");
  }
  CACHALOT_RETURN_IF_ERROR(
      RunThroughput(flags.model, flags.throughput, [&](const ThroughputResult& result) {
        if (flags.json) {
          list.push_back(ToJson(result));
          return;
        }
        std::printf("| %-7s | %7lld | %6lld | %5lld | %17.1f | %-7s | %10.0f %% |\n",
                    result.test.c_str(), static_cast<long long>(result.threads),
                    static_cast<long long>(result.depth), static_cast<long long>(result.batch),
                    result.median(), result.limit.c_str(), 100 * result.limit_fraction());
        std::fflush(stdout);
        if (flags.throughput.profile) {
          profiled.push_back(result);
        }
      }));
  if (flags.json) {
    std::printf("%s\n", DumpJson(list, 2).c_str());
  }
  for (const ThroughputResult& result : profiled) {
    PrintProfile(result);
  }
  return {};
}

}  // namespace

void AddBenchCommands(CLI::App& app, Action& action) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the machine and the engine on it");
  bench->require_subcommand(1);
  auto flags = std::make_shared<BenchFlags>();
  ThroughputOptions& options = flags->throughput;
  options = {{512}, {32}, {0}, {1}, {AvailableCores()}, 5, false};
  const auto add_list = [](CLI::App* command, const char* name, std::vector<int64_t>& list,
                           const char* about, int64_t least, int64_t most = int64_t{1} << 24) {
    command->add_option(name, list, about)
        ->delimiter(',')
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  const auto add_threads = [&](CLI::App* command) {
    command->add_option("-t,--threads", options.threads, "threads, a list")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command->add_flag("--json", flags->json, "as JSON");
  };

  const auto add_repetitions = [&](CLI::App* command) {
    command->add_option("-r,--repetitions", options.repetitions, "of which the median counts")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
  };

  CLI::App* limits = bench->add_subcommand("limits", "Stream read and multiply-add peaks");
  add_threads(limits);
  limits->callback([flags, &action] { action = [flags] { return RunLimits(*flags); }; });

  CLI::App* kernels = bench->add_subcommand(
      "kernels",
      "Every kernel on problems of a model's size, caches cold: time, limit, error and its bound");
  kernels->add_option("--op", flags->kernels.op, "one operator alone")
      ->check(CLI::IsMember(cpu::BenchedOperators()));
  kernels->add_option("--problem", flags->kernels.problem, "a part of the problem's name");
  kernels
      ->add_option("--isa", flags->isas,
                   "kernels of these: ref, avx2, avx512, amx, a list (default: all that the "
                   "machine has but ref)")
      ->delimiter(',');
  kernels->add_flag("--test-problems", flags->kernels.test_problems,
                    "the unit tests' problems as well, which are small");
  kernels->add_flag("--check", flags->kernels.check_all,
                    "every token against the reference, which is slow (default: the last one)");
  add_threads(kernels);
  add_repetitions(kernels);
  kernels->callback([flags, &action] { action = [flags] { return RunKernels(*flags); }; });

  CLI::App* throughput = bench->add_subcommand(
      "throughput",
      "Tokens per second of prefill and decode, and the fraction of the limit that binds");
  throughput->add_option("-m,--model", flags->model.folder, "checkpoint folder")->required();
  flags->model.AddWeightsTo(*throughput);
  throughput->add_option("--isa", flags->model.isa, "avx2, avx512 or amx");
  add_threads(throughput);
  add_list(throughput, "-p,--n-prompt", options.prompts, "tokens to prefill, a list", 1);
  add_list(throughput, "-n,--n-gen", options.generates, "tokens to decode, a list", 1);
  add_list(throughput, "-d,--n-depth", options.depths,
           "tokens before, a list; nobody runs them: random rows are written into the caches", 0);
  add_list(throughput, "-b,--batch", options.batches, "requests at once, a list", 1,
           kThroughputStepTokens);
  add_repetitions(throughput);
  throughput->add_flag("--profile", options.profile,
                       "after each test, the share of its time that each operator took");
  throughput->callback(
      [flags, &action] { action = [flags] { return RunThroughputCommand(*flags); }; });

  CLI::App* schedule = bench->add_subcommand(
      "schedule", "Time of the host to deal a step's attention to the cores of an NPU");
  add_repetitions(schedule);
  schedule->add_flag("--json", flags->json, "as JSON");
  schedule->callback([flags, &action] {
    action = [flags] { return RunBenchSchedule(flags->throughput.repetitions, flags->json); };
  });

  AddBenchServing(*bench, action);
}

}  // namespace cachalot
