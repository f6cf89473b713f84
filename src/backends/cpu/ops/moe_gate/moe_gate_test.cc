#include "backends/cpu/ops/moe_gate/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(MoeGate, "moe_gate")

}  // namespace
}  // namespace cachalot::cpu
