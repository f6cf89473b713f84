#include "backends/cpu/ops/hc_head/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(HcHead, "hc_head")

}  // namespace
}  // namespace cachalot::cpu
