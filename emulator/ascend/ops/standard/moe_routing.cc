// aclnnMoeInitRoutingV3: rows of x in the order of their experts. aclnnMoeFinalizeRoutingV2: back, summed
// with weights, from the last choice to the first. Forms with capacities (drop/pad) are left out of the
// first.
#include <algorithm>
#include <cmath>

#include "export.h"
#include "quantise.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

enum QuantMode : int64_t { kNone = -1, kStatic = 0, kDynamic = 1 };
enum CountType : int64_t { kCumulative = 0, kCounts = 1, kPairs = 2 };

struct InitRouting {
  Operand x, expert_idx, scale, offset;
  Operand expanded_x, row_idx, counts, expanded_scale;
  int64_t experts, first, last;  // active: [first, last)
  int64_t count_type;
  bool count;
  int64_t quant;
  bool scatter;  // row index by place in expandedX, else by choice
};

bool HasScales(const InitRouting& routing) {
  return routing.quant == kDynamic || (routing.quant == kNone && !routing.scale.absent());
}

void WriteCounts(Kernel& kernel, const InitRouting& routing, const std::vector<int64_t>& counts) {
  std::vector<int64_t> values;
  if (routing.count_type == kPairs) {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) {
        values.insert(values.end(), {routing.first + static_cast<int64_t>(i), counts[i]});
      }
    }
    values.resize(2 * routing.experts);  // the list ends with a pair of zeros
  } else {
    int64_t sum = 0;
    for (const int64_t count : counts) {
      sum += count;
      values.push_back(routing.count_type == kCumulative ? sum : count);
    }
  }
  std::copy(values.begin(), values.end(), kernel.Data<int64_t>(routing.counts));
}

void WriteRow(Kernel& kernel, const InitRouting& routing, const Rows& in, const Rows& out,
              int64_t place, int64_t row, int64_t expert) {
  const bool scaled = !routing.scale.absent();
  if (routing.quant == kNone) {
    out.Copy(place, in, row);
    if (scaled) {
      kernel.Store(routing.expanded_scale, place, kernel.Load(routing.scale, row));
    }
    return;
  }
  std::vector<float> values = in.Read(row);
  if (routing.quant == kStatic) {
    const float scale = kernel.Load(routing.scale, 0);
    const float offset = kernel.Load(routing.offset, 0);
    for (float& value : values) {
      value = value * scale + offset;
    }
  } else {
    if (scaled) {
      std::vector<float> factors(values.size());
      Rows(kernel, routing.scale).Read(expert - routing.first, factors.data());
      std::transform(values.begin(), values.end(), factors.begin(), values.begin(),
                     std::multiplies<>());
    }
    kernel.Store(routing.expanded_scale, place, QuantiseRow(values));
  }
  out.Write(place, values.data());
}

void Route(Kernel& kernel, const InitRouting& routing) {
  const std::vector<int64_t> experts = kernel.LoadIntegers(routing.expert_idx);
  const int64_t choices = routing.expert_idx.dim(1);
  std::vector<std::vector<int64_t>> by_expert(routing.last - routing.first);
  for (size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] < -1 || experts[i] >= routing.experts) {
      return kernel.Fault(kVectorCoreException, "expertIdx[{}] is {}, outside [-1, {})", i,
                          experts[i], routing.experts);
    }
    if (experts[i] >= routing.first && experts[i] < routing.last) {
      by_expert[experts[i] - routing.first].push_back(static_cast<int64_t>(i));
    }
  }

  const Rows in(kernel, routing.x);
  const Rows out(kernel, routing.expanded_x);
  // What the scatter form leaves undefined is no index of anything.
  std::vector<int32_t> row_idx(experts.size(), routing.scatter ? 0x5A5A5A5A : -1);
  std::vector<int64_t> counts;
  int64_t place = 0;
  for (size_t expert = 0; expert < by_expert.size(); ++expert) {
    for (const int64_t choice : by_expert[expert]) {
      if (place < out.count()) {
        WriteRow(kernel, routing, in, out, place, choice / choices,
                 routing.first + static_cast<int64_t>(expert));
        row_idx[routing.scatter ? place : choice] =
            static_cast<int32_t>(routing.scatter ? choice : place);
        ++place;
      }
    }
    counts.push_back(static_cast<int64_t>(by_expert[expert].size()));
  }
  for (int64_t row = place; row < out.count(); ++row) {
    out.Poison(row);
    if (HasScales(routing)) {
      Rows(kernel, Slice(routing.expanded_scale, 0, row, 1)).Poison(0);
    }
  }
  if (!row_idx.empty()) {
    std::copy(row_idx.begin(), row_idx.end(), kernel.Data<int32_t>(routing.row_idx));
  }
  if (routing.count) {
    WriteCounts(kernel, routing, counts);
  }
}

