#pragma once

#include <span>
#include <vector>

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// m = (fn v) / sqrt(mean(v^2) + rms_eps), one value for each row of fn; HcHead's reference shares
// it.
std::vector<double> HcMixes(std::span<const float> v, const Tensor& fn, double rms_eps);

// y = sum over streams of weights[s] * x[s].
void HcCollapse(std::span<const double> weights, const float* x, std::span<float> y);

void RefHcPre(const HcPreParams& params, Context& context);

}  // namespace cachalot::cpu
