// What the indexer's operators and those that deal its work have in common.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core_schedule.h"
#include "op.h"
#include "paged.h"

namespace ascend_emulator {

// What is dealt: all complete entries of each token's request are scored.
inline AttentionWork WorkOf(int64_t heads, int64_t ratio) {
  AttentionWork work;
  work.heads = heads;
  work.window = false;
  work.mask = 3;
  work.left = -1;
  work.ratio = ratio;
  return work;
}

// Query tokens of each request, and raw tokens that its last query sees.
inline bool ReadWork(Kernel& kernel, const Operand& ends, bool leading_zero, const Operand& lengths,
                     const Operand& residuals, int64_t tokens, AttentionWork& work) {
  std::vector<int64_t> sums;
  if (leading_zero) {
    if (!ReadStarts(kernel, ends, tokens, sums)) {
      return false;
    }
  } else {
    sums = kernel.LoadIntegers(ends);
    sums.insert(sums.begin(), 0);
    for (size_t i = 1; i < sums.size(); ++i) {
      if (sums[i] < sums[i - 1] || sums[i] > tokens) {
        kernel.Fault(kAiCoreException, "{}: element {} is {}, after {} and with {} tokens",
                     ends.name, i - 1, sums[i], sums[i - 1], tokens);
        return false;
      }
    }
  }
  for (size_t i = 1; i < sums.size(); ++i) {
    work.queries.push_back(sums[i] - sums[i - 1]);
  }
  if (!ReadLengths(kernel, lengths, work.keys)) {
    return false;
  }
  if (!residuals.absent()) {
    std::vector<int64_t> rest;
    if (!ReadLengths(kernel, residuals, rest)) {
      return false;
    }
    for (size_t i = 0; i < rest.size(); ++i) {
      work.keys[i] = work.keys[i] * work.ratio + rest[i];
    }
  }
  return true;
}

// Attributes of the custom operators.
struct CustomAttributes {
  int64_t query_mode;
  int64_t key_mode;
  const char* layout_query;
  const char* layout_key;
  int64_t mask_mode;
  int64_t before;
  int64_t after;
  int64_t ratio;
};

inline void CheckCustom(Call& call, const CustomAttributes& a) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  call.Expect(a.query_mode == 0 && a.key_mode == 0, kAclnnInvalid,
              "queryQuantMode {}, keyQuantMode {}, not 0", a.query_mode, a.key_mode);
  call.Expect(IsLayout(a.layout_query, "TND"), kAclnnInvalid,
              "layoutQuery {}: only TND is emulated", Shown(a.layout_query));
  call.Expect(IsLayout(a.layout_key, "PA_BSND"), kAclnnInvalid,
              "layoutKey {}: only PA_BSND is emulated", Shown(a.layout_key));
  call.Expect(a.mask_mode == 3, kAclnnInvalid, "sparseMode {}: only 3 is emulated", a.mask_mode);
  call.Expect(a.before == kNoLimit && a.after == kNoLimit, kAclnnInvalid,
              "preTokens {}, nextTokens {}, not the largest INT64", a.before, a.after);
  call.Expect(a.ratio == 4, kAclnnInvalid, "cmpRatio {}, not 4", a.ratio);
}

}  // namespace ascend_emulator
