// What every variant of every operator is held to, over the operator's named problems: near the
// reference (bounds.h), the same bits for any number of threads, and the same bits however the
// tokens are cut into steps. An operator's problems.h gives
//   std::vector<Problem<Params>> <Op>Problems();
//   Params Slice(const Params&, int64_t begin, int64_t end, ProblemData&);  // tokens [begin, end)
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/ops/bounds.h"
#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/problem.h"
#include "numeric/difference.h"

namespace cachalot::cpu {

// Everything a run left, as bytes.
template <typename Params>
std::vector<std::string> BytesOf(const Case<Params>& run) {
  std::vector<std::string> bytes;
  for (const Output& output : run.outputs) {
    bytes.push_back(BytesOf(output));
  }
  return bytes;
}

inline void ExpectNear(const Output& found, const Output& wanted, double bound) {
  const std::vector<float> found_values = ValuesOf(found);
  const std::vector<float> wanted_values = ValuesOf(wanted);
  if (bound == 0) {
    EXPECT_EQ(FirstBitDifference(found_values, wanted_values), "") << found.name;
    EXPECT_TRUE(BytesOf(found) == BytesOf(wanted)) << found.name;
  } else if (!found_values.empty()) {
    EXPECT_LE(RelativeError(found_values, wanted_values), bound) << found.name;
  }
}

template <typename Params>
class VariantsTest {
 public:
  using Door = void (*)(const Params&, Context&);

  VariantsTest(const char* op, Door door, std::span<const Variant<Params>> variants,
               std::vector<Problem<Params>> problems)
      : op_(op), door_(door), variants_(variants), problems_(std::move(problems)) {}

  void ExpectNearReference() {
    ForEach([&](const Variant<Params>& variant, const Problem<Params>& problem) {
      const auto wanted = problem.Make();
      Context reference(1, Isa::kRef);
      door_(wanted->params, reference);
      const auto found = Run(variant, problem, 1);
      for (size_t i = 0; i < wanted->outputs.size(); ++i) {
        const Output& output = wanted->outputs[i];
        const bool exact = output.pool.empty() && output.tensor.dtype != DType::kF32;
        ExpectNear(found->outputs[i], output,
                   exact ? 0 : BoundOf(op_, output.name, problem.format, variant.isa));
      }
    });
  }

  void ExpectThreadsChangeNothing() {
    ForEach([&](const Variant<Params>& variant, const Problem<Params>& problem) {
      const auto once = BytesOf(*Run(variant, problem, 1));
      EXPECT_TRUE(BytesOf(*Run(variant, problem, 2)) == once);
      EXPECT_TRUE(BytesOf(*Run(variant, problem, 3)) == once);
    });
  }

  void ExpectCutsChangeNothing() {
    ForEach([&](const Variant<Params>& variant, const Problem<Params>& problem) {
      const auto whole = BytesOf(*Run(variant, problem, 1));
      for (const int64_t tokens : {1, 3, 8}) {
        const auto cut = problem.Make();
        const int64_t step = tokens * std::max<int64_t>(1, cut->tokens / 64);  // long ones in fewer
        Context context(2, variant.isa);
        for (int64_t begin = 0; begin < cut->tokens; begin += step) {
          const int64_t end = std::min(begin + step, cut->tokens);
          const Params part = Slice(cut->params, begin, end, cut->data);
          // The same variant has to serve every number of tokens.
          ASSERT_EQ(variant.supports(part), nullptr);
          variant.run(part, context);
        }
        EXPECT_TRUE(BytesOf(*cut) == whole) << "in steps of " << step;
      }
    });
  }

 private:
  std::unique_ptr<Case<Params>> Run(const Variant<Params>& variant, const Problem<Params>& problem,
                                    int threads) {
    auto run = problem.Make();
    Context context(threads, variant.isa);
    variant.run(run->params, context);
    return run;
  }

  // Calls body for each variant that the machine runs and each problem that it takes.
  template <typename Body>
  void ForEach(const Body& body) {
    for (const Variant<Params>& variant : variants_) {
      if (variant.isa > DetectIsa()) {
        continue;
      }
      int taken = 0;
      for (const Problem<Params>& problem : problems_) {
        if (variant.supports(problem.Make()->params) == nullptr) {
          SCOPED_TRACE(std::string(variant.name) + " on " + problem.name);
          body(variant, problem);
          ++taken;
        }
      }
      EXPECT_GT(taken, 0) << variant.name << " takes no problem";
    }
  }

  const char* op_;
  Door door_;
  std::span<const Variant<Params>> variants_;
  std::vector<Problem<Params>> problems_;
};

// CACHALOT_VARIANTS_TEST(RmsNorm, "rms_norm");
#define CACHALOT_VARIANTS_TEST(Op, name)                                                          \
  TEST(Op, VariantsAreNearTheReference) {                                                         \
    VariantsTest<Op##Params>(name, Op, Op##Variants(), Op##Problems()).ExpectNearReference();     \
  }                                                                                               \
  TEST(Op, ThreadsChangeNoBit) {                                                                  \
    VariantsTest<Op##Params>(name, Op, Op##Variants(), Op##Problems())                            \
        .ExpectThreadsChangeNothing();                                                            \
  }                                                                                               \
  TEST(Op, CutsIntoStepsChangeNoBit) {                                                            \
    VariantsTest<Op##Params>(name, Op, Op##Variants(), Op##Problems()).ExpectCutsChangeNothing(); \
  }

}  // namespace cachalot::cpu
