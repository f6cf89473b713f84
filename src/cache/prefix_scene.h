// A prefix index with requests that run, for this room's tests. Every page of the pools and of the
// host tier holds the name of the text that it was made from, so that a request which is given a
// wrong or stale page is found out.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cache/prefix_index.h"

namespace cachalot {

using Tokens = std::vector<int32_t>;

// Tokens of a text of its own.
inline Tokens Text(int32_t seed, int64_t num_pages, int64_t more = 0) {
  Tokens tokens;
  for (int64_t i = 0; i < num_pages * kPageTokens + more; ++i) {
    tokens.push_back(seed * 1000000 + static_cast<int32_t>(i));
  }
  return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The first pages of a text and one token more: what asks for exactly these pages.
inline Tokens AskFor(const Tokens& tokens, int64_t num_pages) {
  Tokens asked(tokens.begin(), tokens.begin() + num_pages * kPageTokens);
  asked.push_back(-7);
  return asked;
}

class PrefixScene {
 public:
  explicit PrefixScene(const CacheGeometry& geometry, const PrefixOptions& options = {})
      : cache(geometry), index(cache, options) {}

  // A request with the beginning that the index has; `adopted` pages of it.
  RequestSlot Adopt(const Tokens& tokens, int64_t* adopted = nullptr) {
    const RequestSlot slot = *cache.TakeRequest();
    std::vector<CacheMove> moves;
    const int64_t num_pages = index.Adopt(slot, tokens, moves);
    Carry(moves);
    EXPECT_EQ(cache.length(slot), num_pages * kPageTokens);
    Check(slot, tokens, num_pages);
    index.CheckConsistency();
    if (adopted != nullptr) {
      *adopted = num_pages;
    }
    return slot;
  }

  // Runs what a request lacks of `tokens`, its window going along, and inserts all of it.
  void Continue(RequestSlot slot, const Tokens& tokens, bool landmark = true) {
    const int64_t begin = cache.length(slot);
    const Growth growth{slot, static_cast<int64_t>(tokens.size()) - begin, TokenPos(0)};
    MakeRoom(growth);
    ASSERT_TRUE(cache.Extend({&growth, 1}));
    Write(slot, tokens, begin / kPageTokens);
    index.Insert(slot, tokens, landmark);
    cache.EvictPast(slot, cache.length(slot));
  }

  RequestSlot Run(const Tokens& tokens) {
    const RequestSlot slot = Adopt(tokens);
    Continue(slot, tokens);
    return slot;
  }
  void RunAndFree(const Tokens& tokens) { cache.Free(Run(tokens)); }

  // So many pages more are free afterwards; what was to be copied for it.
  std::vector<CacheMove> Evict(CachePool pool, int64_t pages) {
    std::vector<CacheMove> moves;
    EXPECT_TRUE(index.Evict(pool, cache.available_pages(pool) + pages, moves));
    Carry(moves);
    index.CheckConsistency();
    return moves;
  }

  void Carry(const std::vector<CacheMove>& moves) {
    for (const CacheMove& move : moves) {
      if (const auto* copy = std::get_if<CopyEntries>(&move)) {
        for (int64_t row = copy->begin; row < copy->begin + copy->count; ++row) {
          entries_[{copy->to, row}] = entries_[{copy->from, row}];
        }
      } else if (const auto* save = std::get_if<ToHost>(&move)) {
        host_[{save->part, save->to}] = save->part == PagePart::kWindow
                                            ? std::pair(windows_[save->from.swa], Name(0))
                                            : HistoryAt(save->from);
      } else if (const auto* load = std::get_if<FromHost>(&move)) {
        const auto& [rows, entry] = host_.at({load->part, load->from});
        if (load->part == PagePart::kWindow) {
          windows_[load->to.swa] = rows;
        } else {
          histories_[load->to.full] = rows;
          entries_[{load->to.c128, load->to.c128_row}] = entry;
        }
      }
    }
  }

  CacheAllocator cache;
  PrefixIndex index;

 private:
  using Name = uint64_t;

  // The name of each page of a text, behind all pages before it.
  static std::vector<Name> NamesOf(const Tokens& tokens, int64_t num_pages) {
    std::vector<Name> names;
    Name name = 1;
    for (int64_t i = 0; i < num_pages * kPageTokens; ++i) {
      name = (name ^ static_cast<Name>(tokens[static_cast<size_t>(i)])) * 0x9E3779B97F4A7C15U;
      name ^= name >> 29;
      if (i % kPageTokens == kPageTokens - 1) {
        names.push_back(name);
      }
    }
    return names;
  }

  std::pair<Name, Name> HistoryAt(const PagePlace& place) {
    return {histories_[place.full], entries_[{place.c128, place.c128_row}]};
  }

  PagePlace PlaceOf(RequestSlot slot, int64_t page) const {
    const PageSet& pages = cache.pages(slot);
    const int64_t entries = cache.geometry().c128_page_entries;
    return {.full = pages.full[static_cast<size_t>(page)],
            .swa = pages.swa[static_cast<size_t>(page)],
            .c128 = cache.geometry().has_c128() ? pages.c128[static_cast<size_t>(page / entries)]
                                                : PageId(0),
            .c128_row = page % entries};
  }

  void MakeRoom(const Growth& growth) {
    std::vector<CacheMove> moves;
    CacheAllocator trial = cache;
    for (auto room = trial.Extend({&growth, 1}); !room; room = trial.Extend({&growth, 1})) {
      ASSERT_TRUE(index.Evict(room.error().pool, room.error().need, moves));
      trial = cache;
    }
    Carry(moves);
  }

  void Write(RequestSlot slot, const Tokens& tokens, int64_t first_page) {
    const int64_t num_pages = static_cast<int64_t>(tokens.size()) / kPageTokens;
    const auto names = NamesOf(tokens, num_pages);
    for (int64_t page = first_page; page < num_pages; ++page) {
      const PagePlace place = PlaceOf(slot, page);
      const Name name = names[static_cast<size_t>(page)];
      histories_[place.full] = name;
      windows_[place.swa] = name;
      entries_[{place.c128, place.c128_row}] = name;
    }
  }

  void Check(RequestSlot slot, const Tokens& tokens, int64_t num_pages) {
    const auto names = NamesOf(tokens, num_pages);
    for (int64_t page = 0; page < num_pages; ++page) {
      const PagePlace place = PlaceOf(slot, page);
      const Name name = names[static_cast<size_t>(page)];
      EXPECT_EQ(HistoryAt(place).first, name) << "page " << page << " of " << num_pages;
      if (cache.geometry().has_c128()) {
        EXPECT_EQ(HistoryAt(place).second, name) << "entry " << page << " of " << num_pages;
      }
      if ((page + 1) * kPageTokens > num_pages * kPageTokens - cache.geometry().window) {
        EXPECT_EQ(windows_[place.swa], name) << "window " << page << " of " << num_pages;
      }
    }
  }

  std::map<PageId, Name> histories_;
  std::map<PageId, Name> windows_;
  std::map<std::pair<PageId, int64_t>, Name> entries_;  // by c128 page and row
  std::map<std::pair<PagePart, HostSlot>, std::pair<Name, Name>> host_;
};

}  // namespace cachalot
