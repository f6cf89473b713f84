#include "backends/cpu/ops/indexer/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Indexer, "indexer")

}  // namespace
}  // namespace cachalot::cpu
