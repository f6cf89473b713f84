#include "checkpoint/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace cachalot {
namespace {

struct Alias {
  std::string_view given;
  std::string_view published;
};

// Aliases of one part of a name, whatever stands before it.
constexpr std::array<Alias, 19> kAliases = {{{"self_attn", "attn"},
                                             {"mlp", "ffn"},
                                             {"embed_tokens", "embed"},
                                             {"lm_head", "head"},
                                             {"input_layernorm", "attn_norm"},
                                             {"post_attention_layernorm", "ffn_norm"},
                                             {"q_a_proj", "wq_a"},
                                             {"q_a_norm", "q_norm"},
                                             {"q_a_layernorm", "q_norm"},
                                             {"q_b_proj", "wq_b"},
                                             {"kv_proj", "wkv"},
                                             {"o_a_proj", "wo_a"},
                                             {"o_b_proj", "wo_b"},
                                             {"sinks", "attn_sink"},
                                             {"position_bias", "ape"},
                                             {"up_proj", "w3"},
                                             {"e_score_correction_bias", "bias"},
                                             {"weight_scale_inv", "scale"},
                                             {"weight_scale", "scale"}}};

std::vector<std::string> Split(std::string_view name) {
  std::vector<std::string> parts;
  while (true) {
    const size_t dot = name.find('.');
    parts.emplace_back(name.substr(0, dot));
    if (dot == std::string_view::npos) {
      return parts;
    }
    name.remove_prefix(dot + 1);
  }
}

// transformers puts the indexer inside the compressor and the indexer's own compressor flat inside
// the indexer: compressor.indexer.kv_proj is indexer.compressor.wkv.
void UnnestIndexer(std::vector<std::string>& parts) {
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (parts[i] != "compressor" || parts[i + 1] != "indexer") {
      continue;
    }
    const auto at = parts.begin() + static_cast<ptrdiff_t>(i);
    if (parts[i + 2] == "scorer") {
      parts.erase(at + 2);
    }
    const std::string& inner = parts[i + 2];
    if (inner == "q_b_proj" || inner == "weights_proj") {
      parts.erase(at);
    } else {
      std::swap(parts[i], parts[i + 1]);
    }
    return;
  }
}

// attn_hc.fn is hc_attn_fn and hc_head.hc_fn is hc_head_fn.
void JoinHyperConnection(std::vector<std::string>& parts) {
  if (parts.size() < 2) {
    return;
  }
  const std::string owner = parts[parts.size() - 2];
  std::string& last = parts.back();
  if (owner == "attn_hc" || owner == "ffn_hc") {
    last = (owner == "attn_hc" ? "hc_attn_" : "hc_ffn_") + last;
  } else if (owner == "hc_head" && last.starts_with("hc_")) {
    last = "hc_head_" + last.substr(3);
  } else {
    return;
  }
  parts.erase(parts.end() - 2);
}

std::string PublishedPart(const std::string& part, bool in_compressor, bool fused) {
  if (part == "gate_proj") {
    return in_compressor ? "wgate" : "w1";
  }
  if (part == "kv_norm" && in_compressor) {
    return "norm";
  }
  if (part == "down_proj") {
    return fused ? part : "w2";
  }
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(),
                                  [&](const Alias& a) { return a.given == part; });
  return alias == kAliases.end() ? part : std::string(alias->published);
}

}  // namespace

std::string CanonicalName(std::string_view given) {
  std::vector<std::string> parts = Split(given);
  if (parts.size() > 1 && parts[0] == "model") {
    parts.erase(parts.begin());
  }
  UnnestIndexer(parts);
  JoinHyperConnection(parts);
  bool in_compressor = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool fused = i > 0 && parts[i - 1] == "experts" && i + 1 == parts.size();
    in_compressor = in_compressor || parts[i] == "compressor";
    parts[i] = PublishedPart(parts[i], in_compressor, fused);
  }
  return fmt::format("{}", fmt::join(parts, "."));
}

}  // namespace cachalot
