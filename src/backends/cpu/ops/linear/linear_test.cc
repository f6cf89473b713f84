#include "backends/cpu/ops/linear/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Linear, "linear")

}  // namespace
}  // namespace cachalot::cpu
