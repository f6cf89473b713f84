#include "cli/bench_schedule.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "backends/ascend/attention_schedule.h"
#include "io/json.h"

namespace cachalot {
namespace {

struct Shape {
  const char* name;
  int64_t requests;
  int32_t tokens;  // of each
};
constexpr Shape kShapes[] = {{"decode", 1, 1},
                             {"decode", 64, 1},
                             {"decode", 512, 1},
                             {"verify of 4 drafts", 64, 5},
                             {"prefill", 1, 8192}};

struct Ratio {
  const char* name;
  int64_t ratio;
  int64_t top_k;
};
constexpr Ratio kRatios[] = {{"window", 0, 0}, {"1 for 4", 4, 512}, {"1 for 128", 128, 0}};

double MedianMicroseconds(const ascend::ScheduleProblem& problem, const Shape& shape,
                          int64_t repetitions) {
  std::vector<int32_t> starts = {0};
  std::vector<int32_t> lengths;
  for (int64_t b = 0; b < shape.requests; ++b) {
    starts.push_back(starts.back() + shape.tokens);
    lengths.push_back(static_cast<int32_t>(shape.tokens + (b * 7919) % 30000));
  }
  std::vector<double> times;
  for (int64_t i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const ascend::Schedule schedule = ascend::BuildSchedule(problem, starts, lengths);
    const std::chrono::duration<double, std::micro> passed =
        std::chrono::steady_clock::now() - begin;
    if (schedule[0] == 1) {
      times.push_back(passed.count());
    }
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

}  // namespace

Status RunBenchSchedule(int64_t repetitions, bool json) {
  OrderedJson list = OrderedJson::array();
  if (!json) {
    std::printf(
        "| step               | requests | layers    | median us |\n"
        "| ------------------ | -------: | --------- | --------: |\n");
  }
  for (const Shape& shape : kShapes) {
    for (const Ratio& ratio : kRatios) {
      const ascend::ScheduleProblem problem = {
          .heads = 64, .tile_rows = 64, .cores = 24, .ratio = ratio.ratio, .top_k = ratio.top_k};
      const double median = MedianMicroseconds(problem, shape, repetitions);
      if (json) {
        list.push_back({{"step", shape.name},
                        {"requests", shape.requests},
                        {"tokens_each", shape.tokens},
                        {"layers", ratio.name},
                        {"microseconds", median}});
      } else {
        std::printf("| %-18s | %8lld | %-9s | %9.2f |\n", shape.name,
                    static_cast<long long>(shape.requests), ratio.name, median);
      }
    }
  }
  if (json) {
    std::printf("%s\n", DumpJson(list, 2).c_str());
  }
  return {};
}

}  // namespace cachalot
