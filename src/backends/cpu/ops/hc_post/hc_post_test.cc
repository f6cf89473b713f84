#include "backends/cpu/ops/hc_post/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(HcPost, "hc_post")

}  // namespace
}  // namespace cachalot::cpu
