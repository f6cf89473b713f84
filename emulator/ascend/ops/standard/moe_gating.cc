// Routers: aclnnMoeGatingTopK, and with hash mode and sqrt(softplus) aclnnMoeGatingTopKV2 (official) and
// aclnnMoeGatingTopKHash (custom), which have one argument list. Equal scores go to the lower expert;
// sums run from the last chosen expert to the first.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "export.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

enum class Norm { kSoftmax, kSigmoid, kSqrtSoftplus };

struct Arguments {
  const aclTensor* x;
  const aclTensor* bias;
  const aclTensor* input_ids;
  const aclTensor* tid2eid;
  int64_t k;
  int64_t k_group;
  int64_t group_count;
  int64_t group_select_mode;
  int64_t renorm;
  int64_t norm_type;
  bool out_flag;
  double routed_scaling_factor;
  double eps;
  const aclTensor* y;
  const aclTensor* expert_idx;
  const aclTensor* out;
};

// What the operators of the family differ in.
struct Variant {
  const char* name;
  bool sqrt_softplus;
  bool any_index_types;  // ids and table may be any mix of INT32 and INT64, else one of each
};

struct Router {
  Operand x, bias, ids, table, y, expert_idx, out;
  int64_t k, k_group, groups;
  bool sum_of_two;  // a group's score: the sum of its best two, else its best
  bool renorm;
  bool hash;
  Norm norm;
  float scale, eps;
};

void Normalise(Norm norm, std::vector<float>& row) {
  if (norm == Norm::kSoftmax) {
    const float largest = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (float& value : row) {
      value = std::exp(value - largest);
    }
    for (size_t i = row.size(); i-- > 0;) {
      sum += row[i];
    }
    for (float& value : row) {
      value /= sum;
    }
    return;
  }
  for (float& value : row) {
    value = norm == Norm::kSigmoid ? 1.0F / (1.0F + std::exp(-value))
                                   : std::sqrt(value > 20 ? value : std::log1p(std::exp(value)));
  }
}

// Indices of the k largest, best first.
std::vector<int64_t> Largest(const std::vector<float>& scores, int64_t k) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  order.resize(k);
  return order;
}

// Leaves only experts of the best groups in the running.
void KeepGroups(const Router& router, std::vector<float>& scores) {
  const int64_t size = static_cast<int64_t>(scores.size()) / router.groups;
  std::vector<float> group_scores(router.groups);
  for (int64_t group = 0; group < router.groups; ++group) {
    const auto begin = scores.begin() + group * size;
    std::vector<float> sorted(begin, begin + size);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    group_scores[group] = router.sum_of_two ? sorted[0] + sorted[1] : sorted[0];
  }
  const std::vector<int64_t> kept = Largest(group_scores, router.k_group);
  for (int64_t expert = 0; expert < static_cast<int64_t>(scores.size()); ++expert) {
    if (std::find(kept.begin(), kept.end(), expert / size) == kept.end()) {
      scores[expert] = -std::numeric_limits<float>::infinity();
    }
  }
}

// The experts that the table has for a token; none after a fault.
std::vector<int64_t> OfToken(Kernel& kernel, const Router& router, int64_t row, int64_t id) {
  const int64_t rows = router.table.dim(0);
  const int64_t experts = router.x.dim(1);
  if (id < 0 || id >= rows) {
    kernel.Fault(kVectorCoreException, "inputIds[{}] is {}, outside [0, {})", row, id, rows);
    return {};
  }
  std::vector<int64_t> chosen = kernel.LoadIntegers(Slice(router.table, 0, id, 1));
  for (const int64_t expert : chosen) {
    if (expert < 0 || expert >= experts) {
      kernel.Fault(kVectorCoreException, "tid2eid[{}] names expert {}, outside [0, {})", id, expert,
                   experts);
      return {};
    }
  }
  return chosen;
}

std::vector<int64_t> Best(const Router& router, std::vector<float> scores,
                          const std::vector<float>& bias) {
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] += bias[i];
    if (std::isnan(scores[i])) {  // a row of padding: some expert has to have it
      scores[i] = -std::numeric_limits<float>::infinity();
    }
  }
  if (router.groups > 1) {
    KeepGroups(router, scores);
  }
  return Largest(scores, router.k);
}

