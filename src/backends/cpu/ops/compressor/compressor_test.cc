#include "backends/cpu/ops/compressor/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Compressor, "compressor")

}  // namespace
}  // namespace cachalot::cpu
