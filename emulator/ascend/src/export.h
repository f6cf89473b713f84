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

// Both phases of an operator, for files that have op.h: the first is written out, the second is Run for
// all.
#define EMULATOR_SECOND_PHASE(op)                                                               \
  static aclnnStatus emulator_run_##op(void* workspace, uint64_t size, aclOpExecutor* executor, \
                                       aclrtStream stream) {                                    \
    return ascend_emulator::Run(#op, workspace, size, executor, stream);                        \
  }                                                                                             \
  static_assert(true)

#define EMULATOR_STANDARD_OP(op, first_phase)                           \
  EMULATOR_SECOND_PHASE(op);                                            \
  EMULATOR_EXPORT(op##GetWorkspaceSize, nullptr, nullptr, first_phase); \
  EMULATOR_EXPORT(op, nullptr, nullptr, emulator_run_##op)
#define EMULATOR_CUSTOM_OP(op, first_phase)                             \
  EMULATOR_SECOND_PHASE(op);                                            \
  EMULATOR_EXPORT(op##GetWorkspaceSize, first_phase, nullptr, nullptr); \
  EMULATOR_EXPORT(op, emulator_run_##op, nullptr, nullptr)
#define EMULATOR_OFFICIAL_OP(op, first_phase)                           \
  EMULATOR_SECOND_PHASE(op);                                            \
  EMULATOR_EXPORT(op##GetWorkspaceSize, nullptr, first_phase, nullptr); \
  EMULATOR_EXPORT(op, nullptr, emulator_run_##op, nullptr)
// One name in the custom package and in another, with an argument list or a meaning of its own in each.
#define EMULATOR_CUSTOM_AND_OFFICIAL_OP(op, custom, official)       \
  EMULATOR_SECOND_PHASE(op);                                        \
  EMULATOR_EXPORT(op##GetWorkspaceSize, custom, official, nullptr); \
  EMULATOR_EXPORT(op, emulator_run_##op, emulator_run_##op, nullptr)
#define EMULATOR_CUSTOM_AND_STANDARD_OP(op, custom, standard)       \
  EMULATOR_SECOND_PHASE(op);                                        \
  EMULATOR_EXPORT(op##GetWorkspaceSize, custom, nullptr, standard); \
  EMULATOR_EXPORT(op, emulator_run_##op, nullptr, emulator_run_##op)
