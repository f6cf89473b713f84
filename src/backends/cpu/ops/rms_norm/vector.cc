#include "backends/cpu/ops/rms_norm/vector.h"

#include "backends/cpu/ops/share_values.h"

namespace cachalot::cpu {
namespace {

void Run(const RmsNormParams& params, Context& context, void (*norm)(const NormRows&)) {
  const int64_t width = params.x.shape[params.x.shape.rank() - 1];
  const int64_t rows = width > 0 ? params.x.num_elements() / width : 0;
  const float* weight = params.weight.empty() ? nullptr : params.weight.As<float>();
  ShareValues(context.pool(), rows, width, [&](int64_t begin, int64_t end) {
    norm({params.x.As<float>() + begin * width, weight, params.y.As<float>() + begin * width,
          end - begin, width, params.eps});
  });
}

}  // namespace

void Avx2RmsNorm(const RmsNormParams& params, Context& context) {
  Run(params, context, avx2::Norm);
}
void Avx512RmsNorm(const RmsNormParams& params, Context& context) {
  Run(params, context, avx512::Norm);
}

}  // namespace cachalot::cpu
