#include "backends/cpu/ops/store_rows/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(StoreRows, "store_rows")

}  // namespace
}  // namespace cachalot::cpu