std::vector<float> Weights(const Router& router, const std::vector<float>& scores,
                           const std::vector<int64_t>& chosen) {
  std::vector<float> weights(chosen.size());
  float sum = 0;
  for (size_t i = chosen.size(); i-- > 0;) {
    weights[i] = scores[chosen[i]];
    sum += weights[i];
  }
  for (float& weight : weights) {
    weight = (router.renorm ? weight / (sum + router.eps) : weight) * router.scale;
  }
  return weights;
}

void Route(Kernel& kernel, const Router& router) {
  const Rows in(kernel, router.x);
  const Rows weights(kernel, router.y);
  const Rows experts(kernel, router.expert_idx);
  const std::vector<float> bias =
      router.bias.absent() ? std::vector<float>(in.width()) : kernel.LoadAll(router.bias);
  const std::vector<int64_t> ids =
      router.ids.absent() ? std::vector<int64_t>() : kernel.LoadIntegers(router.ids);
  for (int64_t row = 0; row < in.count(); ++row) {
    std::vector<float> scores = in.Read(row);
    Normalise(router.norm, scores);
    const std::vector<int64_t> chosen =
        router.hash ? OfToken(kernel, router, row, ids[row]) : Best(router, scores, bias);
    if (kernel.faulted()) {
      return;
    }
    weights.Write(row, Weights(router, scores, chosen).data());
    experts.Write(row, std::vector<float>(chosen.begin(), chosen.end()).data());
    if (!router.out.absent()) {
      Rows(kernel, router.out).Write(row, scores.data());
    }
  }
}

void CheckHash(Call& call, const Variant& variant, const Arguments& in, const Router& router) {
  const int64_t experts = router.x.dim(1);
  call.Expect(router.k <= 64, kAclnnTiling, "k: {}, more than 64 in hash mode", router.k);
  call.Expect(router.k_group == router.groups || router.groups == experts, kAclnnTiling,
              "kGroup: {} of {} groups in hash mode, which restricts none", router.k_group,
              router.groups);
  call.Present(router.table, "inputIds is there");
  if (router.x.dim(0) > 0) {
    call.Present(router.ids, "tid2eid is there");
    ShapeOr(call, kAclnnTiling, router.ids, {router.x.dim(0)});
  }
  call.Rank(router.table, {2});
  if (!call.ok()) {
    return;
  }
  ShapeOr(call, kAclnnTiling, router.table, {router.table.dim(0), router.k});
  call.Expect(variant.any_index_types || in.input_ids == nullptr || router.ids.absent() ||
                  router.ids.dtype != router.table.dtype,
              kAclnnInvalid, "inputIds: {} and tid2eid of it too, one must be INT32, one INT64",
              NameOf(router.ids.dtype));
}

