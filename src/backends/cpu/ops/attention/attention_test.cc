#include "backends/cpu/ops/attention/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Attention, "attention")

}  // namespace
}  // namespace cachalot::cpu
