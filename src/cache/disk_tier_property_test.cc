// A tier against a plain map over long random lives: a read gives the bytes that were written, and
// misses only what a list of the parts by their use says was evicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "cache/disk_tier_pages.h"

namespace cachalot {
namespace {

class DiskTierAgainstMap {
 public:
  DiskTierAgainstMap(const DiskTierOptions& options, uint64_t seed)
      : options_(options), random_(seed), tier_(OpenTier(options)), slabs_(*PlanSlabs(options)) {}

  void Step() {
    const auto page = static_cast<size_t>(random_() % pages_.size());
    const PagePart part = kPageParts[random_() % 2];
    switch (random_() % 8) {
      case 0:
        return Touch(page);
      case 1:
      case 2:
      case 3:
        return Read(page, part);
      case 4:
        return random_() % 40 == 0 ? Reopen() : Touch(page);
      default:
        return Write(page, part);
    }
  }

  void CheckAll() {
    tier_->Flush();
    for (const PagePart part : kPageParts) {
      for (size_t page = 0; page < pages_.size(); ++page) {
        Read(page, part);
      }
    }
    ASSERT_EQ(tier_->stats().evicted, evicted_);
  }

 private:
  using ByUse = std::deque<size_t>;  // numbers of pages, least lately used first

  static bool Take(ByUse& by_use, size_t page) {
    const auto it = std::find(by_use.begin(), by_use.end(), page);
    const bool there = it != by_use.end();
    if (there) {
      by_use.erase(it);
    }
    return there;
  }

  ByUse& by_use(PagePart part) { return by_use_[IndexOf(part)]; }

  void Write(size_t page, PagePart part) {
    tier_->Flush();  // what is queued can still evict this very part
    WriteTestPage(*tier_, options_, pages_[page], part);
    ByUse& parts = by_use(part);
    if (std::find(parts.begin(), parts.end(), page) != parts.end()) {
      return;
    }
    parts.push_back(page);
    if (static_cast<int64_t>(parts.size()) > slabs_[IndexOf(part)]) {
      parts.pop_front();
      ++evicted_;
    }
  }

  void Touch(size_t page) {
    tier_->Flush();  // what is queued is used later than what is touched
    tier_->Touch(pages_[page].key);
    for (const PagePart part : kPageParts) {
      if (Take(by_use(part), page)) {
        by_use(part).push_back(page);
      }
    }
  }

  void Read(size_t page, PagePart part) {
    tier_->Flush();
    const ByUse& parts = by_use(part);
    const bool there = std::find(parts.begin(), parts.end(), page) != parts.end();
    const PageKey& key = pages_[page].key;
    ASSERT_EQ(tier_->Has(key, part), there);
    ASSERT_EQ(ReadNow(*tier_, options_, key, part), there ? Outcome::kRight : Outcome::kMiss);
  }

  // Which parts are there outlives the tier, the order of their use does not.
  void Reopen() {
    tier_->Flush();
    ASSERT_EQ(tier_->stats().evicted, evicted_);
    tier_.reset();
    tier_ = OpenTier(options_);
    evicted_ = 0;
    for (const DiskTier::Stored& stored : tier_->Load()) {
      const auto page = static_cast<size_t>(stored.page.tokens[0]);
      ASSERT_EQ(stored.page, pages_[page]);
      ASSERT_EQ(stored.history, Take(by_use_[0], page));
      ASSERT_EQ(stored.window, Take(by_use_[1], page));
      tier_->Touch(stored.page.key);
      reopened_[0].insert(reopened_[0].end(), stored.history ? 1 : 0, page);
      reopened_[1].insert(reopened_[1].end(), stored.window ? 1 : 0, page);
    }
    ASSERT_TRUE(by_use_[0].empty() && by_use_[1].empty());
    std::swap(by_use_, reopened_);
  }

  const DiskTierOptions options_;
  const std::vector<PageIdentity> pages_ = TestPages(options_.root, 60);
  std::mt19937_64 random_;
  std::unique_ptr<DiskTier> tier_;
  const std::array<int64_t, 2> slabs_;
  std::array<ByUse, 2> by_use_;
  std::array<ByUse, 2> reopened_;  // empty but within Reopen
  int64_t evicted_ = 0;            // since opening
};

TEST(DiskTierProperty, AgreesWithAMapOverTenThousandRandomOperations) {
  for (const uint64_t seed : {1, 2, 3}) {
    const TestFolder folder;
    const DiskTierOptions options = TestOptions(folder.path(), 500 << 10);
    const auto slabs = *PlanSlabs(options);
    ASSERT_GT(slabs[0], 10);
    ASSERT_GT(slabs[1], 10);
    ASSERT_LT(slabs[0], 60);
    ASSERT_LT(slabs[1], 60);
    DiskTierAgainstMap tier(options, seed);
    for (int i = 0; i < 10000; ++i) {
      tier.Step();
      if (i % 500 == 0) {
        tier.CheckAll();
      }
      if (testing::Test::HasFatalFailure()) {
        FAIL() << "seed " << seed << ", operation " << i;
      }
    }
    tier.CheckAll();
  }
}

}  // namespace
}  // namespace cachalot
