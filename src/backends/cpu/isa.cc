#include "backends/cpu/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace cachalot::cpu {
namespace {

constexpr std::array<Isa, 4> kAll = {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

// AMX state is off until a process asks the kernel for it.
bool RequestTilePermission() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureTileData = 18;
  return ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

// g++ 12 does not know AMX in __builtin_cpu_supports: CPUID leaf 7, EDX bits 22 (bf16), 24 (tile),
// 25 (int8).
bool CpuHasAmx() {
  uint32_t eax = 7;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  constexpr uint32_t kWanted = (1U << 22) | (1U << 24) | (1U << 25);
  return (edx & kWanted) == kWanted;
}

}  // namespace

const char* NameOf(Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return "ref";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

Result<Isa> ParseIsa(const std::string& name) {
  for (const Isa isa : kAll) {
    if (name == NameOf(isa)) {
      return isa;
    }
  }
  return MakeError(StatusCode::kInvalidArgument,
                   "instruction set \"{}\" is none of ref, avx2, avx512, amx", name);
}

Isa DetectIsa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return Isa::kRef;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  return CpuHasAmx() && __builtin_cpu_supports("avx512bf16") && RequestTilePermission()
             ? Isa::kAmx
             : Isa::kAvx512;
}

Result<Isa> ChooseIsa(const std::string& requested) {
  const Isa best = DetectIsa();
  if (!requested.empty()) {
    CACHALOT_ASSIGN_OR_RETURN(const Isa isa, ParseIsa(requested));
    if (isa > best) {
      return MakeError(StatusCode::kUnsupported,
                       "instruction set {} asked for, but this machine runs {} at most", requested,
                       NameOf(best));
    }
    return isa;
  }
  const char* cap = std::getenv("CACHALOT_MAX_ISA");
  if (cap == nullptr) {
    return best;
  }
  const auto parsed = ParseIsa(cap);
  if (!parsed) {
    return MakeError(StatusCode::kInvalidArgument, "CACHALOT_MAX_ISA: {}", parsed.error().message);
  }
  return std::min(*parsed, best);
}

}  // namespace cachalot::cpu
