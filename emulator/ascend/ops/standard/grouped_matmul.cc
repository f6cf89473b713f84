// aclnnGroupedMatmulV5 and aclnnGroupedMatmulWeightNz, split by rows of x (groupType 0) into one result:
//
//   x INT8, weight INT8, bias? INT32: out BF16 (scale BF16), FP16 (scale FLOAT), each perTokenScale?
//     FLOAT [rows]; out INT32 raw, without scales
//   x BF16, weight BF16, bias? FLOAT, out BF16; x FP16, weight FP16, bias? FP16, out FP16
//
// The weight is one [E, K, N] or a list of up to 128 [K, N]. The other forms are left out.
#include <algorithm>
#include <numeric>

#include "export.h"
#include "matrix.h"
#include "rows.h"

namespace ascend_emulator::standard {
namespace {

enum ListType : int64_t { kCumulative = 0, kCounts = 1, kPairs = 2 };

struct Arguments {
  const aclTensorList* x;
  const aclTensorList* weight;
  const aclTensorList* bias;
  const aclTensorList* scale;
  const aclTensorList* offset;
  const aclTensorList* antiquant_scale;
  const aclTensorList* antiquant_offset;
  const aclTensorList* per_token_scale;
  const aclTensor* group_list;
  const aclTensorList* activation_input;
  const aclTensorList* activation_quant_scale;
  const aclTensorList* activation_quant_offset;
  int64_t split_item;
  int64_t group_type;
  int64_t group_list_type;
  int64_t act_type;
  const aclIntArray* tuning_config;
  int64_t quant_group_size;
  const aclTensorList* out;
  const aclTensorList* activation_feature_out;
  const aclTensorList* dyn_quant_scale_out;
};

struct Problem {
  Operand x, out, group_list, row_scale;
  std::vector<Operand> weights, biases, scales;  // one with a leading axis of groups, or one each
  std::vector<MatrixLayout> layouts;
  int64_t groups;
  int64_t list_type;
};

// What belongs to a group: an entry of a list, or a row of the only tensor.
std::vector<float> RowOfGroup(Kernel& kernel, const std::vector<Operand>& list, int64_t group) {
  if (list.size() > 1) {
    return kernel.LoadAll(list[group]);
  }
  return Rows(kernel, list[0]).Read(list[0].rank() == 1 ? 0 : group);
}

std::vector<int64_t> IntegersOfGroup(Kernel& kernel, const std::vector<Operand>& list,
                                     int64_t group) {
  if (list.size() > 1) {
    return kernel.LoadIntegers(list[group]);
  }
  return kernel.LoadIntegers(list[0].rank() == 1 ? list[0] : Slice(list[0], 0, group, 1));
}

// Rows of x that follow those of the entries before.
struct Entry {
  int64_t group;
  int64_t rows;
};

// Empty after a fault.
std::vector<Entry> Entries(Kernel& kernel, const Problem& problem) {
  const std::vector<int64_t> list = kernel.LoadIntegers(problem.group_list);
  const int64_t rows = problem.x.dim(0);
  std::vector<Entry> entries;
  int64_t end = 0;
  for (int64_t i = 0; i < problem.groups; ++i) {
    Entry entry{i, 0};
    if (problem.list_type == kPairs) {
      entry = {list[2 * i], list[2 * i + 1]};
    } else if (problem.list_type == kCumulative) {
      entry.rows = list[i] - end;
    } else {
      entry.rows = list[i];
    }
    end += entry.rows;
    if (entry.rows < 0 || entry.group < 0 || entry.group >= problem.groups || end > rows) {
      kernel.Fault(kAiCoreException,
                   "groupList: entry {} gives group {} {} rows, {} by then, where x has {}", i,
                   entry.group, entry.rows, end, rows);
      return {};
    }
    entries.push_back(entry);
  }
  return entries;
}

void Quantised(Kernel& kernel, const Problem& problem, const MatrixLayout& layout,
               const uint8_t* weight, int64_t group, int64_t begin, int64_t rows) {
  const Rows out(kernel, problem.out);
  const auto* from = kernel.Data<int8_t>(problem.x) + begin * layout.k;
  std::vector<int32_t> product =
      Multiply(std::vector<int8_t>(from, from + rows * layout.k), rows, layout, weight);
  if (!problem.biases.empty()) {
    const std::vector<int64_t> bias = IntegersOfGroup(kernel, problem.biases, group);
    for (size_t i = 0; i < product.size(); ++i) {
      product[i] += static_cast<int32_t>(bias[i % layout.n]);
    }
  }
  if (problem.out.dtype == ACL_INT32) {
    std::copy(product.begin(), product.end(), kernel.Data<int32_t>(problem.out) + begin * layout.n);
    return;
  }
  const std::vector<float> scale = RowOfGroup(kernel, problem.scales, group);
  std::vector<float> values(layout.n);
  for (int64_t row = 0; row < rows; ++row) {
    const float row_scale =
        problem.row_scale.absent() ? 1.0F : kernel.Load(problem.row_scale, begin + row);
    for (int64_t i = 0; i < layout.n; ++i) {
      values[i] = static_cast<float>(product[row * layout.n + i]) * scale[i] * row_scale;
    }
    out.Write(begin + row, values.data());
  }
}

void Plain(Kernel& kernel, const Problem& problem, const MatrixLayout& layout,
           const uint8_t* weight, int64_t group, int64_t begin, int64_t rows) {
  const Rows in(kernel, problem.x);
  const Rows out(kernel, problem.out);
  std::vector<float> x(rows * layout.k);
  for (int64_t row = 0; row < rows; ++row) {
    in.Read(begin + row, x.data() + row * layout.k);
  }
  std::vector<float> product = Multiply(x, rows, layout, weight);
  if (!problem.biases.empty()) {
    const std::vector<float> bias = RowOfGroup(kernel, problem.biases, group);
    for (size_t i = 0; i < product.size(); ++i) {
      product[i] += bias[i % layout.n];
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    out.Write(begin + row, product.data() + row * layout.n);
  }
}

void Compute(Kernel& kernel, const Problem& problem) {
  const std::vector<Entry> entries = Entries(kernel, problem);
  if (kernel.faulted()) {
    return;
  }
  int64_t begin = 0;
  for (const auto& [group, rows] : entries) {
    if (rows == 0) {
      continue;
    }
    const bool one = problem.weights.size() == 1;
    const MatrixLayout& layout = problem.layouts[one ? 0 : group];
    const auto* weight = kernel.Data<uint8_t>(problem.weights[one ? 0 : group]) +
                         (one ? group * layout.batch_stride * SizeOf(layout.dtype) : 0);
    const auto compute = problem.x.dtype == ACL_INT8 ? Quantised : Plain;
    compute(kernel, problem, layout, weight, group, begin, rows);
    begin += rows;
  }
  // The kernels leave garbage behind the last group.
  const Rows out(kernel, problem.out);
  for (int64_t row = begin; row < out.count(); ++row) {
    out.Poison(row);
  }
}

// One tensor [groups, n], or one [n] for each group.
void PerChannel(Call& call, const std::vector<Operand>& list, const Problem& problem, int64_t n) {
  if (list.empty() || !call.ok()) {
    return;
  }
  call.Expect(list.size() == problem.weights.size(), kAclnnInvalid,
              "{}: {} tensors where weight has {}", list[0].name, list.size(),
              problem.weights.size());
  for (const Operand& operand : list) {
    call.Shape(operand, problem.weights.size() == 1 ? std::vector<int64_t>{problem.groups, n}
                                                    : std::vector<int64_t>{n});
  }
}

void CheckTypes(Call& call, const Problem& problem) {
  const aclDataType x = problem.x.dtype;
  const aclDataType out = problem.out.dtype;
  const bool quantised = x == ACL_INT8;
  call.Expect(quantised ? out != ACL_INT8 : out == x, kAclnnInvalid, "out: {} where x is {}",
              NameOf(out), NameOf(x));
  const bool scaled = quantised && out != ACL_INT32;
  call.Expect(scaled == !problem.scales.empty(), kAclnnInvalid, "scale: {} where x is {}, out {}",
              scaled ? "missing" : "given", NameOf(x), NameOf(out));
  call.Expect(scaled || problem.row_scale.absent(), kAclnnInvalid,
              "perTokenScale: given where x is {}, out {}", NameOf(x), NameOf(out));
  for (const Operand& scale : problem.scales) {
    const aclDataType expected = out == ACL_BF16 ? ACL_BF16 : ACL_FLOAT;
    call.Expect(scale.dtype == expected, kAclnnInvalid, "scale: {} where an out of {} needs {}",
                NameOf(scale.dtype), NameOf(out), NameOf(expected));
  }
  for (const Operand& bias : problem.biases) {
    const aclDataType expected = quantised ? ACL_INT32 : x == ACL_BF16 ? ACL_FLOAT : ACL_FLOAT16;
    call.Expect(bias.dtype == expected, kAclnnInvalid, "bias: {} where x of {} needs {}",
                NameOf(bias.dtype), NameOf(x), NameOf(expected));
  }
}

void CheckUnused(Call& call, const Arguments& in) {
  NoTensors(call, "offset", in.offset);
  NoTensors(call, "antiquantScale", in.antiquant_scale);
  NoTensors(call, "antiquantOffset", in.antiquant_offset);
  NoTensors(call, "activationInput", in.activation_input);
  NoTensors(call, "activationQuantScale", in.activation_quant_scale);
  NoTensors(call, "activationQuantOffset", in.activation_quant_offset);
  NoTensors(call, "activationFeatureOut", in.activation_feature_out);
  NoTensors(call, "dynQuantScaleOut", in.dyn_quant_scale_out);
  call.Expect(in.split_item == 2 || in.split_item == 3, kAclnnInvalid,
              "splitItem: {} where one result needs 2 or 3", in.split_item);
  call.Expect(in.group_type == 0, kAclnnInvalid, "groupType: {} is not 0 (rows of x)",
              in.group_type);
  call.Expect(in.group_list_type >= kCumulative && in.group_list_type <= kPairs, kAclnnInvalid,
              "groupListType: {} is outside [0, 2]", in.group_list_type);
  call.Expect(in.act_type == 0, kAclnnInvalid, "actType: {} is not 0 (none)", in.act_type);
  call.Expect(in.quant_group_size == 0, kAclnnInvalid,
              "quantGroupSize: {} where per-channel scales need 0", in.quant_group_size);
}

void CheckShapes(Call& call, Problem& problem) {
  const bool one = problem.weights.size() == 1;
  call.Expect(problem.weights.size() <= 128, kAclnnInvalid, "weight: {} tensors, more than 128",
              problem.weights.size());
  for (const Operand& weight : problem.weights) {
    call.Rank(weight, {one ? 3 : 2});
    problem.layouts.push_back(LayoutOf(call, weight, false));
  }
  if (!call.ok()) {
    return;
  }
  problem.groups = one ? problem.weights[0].dim(0) : static_cast<int64_t>(problem.weights.size());
  const MatrixLayout& first = problem.layouts[0];
  call.Expect(problem.groups <= 1024, kAclnnInvalid, "weight: {} groups, more than 1024",
              problem.groups);
  call.Limit(problem.list_type == kCumulative || problem.groups > 1, "GroupedMatmul.groups",
             "groupList: one group where groupListType {} needs more", problem.list_type);
  for (const MatrixLayout& layout : problem.layouts) {
    call.Expect(layout.k == first.k && layout.n == first.n, kAclnnInvalid,
                "weight: [{},{}] after [{},{}]", layout.k, layout.n, first.k, first.n);
  }
  call.Expect(problem.x.dim(1) == first.k, kAclnnInvalid, "x: k is {} where weight has {}",
              problem.x.dim(1), first.k);
  call.Shape(problem.out, {problem.x.dim(0), first.n});
  call.Contiguous(problem.x);
  call.Contiguous(problem.out);
  if (problem.list_type == kPairs) {
    call.Shape(problem.group_list, {problem.groups, 2});
  } else {
    call.Shape(problem.group_list, {problem.groups});
  }
  if (!problem.row_scale.absent()) {
    call.Shape(problem.row_scale, {problem.x.dim(0)});
  }
  PerChannel(call, problem.biases, problem, first.n);
  PerChannel(call, problem.scales, problem, first.n);
}

aclnnStatus GroupedMatmul(const char* name, const Arguments& in, bool nz, uint64_t* size,
                          aclOpExecutor** executor) {
  Call call(name, size, executor);
  Problem problem{};
  problem.list_type = in.group_list_type;
  const std::vector<Operand> x = call.Inputs("x", in.x, {ACL_INT8, ACL_BF16, ACL_FLOAT16});
  call.Expect(x.size() == 1, kAclnnInvalid, "x: {} tensors where one is taken", x.size());
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  problem.x = x[0];
  problem.weights = call.Inputs("weight", in.weight, {problem.x.dtype});
  if (in.bias != nullptr) {
    problem.biases = call.Inputs("bias", in.bias, {ACL_INT32, ACL_FLOAT, ACL_FLOAT16});
  }
  if (in.scale != nullptr) {
    problem.scales = call.Inputs("scale", in.scale, {ACL_BF16, ACL_FLOAT});
  }
  if (in.per_token_scale != nullptr) {
    const std::vector<Operand> list = call.Inputs("perTokenScale", in.per_token_scale, {ACL_FLOAT});
    call.Expect(list.size() <= 1, kAclnnInvalid, "perTokenScale: {} tensors, more than one",
                list.size());
    if (!list.empty()) {
      problem.row_scale = list[0];
    }
  }
  problem.group_list = call.Input("groupList", in.group_list, {ACL_INT64});
  CheckUnused(call, in);
  const std::vector<Operand> out = call.Outputs("out", in.out, {ACL_BF16, ACL_FLOAT16, ACL_INT32});
  call.Expect(out.size() == 1, kAclnnInvalid, "out: {} tensors where one is written", out.size());
  call.Rank(problem.x, {2});
  call.Expect(!problem.weights.empty(), kAclnnInvalid, "weight: an empty list");
  if (!call.ok()) {
    return call.Finish(nullptr);
  }
  problem.out = out[0];
  FormatIs(call, problem.x, ACL_FORMAT_ND);
  if (!nz) {
    for (const Operand& weight : problem.weights) {
      FormatIs(call, weight, ACL_FORMAT_ND);
    }
  }
  CheckShapes(call, problem);
  CheckTypes(call, problem);
  if (in.tuning_config != nullptr && call.ok()) {
    for (const int64_t rows : call.Integers("tuningConfig", in.tuning_config)) {
      call.Expect(rows >= 0 && rows <= problem.x.dim(0), kAclnnInvalid,
                  "tuningConfig: {} is outside [0, {}]", rows, problem.x.dim(0));
    }
  }
  return call.Finish([=](Kernel& kernel) { Compute(kernel, problem); });
}

aclnnStatus GroupedMatmulV5Size(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* bias,
    const aclTensorList* scale, const aclTensorList* offset, const aclTensorList* antiquant_scale,
    const aclTensorList* antiquant_offset, const aclTensorList* per_token_scale,
    const aclTensor* group_list, const aclTensorList* activation_input,
    const aclTensorList* activation_quant_scale, const aclTensorList* activation_quant_offset,
    int64_t split_item, int64_t group_type, int64_t group_list_type, int64_t act_type,
    aclIntArray* tuning_config, aclTensorList* out, aclTensorList* activation_feature_out,
    aclTensorList* dyn_quant_scale_out, uint64_t* size, aclOpExecutor** executor) {
  return GroupedMatmul("aclnnGroupedMatmulV5",
                       {x,
                        weight,
                        bias,
                        scale,
                        offset,
                        antiquant_scale,
                        antiquant_offset,
                        per_token_scale,
                        group_list,
                        activation_input,
                        activation_quant_scale,
                        activation_quant_offset,
                        split_item,
                        group_type,
                        group_list_type,
                        act_type,
                        tuning_config,
                        0,
                        out,
                        activation_feature_out,
                        dyn_quant_scale_out},
                       false, size, executor);
}

aclnnStatus GroupedMatmulWeightNzSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* bias,
    const aclTensorList* scale, const aclTensorList* offset, const aclTensorList* antiquant_scale,
    const aclTensorList* antiquant_offset, const aclTensorList* per_token_scale,
    const aclTensor* group_list, const aclTensorList* activation_input,
    const aclTensorList* activation_quant_scale, const aclTensorList* activation_quant_offset,
    int64_t split_item, int64_t group_type, int64_t group_list_type, int64_t act_type,
    aclIntArray* tuning_config, int64_t quant_group_size, aclTensorList* out,
    aclTensorList* activation_feature_out, aclTensorList* dyn_quant_scale_out, uint64_t* size,
    aclOpExecutor** executor) {
  return GroupedMatmul("aclnnGroupedMatmulWeightNz",
                       {x,
                        weight,
                        bias,
                        scale,
                        offset,
                        antiquant_scale,
                        antiquant_offset,
                        per_token_scale,
                        group_list,
                        activation_input,
                        activation_quant_scale,
                        activation_quant_offset,
                        split_item,
                        group_type,
                        group_list_type,
                        act_type,
                        tuning_config,
                        quant_group_size,
                        out,
                        activation_feature_out,
                        dyn_quant_scale_out},
                       true, size, executor);
}

}  // namespace

EMULATOR_STANDARD_OP(aclnnGroupedMatmulV5, GroupedMatmulV5Size);
EMULATOR_STANDARD_OP(aclnnGroupedMatmulWeightNz, GroupedMatmulWeightNzSize);

}  // namespace ascend_emulator::standard
