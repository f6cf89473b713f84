// MoeGate on vectors: the gate's product is one of Linear; what follows is a few hundred values a
// token, in double.
#pragma once

namespace cachalot {
struct MoeGateParams;
}

namespace cachalot::cpu {

class Context;

void Avx2MoeGate(const MoeGateParams& params, Context& context);
void Avx512MoeGate(const MoeGateParams& params, Context& context);

}  // namespace cachalot::cpu