void CheckScales(Call& call, const InitRouting& routing) {
  const int64_t rows = routing.x.dim(0);
  const int64_t width = routing.x.dim(1);
  if (routing.quant == kStatic) {
    call.Present(routing.scale, "quantMode 0 needs it");
    call.Present(routing.offset, "quantMode 0 needs it");
    ShapeOr(call, kAclnnTiling, routing.scale, {1});
    ShapeOr(call, kAclnnTiling, routing.offset, {1});
    return;
  }
  call.Absent(routing.offset, "it is for quantMode 0");
  if (routing.scale.absent()) {
    return;
  }
  if (routing.quant == kNone) {
    ShapeOr(call, kAclnnTiling, routing.scale, {rows});
  } else {
    ShapeOr(call, kAclnnTiling, routing.scale, {routing.last - routing.first, width});
  }
}

aclnnStatus MoeInitRoutingV3Size(const aclTensor* x, const aclTensor* expert_idx,
                                 const aclTensor* scale, const aclTensor* offset,
                                 int64_t active_num, int64_t expert_capacity, int64_t expert_num,
                                 int64_t drop_pad_mode, int64_t count_type, bool count,
                                 int64_t quant_mode, const aclIntArray* active_range,
                                 int64_t row_idx_type, const aclTensor* expanded_x,
                                 const aclTensor* expanded_row_idx, const aclTensor* counts,
                                 const aclTensor* expanded_scale, uint64_t* size,
                                 aclOpExecutor** executor) {
  Call call("aclnnMoeInitRoutingV3", size, executor);
  InitRouting routing{};
  routing.quant = quant_mode;
  routing.count = count;
  routing.x = quant_mode == kNone ? call.Input("x", x, {ACL_BF16, ACL_FLOAT16, ACL_FLOAT, ACL_INT8})
                                  : call.Input("x", x, {ACL_BF16, ACL_FLOAT16, ACL_FLOAT});
  routing.expert_idx = call.Input("expertIdx", expert_idx, {ACL_INT32});
  routing.scale = call.OptionalInput("scale", scale, {ACL_FLOAT});
  routing.offset = call.OptionalInput("offset", offset, {ACL_FLOAT});
  routing.expanded_x =
      call.Output("expandedXOut", expanded_x, {quant_mode == kNone ? routing.x.dtype : ACL_INT8});
  routing.row_idx = call.Output("expandedRowIdxOut", expanded_row_idx, {ACL_INT32});
  if (count) {
    routing.counts = call.Output("expertTokensCountOrCumsumOut", counts, {ACL_INT64});
  }
  if (HasScales(routing)) {
    routing.expanded_scale = call.Output("expandedScaleOut", expanded_scale, {ACL_FLOAT});
  }
  call.Rank(routing.x, {2});
  call.Rank(routing.expert_idx, {2});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  call.Expect(quant_mode >= kNone && quant_mode <= kDynamic, kAclnnTiling,
              "quantMode: {} where A2 and A3 have -1, 0 and 1", quant_mode);
  call.Expect(drop_pad_mode == 0, kAclnnTiling, "dropPadMode: {} is not 0 (dropless)",
              drop_pad_mode);
  call.Expect(expert_capacity >= 0, kAclnnTiling, "expertCapacity: {} is negative",
              expert_capacity);
  call.Expect(active_num >= -1, kAclnnTiling, "activeNum: {} is less than -1", active_num);
  call.Expect(count_type >= kCumulative && count_type <= kPairs, kAclnnTiling,
              "expertTokensNumType: {} is outside [0, 2]", count_type);
  call.Expect(row_idx_type == 0 || row_idx_type == 1, kAclnnTiling, "rowIdxType: {} is not 0 or 1",
              row_idx_type);
  const int64_t most = count_type == kPairs ? 5120 : 10240;
  call.Expect(expert_num >= 1 && expert_num <= most, kAclnnTiling,
              "expertNum: {} is outside [1, {}]", expert_num, most);

  std::vector<int64_t> range = {0, expert_num};
  if (active_range != nullptr) {
    range = call.Integers("activeExpertRange", active_range);
  }
  call.Expect(range.size() == 2 && range[0] >= 0 && range[0] < range[1] && range[1] <= expert_num,
              kAclnnTiling, "activeExpertRange: {} is not a range within [0, {})", ShapeText(range),
              expert_num);
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  routing.experts = expert_num;
  routing.first = range[0];
  routing.last = range[1];
  routing.count_type = count_type;
  routing.scatter = row_idx_type == 1;

  const int64_t rows = routing.x.dim(0);
  const int64_t choices = rows * routing.expert_idx.dim(1);
  const int64_t expanded = active_num > 0 ? std::min(active_num, choices) : choices;
  ShapeOr(call, kAclnnTiling, routing.expert_idx, {rows, routing.expert_idx.dim(1)});
  ShapeOr(call, kAclnnTiling, routing.expanded_x, {expanded, routing.x.dim(1)});
  ShapeOr(call, kAclnnTiling, routing.row_idx, {choices});
  call.Contiguous(routing.row_idx);
  CheckScales(call, routing);
  if (count) {
    ShapeOr(call, kAclnnTiling, routing.counts,
            count_type == kPairs ? std::vector<int64_t>{expert_num, 2}
                                 : std::vector<int64_t>{routing.last - routing.first});
    call.Contiguous(routing.counts);
  }
  if (HasScales(routing)) {
    ShapeOr(call, kAclnnTiling, routing.expanded_scale, {expanded});
  }
  return call.Finish([=](Kernel& kernel) { Route(kernel, routing); });
}

