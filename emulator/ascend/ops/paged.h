// Lengths, page tables and checks that the DeepSeek-V4 operators share.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "op.h"

namespace ascend_emulator {

inline const Call::DTypes kHalfTypes = {ACL_BF16, ACL_FLOAT16};

// The body of a call without tokens.
inline void DoNothing(Kernel&) {}

inline bool IsLayout(const char* given, std::string_view wanted) {
  return given != nullptr && wanted == given;
}
inline const char* Shown(const char* layout) { return layout == nullptr ? "(null)" : layout; }

inline bool IsPowerOfTwo(int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
}

// An attribute that repeats the first stride of an operand whose other axes are contiguous. Zero
// says that the first one is as well, where `zero_is_contiguous`.
inline void CheckStride(Call& call, const Operand& operand, const char* attribute, int64_t stride,
                        bool zero_is_contiguous) {
  if (!call.ok()) {
    return;
  }
  call.Expect(operand.contiguous_rows(), kAclnnInvalid, "{}: only axis 0 may be strided",
              operand.name);
  if (stride == 0 && zero_is_contiguous) {
    call.Expect(operand.contiguous(), kAclnnInvalid,
                "{}: not contiguous (stride {} on axis 0), but {} is 0", operand.name,
                operand.strides[0], attribute);
  } else {
    call.Expect(stride == operand.strides[0], kAclnnInvalid,
                "{}: its stride on axis 0 is {}, but {} is {}", operand.name, operand.strides[0],
                attribute, stride);
  }
}

// Pages of a KV pool: the device moves blocks of 16 rows.
inline void CheckBlockSize(Call& call, const Operand& pool) {
  call.Expect(pool.dim(1) > 0 && pool.dim(1) <= 1024 && pool.dim(1) % 16 == 0, kAclnnInvalid,
              "{}: block size {} is not a multiple of 16 up to 1024", pool.name, pool.dim(1));
}

// Prefix sums with a leading zero, at most `tokens`. False after a fault.
inline bool ReadStarts(Kernel& kernel, const Operand& operand, int64_t tokens,
                       std::vector<int64_t>& starts) {
  starts = kernel.LoadIntegers(operand);
  if (starts.front() != 0) {
    kernel.Fault(kAiCoreException, "{}: begins with {}, not 0", operand.name, starts.front());
    return false;
  }
  for (size_t i = 1; i < starts.size(); ++i) {
    if (starts[i] < starts[i - 1] || starts[i] > tokens) {
      kernel.Fault(kAiCoreException, "{}: element {} is {}, after {} and with {} tokens",
                   operand.name, i, starts[i], starts[i - 1], tokens);
      return false;
    }
  }
  return true;
}

// One non-negative length per request. False after a fault.
inline bool ReadLengths(Kernel& kernel, const Operand& operand, std::vector<int64_t>& lengths) {
  lengths = kernel.LoadIntegers(operand);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) {
      kernel.Fault(kAiCoreException, "{}: element {} is {}", operand.name, i, lengths[i]);
      return false;
    }
  }
  return true;
}

// Where row `index` of a request lies in a pool [blocks, block size, ...] behind a table [B, n].
class PagedRows {
 public:
  PagedRows(Kernel& kernel, const Operand& pool, const Operand& table)
      : kernel_(kernel),
        pool_(pool),
        table_(table),
        width_(table.dim(1)),
        pages_(kernel.LoadIntegers(table)) {}

  // False, after a fault, where a request has more rows than its pages hold.
  bool Holds(int64_t request, int64_t rows) {
    if (rows > width_ * pool_.dim(1)) {
      kernel_.Fault(kAiCoreException, "{}: {} pages of {} rows, but request {} has {} rows",
                    table_.name, width_, pool_.dim(1), request, rows);
      return false;
    }
    return true;
  }

  // In elements; -1 after a fault. The row must be one that Holds() has allowed.
  int64_t At(int64_t request, int64_t index) {
    const int64_t column = index / pool_.dim(1);
    const int64_t page = pages_[static_cast<size_t>(request * width_ + column)];
    if (page < 0 || page >= pool_.dim(0)) {
      kernel_.Fault(kAiCoreException, "{}: page {} of request {} is {}, {} has {} blocks",
                    table_.name, column, request, page, pool_.name, pool_.dim(0));
      return -1;
    }
    return page * pool_.strides[0] + index % pool_.dim(1) * pool_.strides[1];
  }

 private:
  Kernel& kernel_;
  const Operand& pool_;
  const Operand& table_;
  int64_t width_;
  std::vector<int64_t> pages_;
};

}  // namespace ascend_emulator
