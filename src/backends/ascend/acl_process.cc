#include "backends/ascend/acl_process.h"

#include <map>
#include <mutex>

#include "backends/ascend/error_text.h"

namespace cachalot::ascend {
namespace {

struct Membership {
  int members = 0;
  bool ours = false;  // to end
};

// By library: a test may load more than one.
struct Memberships {
  std::mutex mutex;
  std::map<decltype(SymbolTable::aclInit), Membership> of;
};

Memberships& AllMemberships() {
  static Memberships memberships;
  return memberships;
}

}  // namespace

Result<std::shared_ptr<AclProcess>> AclProcess::Join(const SymbolTable& symbols) {
  Memberships& all = AllMemberships();
  const std::lock_guard lock(all.mutex);
  Membership& membership = all.of[symbols.aclInit];
  if (membership.members == 0) {
    const aclError code = symbols.aclInit(nullptr);
    if (code != ACL_SUCCESS && code != ACL_ERROR_REPEAT_INITIALIZE) {
      return tl::unexpected(ExplainCode(symbols, "starting AscendCL", code));
    }
    membership.ours = code == ACL_SUCCESS;
  }
  ++membership.members;
  return std::shared_ptr<AclProcess>(new AclProcess(symbols));
}

AclProcess::~AclProcess() {
  Memberships& all = AllMemberships();
  const std::lock_guard lock(all.mutex);
  Membership& membership = all.of[symbols_.aclInit];
  if (--membership.members == 0 && membership.ours) {
    symbols_.aclFinalize();
  }
}

}  // namespace cachalot::ascend
