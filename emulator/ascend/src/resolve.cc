#include "export.h"
#include "settings.h"

namespace ascend_emulator {

// Called by the dynamic linker, which holds its lock: takes no lock but that of the names.
void* Resolve(const char* name, void* custom, void* official, void* standard) {
  const Names names = CurrentNames();
  if (names.hidden.contains(name)) return nullptr;
  if (custom != nullptr && names.flavour != Flavour::kOfficial) return custom;
  if (official != nullptr && names.flavour != Flavour::kCustom) return official;
  return standard;
}

}  // namespace ascend_emulator
