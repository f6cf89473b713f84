// For tests: holds free pages of a pool while it lives, so that the pool is short.
#pragma once

#include <vector>

#include "cache/cache_allocator.h"

namespace cachalot {

class PageThief {
 public:
  // Leaves at most `left` free pages.
  PageThief(CacheAllocator& cache, CachePool pool, int64_t left) : cache_(cache), pool_(pool) {
    while (cache.available_pages(pool) > left) {
      pages_.push_back(*cache.Take(pool));
    }
  }
  PageThief(const PageThief&) = delete;
  PageThief& operator=(const PageThief&) = delete;
  ~PageThief() {
    for (const PageId page : pages_) {
      cache_.Return(pool_, page);
    }
  }

 private:
  CacheAllocator& cache_;
  const CachePool pool_;
  std::vector<PageId> pages_;
};

}  // namespace cachalot
