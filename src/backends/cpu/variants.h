// How an operator picks its kernel: an ordered list of variants, best first; the first that the
// machine has and that has no reason against the problem runs. The reference stands last and takes
// everything.
#pragma once

#include <span>

#include "backends/cpu/context.h"
#include "base/check.h"

namespace cachalot::cpu {

template <typename Params>
struct Variant {
  const char* name;                               // "avx2_rms_norm"
  Isa isa;                                        // the least that the machine must have
  const char* (*supports)(const Params& params);  // null, or the reason against
  void (*run)(const Params& params, Context& context);
};

template <typename Params>
const char* SupportsAll(const Params&) {
  return nullptr;
}

// Says once per variant, at log level debug, which one runs and why not the ones before it.
void ReportChoice(const char* chosen, const char* passed_over, const char* reason);

template <typename Params>
void RunFirst(std::span<const Variant<Params>> variants, const Params& params, Context& context) {
  const char* passed_over = nullptr;
  const char* reason = nullptr;
  for (const Variant<Params>& variant : variants) {
    if (variant.isa > context.isa()) {
      continue;
    }
    const char* against = variant.supports(params);
    if (against == nullptr) {
      ReportChoice(variant.name, passed_over, reason);
      variant.run(params, context);
      return;
    }
    passed_over = variant.name;
    reason = against;
  }
  CACHALOT_CHECK(false, "no variant takes the problem: {}", reason != nullptr ? reason : "");
}

}  // namespace cachalot::cpu