struct FinalizeRouting {
  Operand expanded_x, row_idx, x1, x2, bias, scales, expert_idx, out;
  int64_t choices;
  bool by_column;  // row index [k, rows], else [rows, k]
  bool padded;     // expandedX [experts, capacity, h]; -1 is a choice that was dropped
};

void Combine(Kernel& kernel, const FinalizeRouting& routing) {
  const Rows out(kernel, routing.out);
  const Rows expanded(kernel, routing.expanded_x);
  const std::vector<int64_t> places = kernel.LoadIntegers(routing.row_idx);
  std::vector<int64_t> experts;
  if (!routing.bias.absent()) {
    experts = kernel.LoadIntegers(routing.expert_idx);
  }
  std::vector<float> row(out.width());
  for (int64_t token = 0; token < out.count(); ++token) {
    std::vector<float> sum(out.width());
    for (int64_t choice = routing.choices; choice-- > 0;) {
      const int64_t at =
          routing.by_column ? choice * out.count() + token : token * routing.choices + choice;
      const int64_t place = places[at];
      if (place < (routing.padded ? -1 : 0) || place >= expanded.count()) {
        return kernel.Fault(kVectorCoreException, "expandedRowIdx[{}] is {}, outside [{}, {})", at,
                            place, routing.padded ? -1 : 0, expanded.count());
      }
      if (place == -1) {
        continue;
      }
      expanded.Read(place, row.data());
      if (!routing.bias.absent()) {
        const int64_t expert = experts[token * routing.choices + choice];
        if (expert < 0 || expert >= routing.bias.dim(0)) {
          return kernel.Fault(kVectorCoreException, "expertIdx of row {} is {}, outside [0, {})",
                              token, expert, routing.bias.dim(0));
        }
        const std::vector<float> bias = Rows(kernel, routing.bias).Read(expert);
        std::transform(row.begin(), row.end(), bias.begin(), row.begin(), std::plus<>());
      }
      const float scale = routing.scales.absent()
                              ? 1.0F
                              : kernel.Load(routing.scales, token * routing.choices + choice);
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += scale * row[i];
      }
    }
    for (const Operand* shared : {&routing.x1, &routing.x2}) {
      if (!shared->absent()) {
        Rows(kernel, *shared).Read(token, row.data());
        std::transform(sum.begin(), sum.end(), row.begin(), sum.begin(), std::plus<>());
      }
    }
    out.Write(token, sum.data());
  }
}

