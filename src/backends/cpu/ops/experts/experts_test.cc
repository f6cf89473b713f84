#include "backends/cpu/ops/experts/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Experts, "experts")

}  // namespace
}  // namespace cachalot::cpu
