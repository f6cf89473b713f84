// AscendCL is initialised once for a process and ended once: whoever asks first does the one, whoever
// leaves last the other. Where somebody else has initialised it, it is theirs to end.
#pragma once

#include <memory>

#include "backends/ascend/symbol_table.h"
#include "base/result.h"

namespace cachalot::ascend {

class AclProcess {
 public:
  // `symbols` outlive it.
  static Result<std::shared_ptr<AclProcess>> Join(const SymbolTable& symbols);
  ~AclProcess();
  AclProcess(const AclProcess&) = delete;
  AclProcess& operator=(const AclProcess&) = delete;

 private:
  explicit AclProcess(const SymbolTable& symbols) : symbols_(symbols) {}

  const SymbolTable& symbols_;
};

}  // namespace cachalot::ascend
