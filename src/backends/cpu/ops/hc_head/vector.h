// HcHead on vectors: the mixes and the sum over streams are those of HcPre.
#pragma once

namespace cachalot {
struct HcHeadParams;
}

namespace cachalot::cpu {

class Context;

void Avx2HcHead(const HcHeadParams& params, Context& context);
void Avx512HcHead(const HcHeadParams& params, Context& context);

}  // namespace cachalot::cpu
