// The devices' memory and pinned host memory. A device's memory has two places in the address space:
// where the program's pointers point it can neither be read nor written by anybody; the workers have it
// elsewhere. All under the runtime's lock, but Worker.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "history.h"
#include "report.h"

namespace ascend_emulator {

// What fresh and freed memory is filled with: NaN as FP32, FP16 and BF16, and as an integer of 16 bits
// or more larger than any index. Freed memory differs in the last bit.
inline constexpr uint16_t kFreshPoison = 0x7fff;
inline constexpr uint16_t kFreedPoison = 0x7ffe;
inline constexpr uint8_t kRedZone = 0xfb;

inline constexpr int kHost = -1;

void Fill(uint8_t* at, uint64_t bytes, uint16_t pattern);

struct Allocation {
  uint64_t id = 0;
  int device = kHost;
  uintptr_t base = 0;  // as the program knows it
  uint64_t size = 0;
  uint64_t room = 0;  // with the padding that the device adds, and red zones: from base - kFront
  Site made;
  Site freed;
  bool live = true;
  History history;
  int graphs = 0;  // captured graphs that refer to it
  std::unique_ptr<void, void (*)(void*)> host{
      nullptr, std::free};  // pinned memory: as long as a task has it
};

// "allocation 3, 4096 bytes of device 0 (aclrtMalloc(4096 bytes), call 12, from ...)"
std::string Describe(const Allocation& allocation);

class Memory {
 public:
  // Nothing allocated. The reservations of address space stay.
  void Reset(int devices, uint64_t hbm, uint64_t quarantine);

  // Null where the device has no room.
  std::shared_ptr<Allocation> Allocate(int device, uint64_t size, const Site& site);
  std::shared_ptr<Allocation> AllocatePinned(uint64_t size, const Site& site);
  // The allocation must be alive.
  void Free(const std::shared_ptr<Allocation>& allocation, const Site& site);

  // The allocation that the address lies in or, for device addresses, that it lay in before its memory
  // was freed; null for any other.
  std::shared_ptr<Allocation> Find(uintptr_t address) const;
  // The device whose memory the address would be; kHost for host addresses.
  int DeviceOf(uintptr_t address) const;
  // Where the workers see a device address; host addresses are the same for everybody.
  uint8_t* Worker(uintptr_t address) const;

  // What was written beside allocations and, on demand, into freed ones; damage is mended so that it is
  // told once.
  std::vector<std::string> Damage(bool freed_too = false);
  // The same for one allocation: "" where it is whole.
  std::string Damage(Allocation& allocation);

  uint64_t total() const { return hbm_; }
  uint64_t available(int device) const;
  std::vector<std::shared_ptr<Allocation>> Live() const;

 private:
  struct Arena {
    uint8_t* worker = nullptr;           // null: not mapped yet
    std::map<uint64_t, uint64_t> holes;  // offset -> bytes
    std::map<uintptr_t, std::shared_ptr<Allocation>>
        allocations;  // live and in quarantine, by base
    std::deque<std::shared_ptr<Allocation>> quarantine;
    uint64_t quarantined = 0;
    uint64_t used = 0;
  };

  void Map(int device);
  bool Release(Arena& arena, int device);  // the oldest of the quarantine
  uint64_t Take(Arena& arena, uint64_t room);
  void Give(Arena& arena, uint64_t offset, uint64_t room);

  std::vector<Arena> arenas_;
  std::map<uintptr_t, std::shared_ptr<Allocation>> pinned_;
  uint64_t hbm_ = 0;
  uint64_t quarantine_ = 0;
  uint64_t next_ = 1;
  std::vector<std::string> late_damage_;  // found as memory left the quarantine
};

}  // namespace ascend_emulator
