#include "cli/bench_kernels.h"

#include <cstdio>

#include "io/json.h"

namespace cachalot {
namespace {

void PrintHead() {
  std::printf(
      "| operator   | problem                                                          | kernel    "
      " "
      "          | threads | median us |    GB/s | GFLOP/s | of the limit | binds   |   error |   "
      "bound | tokens checked |\n"
      "| ---------- | ---------------------------------------------------------------- | "
      "-------------------- | ------: | --------: | ------: | ------: | -----------: | ------- | "
      "------: | ------: | -------------: |\n");
}

void Print(const cpu::KernelResult& result) {
  std::printf(
      "| %-10s | %-64s | %-20s | %7lld | %9.1f | %7.2f | %7.1f | %10.0f %% | %-7s | %7.1e | %7.1e "
      "| "
      "%5lld of %5lld |%s\n",
      result.op.c_str(), result.problem.c_str(), result.variant.c_str(),
      static_cast<long long>(result.threads), 1e6 * result.seconds,
      result.cost.bytes / result.seconds / 1e9, result.cost.flops / result.seconds / 1e9,
      100 * result.limit_fraction(), result.machine.Binding(result.cost), result.error,
      result.bound, static_cast<long long>(result.tokens_checked),
      static_cast<long long>(result.tokens), result.within_bound() ? "" : " OUT OF BOUND");
  std::fflush(stdout);
}

OrderedJson ToJson(const cpu::KernelResult& result) {
  return {{"operator", result.op},
          {"problem", result.problem},
          {"kernel", result.variant},
          {"threads", result.threads},
          {"seconds", result.seconds},
          {"bytes", result.cost.bytes},
          {"flops", result.cost.flops},
          {"limit", result.machine.Binding(result.cost)},
          {"limit_fraction", result.limit_fraction()},
          {"error", result.error},
          {"bound", result.bound},
          {"within_bound", result.within_bound()},
          {"tokens", result.tokens},
          {"tokens_checked", result.tokens_checked}};
}

}  // namespace

Status RunBenchKernels(const cpu::KernelBenchOptions& options, bool json) {
  OrderedJson list = OrderedJson::array();
  int64_t results = 0;
  int64_t beyond = 0;
  if (!json) {
    PrintHead();
  }
  cpu::BenchKernels(options, [&](const cpu::KernelResult& result) {
    ++results;
    beyond += result.within_bound() ? 0 : 1;
    if (json) {
      list.push_back(ToJson(result));
    } else {
      Print(result);
    }
  });
  if (json) {
    std::printf("%s\n", DumpJson(list, 2).c_str());
  }
  if (results == 0) {
    return MakeError(StatusCode::kNotFound, "no kernel and problem of these names");
  }
  if (beyond > 0) {
    return MakeError(StatusCode::kDataLoss,
                     "{} of {} results are further from the reference than "
                     "their bound",
                     beyond, results);
  }
  return {};
}

}  // namespace cachalot
