#include "backends/cpu/ops/rope/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Rope, "rope")

}  // namespace
}  // namespace cachalot::cpu
