#include "caller.h"

#include <execinfo.h>
#include <link.h>

#include <cstdint>

namespace ascend_emulator {
namespace {

struct Segment {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// The library's code.
const Segment& Own() {
  static const Segment own = [] {
    Segment found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
          const auto here = reinterpret_cast<uintptr_t>(&CallerOutside);
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr)& header = info->dlpi_phdr[i];
            const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
            if (header.p_type != PT_LOAD || here < begin || here >= begin + header.p_memsz)
              continue;
            *static_cast<Segment*>(data) = {begin, begin + header.p_memsz};
            return 1;
          }
          return 0;
        },
        &found);
    return found;
  }();
  return own;
}

}  // namespace

const void* CallerOutside() {
  void* frames[12];
  const int count = backtrace(frames, 12);
  for (int i = 0; i < count; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(frames[i]);
    if (at < Own().begin || at >= Own().end) return frames[i];
  }
  return nullptr;
}

}  // namespace ascend_emulator
