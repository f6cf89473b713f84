// CacheMove: what is to be copied or cleared before a step. Whoever plans writes a list of moves;
// whoever owns the memory carries them out, all of them and in that order (docs/contracts/cache.md,
// I30).
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "cache/ids.h"
#include "cache/page_key.h"
#include "cache/page_part.h"

namespace cachalot {

// A place for one part of one page in the host tier.
using HostSlot = StrongId<struct HostSlotTag>;

// Where the rows of a page lie on the device: pages of the pools, 0 where a part is not there.
struct PagePlace {
  PageId full;
  PageId swa;
  PageId c128;
  int64_t c128_row = 0;  // of the page's entry in its c128 page

  bool operator==(const PagePlace&) const = default;
};

// The state of a request slot, before its first step.
struct ClearRequest {
  RequestSlot slot;
  bool operator==(const ClearRequest&) const = default;
};
// Entries [0, count) of a c128 page.
struct CopyEntries {
  PageId from;
  PageId to;
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const CopyEntries&) const = default;
};
struct ToHost {
  PagePart part = PagePart::kHistory;
  PagePlace from;
  HostSlot to;
  bool operator==(const ToHost&) const = default;
};
struct FromHost {
  PagePart part = PagePart::kHistory;
  HostSlot from;
  PagePlace to;
  bool operator==(const FromHost&) const = default;
};

struct ToDisk {
  PagePart part = PagePart::kHistory;
  PagePlace from;
  std::shared_ptr<const PageIdentity> page;
  bool operator==(const ToDisk&) const = default;
};
// What is on disk of this page was used.
struct UseOnDisk {
  PageKey key;
  bool operator==(const UseOnDisk&) const = default;
};

using CacheMove = std::variant<ClearRequest, CopyEntries, ToHost, FromHost, ToDisk, UseOnDisk>;

// A part to be read from disk into the host tier, at any time: nothing uses the slot before
// PrefixIndex::Fetched.
struct DiskFetch {
  int64_t id = 0;
  PageKey key;
  PagePart part = PagePart::kHistory;
  HostSlot to;
  bool operator==(const DiskFetch&) const = default;
};

// One line, for traces.
std::string TextOf(const CacheMove& move);

}  // namespace cachalot