aclnnStatus Gating(const Variant& variant, const Arguments& in, uint64_t* size,
                   aclOpExecutor** executor) {
  Call call(variant.name, size, executor);
  Router router{};
  router.x = call.Input("x", in.x, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  router.bias = call.OptionalInput("bias", in.bias, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
  router.ids = call.OptionalInput("inputIds", in.input_ids, {ACL_INT32, ACL_INT64});
  router.table = call.OptionalInput("tid2eid", in.tid2eid, {ACL_INT32, ACL_INT64});
  router.y = call.Output("yOut", in.y, {router.x.dtype});
  router.expert_idx = call.Output("expertIdxOut", in.expert_idx, {ACL_INT32});
  if (in.out_flag) {
    router.out = call.Output("outOut", in.out, {ACL_FLOAT});
  }
  call.Rank(router.x, {2});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const int64_t rows = router.x.dim(0);
  const int64_t experts = router.x.dim(1);
  router.k = in.k;
  router.k_group = in.k_group;
  router.groups = in.group_count;
  call.Expect(experts >= 1 && experts <= 2048, kAclnnTiling, "x: {} experts, outside [1, 2048]",
              experts);
  call.Expect(in.group_count >= 1 && experts % std::max<int64_t>(in.group_count, 1) == 0,
              kAclnnTiling, "groupCount: {} does not divide {} experts", in.group_count, experts);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const int64_t per_group = experts / in.group_count;
  call.Expect((per_group + 31) / 32 * 32 * in.group_count <= 2048, kAclnnTiling,
              "groupCount: {} groups of {} experts, padded to 32 each, are more than 2048",
              in.group_count, per_group);
  call.Expect(in.k_group >= 1 && in.k_group <= in.group_count, kAclnnTiling,
              "kGroup: {} is outside [1, {}]", in.k_group, in.group_count);
  call.Expect(in.k >= 1 && in.k <= per_group * in.k_group, kAclnnTiling, "k: {} is outside [1, {}]",
              in.k, per_group * in.k_group);
  call.Expect(in.group_select_mode == 0 || in.group_select_mode == 1, kAclnnTiling,
              "groupSelectMode: {} is not 0 or 1", in.group_select_mode);
  call.Expect(per_group > in.group_select_mode, kAclnnTiling,
              "groupSelectMode: {} with groups of {} experts", in.group_select_mode, per_group);
  call.Expect(in.renorm == 0 || in.renorm == 1, kAclnnTiling, "renorm: {} is not 0 or 1",
              in.renorm);
  const int64_t most = variant.sqrt_softplus ? 2 : 1;
  call.Expect(in.norm_type >= 0 && in.norm_type <= most, kAclnnTiling,
              "normType: {} is outside [0, {}]", in.norm_type, most);
  if (!router.bias.absent()) {
    ShapeOr(call, kAclnnTiling, router.bias, {experts});
  }
  ShapeOr(call, kAclnnTiling, router.y, {rows, in.k});
  ShapeOr(call, kAclnnTiling, router.expert_idx, {rows, in.k});
  if (in.out_flag) {
    ShapeOr(call, kAclnnTiling, router.out, {rows, experts});
  }
  router.sum_of_two = in.group_select_mode == 1;
  router.norm = static_cast<Norm>(in.norm_type);
  router.renorm = in.renorm == 1 || router.norm != Norm::kSoftmax;
  router.scale = static_cast<float>(in.routed_scaling_factor);
  router.eps = static_cast<float>(in.eps);
  router.hash = !router.table.absent() || !router.ids.absent();
  if (router.hash) {
    CheckHash(call, variant, in, router);
  }
  return call.Finish([=](Kernel& kernel) { Route(kernel, router); });
}

aclnnStatus MoeGatingTopKSize(const aclTensor* x, const aclTensor* bias, int64_t k, int64_t k_group,
                              int64_t group_count, int64_t group_select_mode, int64_t renorm,
                              int64_t norm_type, bool out_flag, double routed_scaling_factor,
                              double eps, const aclTensor* y, const aclTensor* expert_idx,
                              const aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  return Gating({"aclnnMoeGatingTopK", false, false},
                {x, bias, nullptr, nullptr, k, k_group, group_count, group_select_mode, renorm,
                 norm_type, out_flag, routed_scaling_factor, eps, y, expert_idx, out},
                size, executor);
}

// The same arguments in the custom package and in the standard library.
constexpr Variant kV2 = {"aclnnMoeGatingTopKV2", true, true};
constexpr Variant kHash = {"aclnnMoeGatingTopKHash", true, false};

template <const Variant& kVariant>
aclnnStatus HashedSize(const aclTensor* x, const aclTensor* bias, const aclTensor* input_ids,
                       const aclTensor* tid2eid, int64_t k, int64_t k_group, int64_t group_count,
                       int64_t group_select_mode, int64_t renorm, int64_t norm_type, bool out_flag,
                       double routed_scaling_factor, double eps, const aclTensor* y,
                       const aclTensor* expert_idx, const aclTensor* out, uint64_t* size,
                       aclOpExecutor** executor) {
  return Gating(kVariant,
                {x, bias, input_ids, tid2eid, k, k_group, group_count, group_select_mode, renorm,
                 norm_type, out_flag, routed_scaling_factor, eps, y, expert_idx, out},
                size, executor);
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnMoeGatingTopK, MoeGatingTopKSize);
EMULATOR_OFFICIAL_OP(aclnnMoeGatingTopKV2, HashedSize<kV2>);
EMULATOR_CUSTOM_OP(aclnnMoeGatingTopKHash, HashedSize<kHash>);

}  // namespace ascend_emulator::standard
