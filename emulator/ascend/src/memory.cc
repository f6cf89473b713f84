#include "memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "settings.h"

namespace ascend_emulator {
namespace {

constexpr uint64_t kFront = 64;  // red zone before an allocation, and its alignment
constexpr uint64_t kArena = uint64_t{1}
                            << 36;  // addresses of one device: the device is in the bits above
constexpr uint64_t kReturned = uint64_t{1}
                               << 20;  // freed pieces from here on go back to the machine

uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// Address space for all devices, aligned, never accessible.
uintptr_t Face() {
  static const uintptr_t face = [] {
    const uint64_t bytes = kArena * (kMostDevices + 1);
    void* reserved =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
      throw std::runtime_error("ascend emulator: no address space for device memory");
    return RoundUp(reinterpret_cast<uintptr_t>(reserved), kArena);
  }();
  return face;
}

// The first byte that is not the pattern; `bytes` where all are.
uint64_t FirstOther(const uint8_t* at, uint64_t bytes, uint16_t pattern) {
  const uint8_t expected[2] = {static_cast<uint8_t>(pattern & 0xff),
                               static_cast<uint8_t>(pattern >> 8)};
  for (uint64_t i = 0; i < bytes; ++i) {
    if (at[i] != expected[i & 1]) return i;
  }
  return bytes;
}

constexpr uint16_t kRedPair = kRedZone * 0x101;

}  // namespace

void Fill(uint8_t* at, uint64_t bytes, uint16_t pattern) {
  const auto low = static_cast<uint8_t>(pattern & 0xff);
  const auto high = static_cast<uint8_t>(pattern >> 8);
  uint64_t done = std::min<uint64_t>(bytes, 4096);
  for (uint64_t i = 0; i < done; ++i) at[i] = (i & 1) == 0 ? low : high;
  while (done < bytes) {
    const uint64_t piece = std::min(done, bytes - done);
    std::memcpy(at + done, at, piece);
    done += piece;
  }
}

std::string Describe(const Allocation& allocation) {
  return fmt::format("allocation {}, {} bytes {} ({}{})", allocation.id, allocation.size,
                     allocation.device == kHost ? "of pinned host memory"
                                                : fmt::format("of device {}", allocation.device),
                     Describe(allocation.made),
                     allocation.live ? "" : "; freed by " + Describe(allocation.freed));
}

void Memory::Reset(int devices, uint64_t hbm, uint64_t quarantine) {
  for (auto& [base, allocation] : pinned_) allocation->live = false;
  pinned_.clear();
  late_damage_.clear();
  arenas_.resize(std::max(arenas_.size(), static_cast<size_t>(devices)));
  for (Arena& arena : arenas_) {
    for (auto& [base, allocation] : arena.allocations) allocation->live = false;
    arena.allocations.clear();
    arena.quarantine.clear();
    arena.quarantined = 0;
    arena.used = 0;
    arena.holes = {{0, kArena}};
    if (arena.worker != nullptr) madvise(arena.worker, kArena, MADV_DONTNEED);
  }
  hbm_ = hbm;
  quarantine_ = quarantine;
  next_ = 1;
}

void Memory::Map(int device) {
  void* mapped = mmap(nullptr, kArena, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::runtime_error("ascend emulator: no address space for device memory");
  madvise(mapped, kArena, MADV_DONTDUMP);
  arenas_[static_cast<size_t>(device)].worker = static_cast<uint8_t*>(mapped);
}

uint64_t Memory::Take(Arena& arena, uint64_t room) {
  for (auto hole = arena.holes.begin(); hole != arena.holes.end(); ++hole) {
    if (hole->second < room) continue;
    const uint64_t offset = hole->first;
    const uint64_t left = hole->second - room;
    arena.holes.erase(hole);
    if (left > 0) arena.holes[offset + room] = left;
    return offset;
  }
  return UINT64_MAX;
}

void Memory::Give(Arena& arena, uint64_t offset, uint64_t room) {
  auto after = arena.holes.lower_bound(offset);
  if (after != arena.holes.end() && offset + room == after->first) {
    room += after->second;
    after = arena.holes.erase(after);
  }
  if (after != arena.holes.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += room;
      return;
    }
  }
  arena.holes[offset] = room;
}

bool Memory::Release(Arena& arena, int device) {
  if (arena.quarantine.empty()) return false;
  const auto oldest = arena.quarantine.front();
  arena.quarantine.pop_front();
  arena.quarantined -= oldest->room;
  if (std::string damage = Damage(*oldest); !damage.empty())
    late_damage_.push_back(std::move(damage));
  arena.allocations.erase(oldest->base);
  const uint64_t offset = oldest->base - kFront - Face() - static_cast<uint64_t>(device) * kArena;
  if (oldest->room >= kReturned) {
    const uint64_t first = RoundUp(offset, 4096);
    const uint64_t last = (offset + oldest->room) / 4096 * 4096;
    madvise(arena.worker + first, last - first, MADV_DONTNEED);
  }
  Give(arena, offset, oldest->room);
  return true;
}

std::shared_ptr<Allocation> Memory::Allocate(int device, uint64_t size, const Site& site) {
  Arena& arena = arenas_[static_cast<size_t>(device)];
  if (size > hbm_) return nullptr;
  const uint64_t room = RoundUp(kFront + RoundUp(size, 32) + 32, 64);
  if (arena.used + room > hbm_) return nullptr;
  if (arena.worker == nullptr) Map(device);
  uint64_t offset = Take(arena, room);
  while (offset == UINT64_MAX && Release(arena, device)) offset = Take(arena, room);
  if (offset == UINT64_MAX) return nullptr;
  auto allocation = std::make_shared<Allocation>();
  allocation->id = next_++;
  allocation->device = device;
  allocation->base = Face() + static_cast<uint64_t>(device) * kArena + offset + kFront;
  allocation->size = size;
  allocation->room = room;
  allocation->made = site;
  uint8_t* at = arena.worker + offset;
  Fill(at, kFront, kRedPair);
  Fill(at + kFront, size, kFreshPoison);
  Fill(at + kFront + size, room - kFront - size, kRedPair);
  arena.used += room;
  arena.allocations[allocation->base] = allocation;
  return allocation;
}

std::shared_ptr<Allocation> Memory::AllocatePinned(uint64_t size, const Site& site) {
  if (size > (uint64_t{1} << 46)) return nullptr;
  void* memory = std::aligned_alloc(64, RoundUp(size, 64));
  if (memory == nullptr) return nullptr;
  Fill(static_cast<uint8_t*>(memory), size, kFreshPoison);
  auto allocation = std::make_shared<Allocation>();
  allocation->id = next_++;
  allocation->base = reinterpret_cast<uintptr_t>(memory);
  allocation->size = size;
  allocation->room = size;
  allocation->made = site;
  allocation->host.reset(memory);
  pinned_[allocation->base] = allocation;
  return allocation;
}

void Memory::Free(const std::shared_ptr<Allocation>& allocation, const Site& site) {
  allocation->live = false;
  allocation->freed = site;
  if (allocation->device == kHost) {
    Fill(reinterpret_cast<uint8_t*>(allocation->base), allocation->size, kFreedPoison);
    pinned_.erase(allocation->base);
    return;
  }
  Arena& arena = arenas_[static_cast<size_t>(allocation->device)];
  Fill(Worker(allocation->base), allocation->size, kFreedPoison);
  arena.used -= allocation->room;
  arena.quarantine.push_back(allocation);
  arena.quarantined += allocation->room;
  while (arena.quarantined > quarantine_) Release(arena, allocation->device);
}

std::shared_ptr<Allocation> Memory::Find(uintptr_t address) const {
  const int device = DeviceOf(address);
  const auto& map = device == kHost ? pinned_ : arenas_[static_cast<size_t>(device)].allocations;
  auto after = map.upper_bound(address);
  if (after == map.begin()) return nullptr;
  const auto& found = std::prev(after)->second;
  return address < found->base + found->size ? found : nullptr;
}

int Memory::DeviceOf(uintptr_t address) const {
  const uintptr_t face = Face();
  if (address < face || address >= face + kArena * arenas_.size()) return kHost;
  return static_cast<int>((address - face) / kArena);
}

uint8_t* Memory::Worker(uintptr_t address) const {
  const int device = DeviceOf(address);
  if (device == kHost) return reinterpret_cast<uint8_t*>(address);
  return arenas_[static_cast<size_t>(device)].worker + (address - Face()) % kArena;
}

std::string Memory::Damage(Allocation& allocation) {
  if (allocation.device == kHost) return "";
  uint8_t* base = Worker(allocation.base);
  if (!allocation.live) {
    const uint64_t at = FirstOther(base, allocation.size, kFreedPoison);
    if (at == allocation.size) return "";
    Fill(base, allocation.size, kFreedPoison);
    return fmt::format("byte {} was written after the memory was freed: {}", at,
                       Describe(allocation));
  }
  const uint64_t after = allocation.room - kFront - allocation.size;
  const uint64_t low = FirstOther(base - kFront, kFront, kRedPair);
  const uint64_t high = FirstOther(base + allocation.size, after, kRedPair);
  if (low == kFront && high == after) return "";
  Fill(base - kFront, kFront, kRedPair);
  Fill(base + allocation.size, after, kRedPair);
  if (high < after) {
    return fmt::format("written {} bytes past the end: {}", high + 1, Describe(allocation));
  }
  return fmt::format("written {} bytes before the start: {}", kFront - low, Describe(allocation));
}

std::vector<std::string> Memory::Damage(bool freed_too) {
  std::vector<std::string> found = std::exchange(late_damage_, {});
  for (Arena& arena : arenas_) {
    for (auto& [base, allocation] : arena.allocations) {
      if (!allocation->live && !freed_too) continue;
      std::string damage = Damage(*allocation);
      if (!damage.empty()) found.push_back(std::move(damage));
    }
  }
  return found;
}

uint64_t Memory::available(int device) const {
  return hbm_ - arenas_[static_cast<size_t>(device)].used;
}

std::vector<std::shared_ptr<Allocation>> Memory::Live() const {
  std::vector<std::shared_ptr<Allocation>> live;
  for (const Arena& arena : arenas_) {
    for (const auto& [base, allocation] : arena.allocations) {
      if (allocation->live) live.push_back(allocation);
    }
  }
  for (const auto& [base, allocation] : pinned_) live.push_back(allocation);
  return live;
}

}  // namespace ascend_emulator
