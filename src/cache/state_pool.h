// StatePool: the pages of one ratio's paged state and the tables of all requests that hold some: a
// part of CacheAllocator, which looks into all pools before any gives a page. A copy is a backup.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/ids.h"
#include "cache/page_allocator.h"

namespace cachalot {

// Tokens [begin, end) that a request is to have room for; it has those before.
struct TokenRange {
  RequestSlot slot;
  int64_t begin = 0;
  int64_t end = 0;
};

class StatePool {
 public:
  // Without pages nothing is ever asked for: state is kept elsewhere.
  StatePool(int64_t ratio, int64_t num_pages, int64_t max_requests);

  bool exists() const { return pages_.num_pages() > 0; }
  const PageAllocator& allocator() const { return pages_; }

  // What room for new tokens takes.
  std::vector<Extension> Ask(std::span<const TokenRange> batch) const;
  // Takes it; the pages suffice. Rows in batch order: one for each new token that has a page.
  std::vector<SlotId> Take(std::span<const TokenRange> batch);
  // Takes the room of these last tokens back: pages that have no token before them.
  void Trim(const TokenRange& tokens);
  // Gives back the pages below the watermark of `committed` tokens.
  void Evict(RequestSlot slot, int64_t committed);
  void Free(RequestSlot slot);

  // Column i is for tokens [128 i, 128 i + 128); 0 where they have no rows.
  std::span<const PageId> pages(RequestSlot slot) const { return table(slot).pages; }
  // Rows that the request has had, and the first token that may still have one.
  int64_t rows_taken(RequestSlot slot) const { return table(slot).rows; }
  int64_t offset(RequestSlot slot) const { return table(slot).offset; }
  // What a step after `num_tokens` tokens reads is there (I37).
  void CheckReadable(RequestSlot slot, int64_t num_tokens) const;

  bool operator==(const StatePool&) const = default;

 private:
  struct Table {
    std::vector<PageId> pages;
    int64_t offset = 0;
    int64_t rows = 0;

    bool operator==(const Table&) const = default;
  };
  // New tokens with rows: those that fill a page which has been begun, and the tail.
  struct Rows {
    int64_t fill_end = 0;
    int64_t tail_begin = 0;
  };

  const Table& table(RequestSlot slot) const { return tables_[static_cast<size_t>(slot.value)]; }
  Table& table(RequestSlot slot) { return tables_[static_cast<size_t>(slot.value)]; }
  static PageId PageAt(const Table& table, int64_t position) {
    return table.pages[static_cast<size_t>(position / kPageTokens)];
  }
  Rows RowsOf(const TokenRange& tokens) const;
  void Release(Table& had, int64_t begin_column, int64_t end_column);

  int64_t ratio_;
  PageAllocator pages_;
  std::vector<Table> tables_;  // [max_requests + 1]
};

}  // namespace cachalot
