// Every kernel by itself: its time on named problems beside the least that the machine's limits
// allow, and its error beside the bound that the tests hold it to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/limits/limits.h"
#include "device/operator_cost.h"

namespace cachalot::cpu {

struct KernelBenchOptions {
  std::string op;         // "linear"; empty: all
  std::string problem;    // a part of the problem's name
  std::vector<Isa> isas;  // of the variants; empty: all that the machine has but the reference
  std::vector<int64_t> threads;
  int64_t repetitions = 5;
  bool test_problems = false;  // the unit tests' problems too, which are small
  bool check_all = false;      // every token of a large problem against the reference
};

struct KernelResult {
  std::string op;
  std::string problem;
  std::string variant;
  int64_t threads = 0;
  double seconds = 0;  // median, caches cold
  OperatorCost cost;
  MachineLimits machine;
  // Of the output that is nearest to its bound, or furthest beyond; infinite where bits or
  // selections that must be equal are not.
  double error = 0;
  double bound = 0;
  int64_t tokens = 0;
  int64_t tokens_checked = 0;  // the last ones

  double limit_fraction() const { return machine.SecondsFor(cost) / seconds; }
  bool within_bound() const { return error <= bound; }
};

// The operators that there are problems for.
std::vector<std::string> BenchedOperators();

// Measures the limits for each number of threads, then reports variant after variant.
void BenchKernels(const KernelBenchOptions& options,
                  const std::function<void(const KernelResult&)>& report);

}  // namespace cachalot::cpu
