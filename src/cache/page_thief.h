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
      switch (pool_) {
        case CachePool::kFull:
          cache_.Release({.full = {page}, .swa = {PageId(0)}, .c128 = {}});
          break;
        case CachePool::kSwa:
          cache_.ReleaseWindow(PageId(0), page);
          break;
        case CachePool::kC128:
          cache_.Release({.full = {}, .swa = {}, .c128 = {page}});
          break;
      }
    }
  }

 private:
  CacheAllocator& cache_;
  const CachePool pool_;
  std::vector<PageId> pages_;
};

}  // namespace cachalot
