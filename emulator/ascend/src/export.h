// Exported functions. Each is an indirect function whose resolver says what dlsym answers: the
// implementation, or null where the environment hides the name (CACHALOT_EMULATOR_HIDE) or the
// flavour has not got it. So one library can be each of the packages that a machine may have.
#pragma once

#include "acl.h"

namespace ascend_emulator {

// The first of these that is not null and there: `custom` in the flavours custom and both, `official`
// (the standard library's successors of custom operators) in official and both, `standard` always.
void* Resolve(const char* name, void* custom, void* official, void* standard);

}  // namespace ascend_emulator

#define EMULATOR_EXPORT(name, custom, official, standard)                                        \
  extern "C" {                                                                                   \
  using emulator_##name = void();                                                                \
  static emulator_##name* emulator_resolve_##name() {                                            \
    return reinterpret_cast<emulator_##name*>(                                                   \
        ascend_emulator::Resolve(#name, (void*)(custom), (void*)(official), (void*)(standard))); \
  }                                                                                              \
  __attribute__((visibility("default"), ifunc("emulator_resolve_" #name))) void name();          \
  }                                                                                              \
  static_assert(true)

// Both phases of an operator, FooSize and FooRun say.
#define EMULATOR_STANDARD_OP(op, size, run)                      \
  EMULATOR_EXPORT(op##GetWorkspaceSize, nullptr, nullptr, size); \
  EMULATOR_EXPORT(op, nullptr, nullptr, run)
#define EMULATOR_CUSTOM_OP(op, size, run)                        \
  EMULATOR_EXPORT(op##GetWorkspaceSize, size, nullptr, nullptr); \
  EMULATOR_EXPORT(op, run, nullptr, nullptr)
#define EMULATOR_OFFICIAL_OP(op, size, run)                      \
  EMULATOR_EXPORT(op##GetWorkspaceSize, nullptr, size, nullptr); \
  EMULATOR_EXPORT(op, nullptr, run, nullptr)
