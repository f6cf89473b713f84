#include "backends/cpu/ops/hc_pre/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(HcPre, "hc_pre")

}  // namespace
}  // namespace cachalot::cpu
