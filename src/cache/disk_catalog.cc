#include "cache/disk_catalog.h"

#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace cachalot {

DiskCatalog::DiskCatalog(std::array<int64_t, 2> slabs) {
  for (const PagePart part : kPageParts) {
    CACHALOT_CHECK_GT(slabs[IndexOf(part)], 0);
    shelf(part).num_slabs = slabs[IndexOf(part)];
  }
}

std::optional<DiskCatalog::Place> DiskCatalog::Find(const PageKey& key, PagePart part) const {
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || !entry->second.parts[IndexOf(part)]) {
    return std::nullopt;
  }
  return entry->second.parts[IndexOf(part)]->place;
}

bool DiskCatalog::Put(const PageIdentity& page, PagePart part, const Place& place) {
  Shelf& on = shelf(part);
  if (place.slab < 0 || place.slab >= on.num_slabs) {
    return false;
  }
  Remove(page.key, part);
  for (auto i = static_cast<int64_t>(on.slabs.size()); i <= place.slab; ++i) {
    on.slabs.push_back(nullptr);
    on.holes.insert(i);
  }
  Entry*& owner = on.slabs[static_cast<size_t>(place.slab)];
  if (owner != nullptr) {
    Remove(owner->page.key, part);
  }
  on.holes.erase(place.slab);
  owner = &entries_.try_emplace(page.key, Entry{page, {}}).first->second;
  owner->parts[IndexOf(part)] = Held{place, on.by_use.insert(on.by_use.end(), owner)};
  return true;
}

void DiskCatalog::Remove(const PageKey& key, PagePart part) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || !entry->second.parts[IndexOf(part)]) {
    return;
  }
  const Held held = *std::exchange(entry->second.parts[IndexOf(part)], std::nullopt);
  Shelf& on = shelf(part);
  on.slabs[static_cast<size_t>(held.place.slab)] = nullptr;
  on.holes.insert(held.place.slab);
  on.by_use.erase(held.use);
  if (!entry->second.parts[0] && !entry->second.parts[1]) {
    entries_.erase(entry);
  }
}

void DiskCatalog::Touch(const PageKey& key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) {
    return;
  }
  for (const PagePart part : kPageParts) {
    if (const auto& held = entry->second.parts[IndexOf(part)]) {
      Use& by_use = shelf(part).by_use;
      by_use.splice(by_use.end(), by_use, held->use);
    }
  }
}

DiskCatalog::Room DiskCatalog::FindRoom(PagePart part) const {
  const Shelf& on = shelf(part);
  if (!on.holes.empty()) {
    return {*on.holes.begin(), std::nullopt};
  }
  if (static_cast<int64_t>(on.slabs.size()) < on.num_slabs) {
    return {static_cast<int64_t>(on.slabs.size()), std::nullopt};
  }
  const Entry* oldest = on.by_use.front();
  return {oldest->parts[IndexOf(part)]->place.slab, oldest->page.key};
}

std::vector<DiskCatalog::Record> DiskCatalog::RecordsByUse() const {
  std::vector<Record> records;
  records.reserve(static_cast<size_t>(num_parts()));
  for (const PagePart part : kPageParts) {
    for (const Entry* entry : shelf(part).by_use) {
      records.push_back({&entry->page, part, entry->parts[IndexOf(part)]->place});
    }
  }
  return records;
}

std::vector<StoredPage> DiskCatalog::ParentsFirst() const {
  std::vector<StoredPage> pages;
  std::unordered_set<PageKey> listed;
  std::vector<const Entry*> line;  // a page and its ancestors that are not listed yet
  for (const auto& [key, first] : entries_) {
    const Entry* entry = &first;
    while (entry != nullptr && listed.insert(entry->page.key).second) {
      line.push_back(entry);
      const auto parent = entries_.find(entry->page.parent);
      entry = parent == entries_.end() ? nullptr : &parent->second;
    }
    for (; !line.empty(); line.pop_back()) {
      const auto& [page, parts] = *line.back();
      pages.push_back({page, parts[0].has_value(), parts[1].has_value()});
    }
  }
  return pages;
}

int64_t DiskCatalog::num_parts() const {
  return static_cast<int64_t>(shelves_[0].by_use.size() + shelves_[1].by_use.size());
}

}  // namespace cachalot
