// Spellings of tensor names. Checkpoints come with the published names, with those of transformers,
// and with mixtures of both.
#pragma once

#include <string>
#include <string_view>

namespace cachalot {

// The published name of a tensor: "model.layers.0.self_attn.q_a_proj.weight_scale_inv" →
// "layers.0.attn.wq_a.scale". Names that are no alias stay as they are. Experts that a file
// fuses keep "…ffn.experts.gate_up_proj" and "…ffn.experts.down_proj".
std::string CanonicalName(std::string_view given);

}  // namespace cachalot
