#include "backends/cpu/ops/rms_norm/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(RmsNorm, "rms_norm")

}  // namespace
}  // namespace cachalot::cpu
