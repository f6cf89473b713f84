// Sharing out work that is only a few operations for each value.
#pragma once

#include <cstdint>
#include <functional>

#include "threads/thread_pool.h"

namespace cachalot::cpu {

// As ThreadPool::ParallelFor, but the caller does it alone where waking the others costs more than
// they would save: a thread handles some values in a nanosecond.
inline void ShareValues(ThreadPool& pool, int64_t items, int64_t values_per_item,
                        const std::function<void(int64_t begin, int64_t end)>& body) {
  constexpr int64_t kWorthWaking = int64_t{1} << 14;
  if (items * values_per_item > kWorthWaking) {
    pool.ParallelFor(items, body);
  } else if (items > 0) {
    body(0, items);
  }
}

}  // namespace cachalot::cpu