aclnnStatus MoeFinalizeRoutingV2Size(const aclTensor* expanded_x, const aclTensor* expanded_row_idx,
                                     const aclTensor* x1, const aclTensor* x2,
                                     const aclTensor* bias, const aclTensor* scales,
                                     const aclTensor* expert_idx, int64_t drop_pad_mode,
                                     const aclTensor* out, uint64_t* size,
                                     aclOpExecutor** executor) {
  Call call("aclnnMoeFinalizeRoutingV2", size, executor);
  FinalizeRouting routing{};
  routing.expanded_x = call.Input("expandedX", expanded_x, {ACL_BF16, ACL_FLOAT16, ACL_FLOAT});
  const aclDataType dtype = routing.expanded_x.dtype;
  routing.row_idx = call.Input("expandedRowIdx", expanded_row_idx, {ACL_INT32});
  routing.x1 = call.OptionalInput("x1", x1, {dtype});
  routing.x2 = call.OptionalInput("x2", x2, {dtype});
  routing.bias = call.OptionalInput("bias", bias, {dtype});
  routing.scales =
      call.OptionalInput("scales", scales, {dtype, dtype == ACL_BF16 ? ACL_FLOAT : dtype});
  routing.expert_idx = call.OptionalInput("expertIdx", expert_idx, {ACL_INT32});
  routing.out = call.Output("out", out, {dtype});
  call.Expect(drop_pad_mode >= 0 && drop_pad_mode <= 3, kAclnnInvalid,
              "dropPadMode: {} is outside [0, 3]", drop_pad_mode);
  routing.by_column = drop_pad_mode < 2;
  routing.padded = drop_pad_mode % 2 == 1;
  call.Rank(routing.expanded_x, {routing.padded ? 3 : 2});
  call.Rank(routing.row_idx, {1});
  call.Rank(routing.out, {2});
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  const int64_t rows = routing.out.dim(0);
  const int64_t width = routing.out.dim(1);
  const int64_t places = routing.row_idx.dim(0);
  call.Contiguous(routing.out);
  call.Expect(rows == 0 ? places == 0 : places % rows == 0, kAclnnTiling,
              "expandedRowIdx: {} entries for {} rows of out", places, rows);
  routing.choices = rows == 0 ? 0 : places / rows;
  call.Expect(routing.expanded_x.dim(-1) == width, kAclnnTiling,
              "expandedX: width {} where out has {}", routing.expanded_x.dim(-1), width);
  call.Expect(routing.padded || routing.expanded_x.dim(0) == places, kAclnnTiling,
              "expandedX: {} rows where expandedRowIdx has {}", routing.expanded_x.dim(0), places);
  call.Expect(!routing.scales.absent() || routing.choices <= 1, kAclnnTiling,
              "scales: missing with {} choices for each row", routing.choices);
  call.Expect(routing.x2.absent() || !routing.x1.absent(), kAclnnInvalid, "x2: given without x1");
  call.Expect(routing.bias.absent() || !routing.expert_idx.absent(), kAclnnInvalid,
              "expertIdx: missing where bias is there");
  for (const Operand& shared : {routing.x1, routing.x2}) {
    if (!shared.absent()) {
      ShapeOr(call, kAclnnTiling, shared, {rows, width});
    }
  }
  for (const Operand& choice : {routing.scales, routing.expert_idx}) {
    if (!choice.absent()) {
      ShapeOr(call, kAclnnTiling, choice, {rows, routing.choices});
    }
  }
  if (!routing.bias.absent()) {
    call.Shape(routing.bias, {-1, width});
  }
  return call.Finish([=](Kernel& kernel) { Combine(kernel, routing); });
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnMoeInitRoutingV3, MoeInitRoutingV3Size);
EMULATOR_STANDARD_OP(aclnnMoeFinalizeRoutingV2, MoeFinalizeRoutingV2Size);

}  // namespace ascend_emulator::standard
