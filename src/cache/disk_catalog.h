// DiskCatalog: which parts of which pages lie in which slabs, and in what order they were used.
// Metadata only: no files, no threads.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "cache/page_key.h"
#include "cache/page_part.h"
#include "io/digest.h"

namespace cachalot {

// A page of which the tier has one part at least.
struct StoredPage {
  PageIdentity page;
  bool history = false;
  bool window = false;
};

class DiskCatalog {
 public:
  struct Place {
    int64_t slab = 0;
    Digest payload{};  // the digest of the part's bytes

    bool operator==(const Place&) const = default;
  };
  // Where a new part can go; the victim, if any, must be removed first.
  struct Room {
    int64_t slab = 0;
    std::optional<PageKey> victim;
  };
  struct Record {
    const PageIdentity* page;  // stays until the page's last part is removed
    PagePart part;
    Place place;
  };

  // Numbers of slabs by PagePart, each above 0.
  explicit DiskCatalog(std::array<int64_t, 2> slabs);
  DiskCatalog(const DiskCatalog&) = delete;
  DiskCatalog& operator=(const DiskCatalog&) = delete;

  std::optional<Place> Find(const PageKey& key, PagePart part) const;
  // As the part used last. What the slab held before goes, and so does the part's former place.
  // False, and nothing has changed, where there is no such slab.
  bool Put(const PageIdentity& page, PagePart part, const Place& place);
  // Nothing where the part is not there.
  void Remove(const PageKey& key, PagePart part);
  // Both parts of the page become those used last.
  void Touch(const PageKey& key);

  // The lowest free slab, else that of the part used least lately.
  Room FindRoom(PagePart part) const;
  // Of each PagePart the one used least lately first.
  std::vector<Record> RecordsByUse() const;
  // Parents before children. A page whose parent is not there is listed all the same.
  std::vector<StoredPage> ParentsFirst() const;
  int64_t num_parts() const;

 private:
  struct Entry;
  using Use = std::list<Entry*>;
  struct Held {
    Place place;
    Use::iterator use;
  };
  struct Entry {
    PageIdentity page;
    std::array<std::optional<Held>, 2> parts;
  };
  struct Shelf {
    int64_t num_slabs = 0;
    std::vector<Entry*> slabs;  // up to the highest used so far; null: free
    std::set<int64_t> holes;    // the free ones among them
    Use by_use;                 // least lately first
  };

  Shelf& shelf(PagePart part) { return shelves_[IndexOf(part)]; }
  const Shelf& shelf(PagePart part) const { return shelves_[IndexOf(part)]; }

  std::unordered_map<PageKey, Entry> entries_;
  std::array<Shelf, 2> shelves_;
};

}  // namespace cachalot
