// Hyper-connections around a sub-layer, four residual streams: aclnnHcPre and aclnnHcPost (custom),
// aclnnMhcPreSinkhorn and aclnnMhcPost (official, where x names the streams and hOut the output).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "export.h"
#include "op.h"
#include "paged.h"
#include "rows.h"

namespace ascend_emulator {
namespace {

constexpr int64_t kStreams = 4;
constexpr int64_t kMixes = (2 + kStreams) * kStreams;

struct Pre {
  Operand x;      // [..., 4, d]
  Operand fn;     // FP32 [24, 4 * d]
  Operand scale;  // FP32 [3]
  Operand base;   // FP32 [24]
  Operand y;      // [..., d]
  Operand post;   // FP32 [..., 4]
  Operand comb;   // FP32 [..., 4, 4], or flat
  int64_t iterations = 0;
  float hc_eps = 0;
  float norm_eps = 0;
};

// HF32, as the A3 kernel multiplies in: 10 bits of mantissa. With CACHALOT_EMULATOR_HF32=1.
bool UsesHf32() {
  const char* value = std::getenv("CACHALOT_EMULATOR_HF32");
  return value != nullptr && std::string_view(value) == "1";
}

void TruncateToHf32(std::vector<float>& values) {
  for (float& value : values) {
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000U);
  }
}

float Sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// Rows, then columns, sum to about one; every denominator has eps.
void Sinkhorn(float* comb, int64_t iterations, float eps) {
  for (int64_t i = 0; i < kStreams; ++i) {
    float* row = comb + i * kStreams;
    const float top = *std::max_element(row, row + kStreams);
    float sum = 0;
    for (int64_t j = 0; j < kStreams; ++j) {
      row[j] = std::exp(row[j] - top);
      sum += row[j];
    }
    for (int64_t j = 0; j < kStreams; ++j) {
      row[j] = row[j] / sum + eps;
    }
  }
  const auto normalise = [&](int64_t step, int64_t other) {
    for (int64_t i = 0; i < kStreams; ++i) {
      float sum = eps;
      for (int64_t j = 0; j < kStreams; ++j) {
        sum += comb[i * step + j * other];
      }
      for (int64_t j = 0; j < kStreams; ++j) {
        comb[i * step + j * other] /= sum;
      }
    }
  };
  normalise(1, kStreams);
  for (int64_t i = 1; i < iterations; ++i) {
    normalise(kStreams, 1);
    normalise(1, kStreams);
  }
}

void Mix(Kernel& kernel, const Pre& call) {
  const int64_t width = call.x.dim(-1);
  const int64_t row = kStreams * width;
  const int64_t tokens = call.x.count() / row;
  const bool hf32 = UsesHf32();
  const Rows x(kernel, call.x);
  std::vector<float> fn = Rows(kernel, call.fn).Read(0, kMixes * row);
  const std::vector<float> scale = Rows(kernel, call.scale).Read(0, 3);
  const std::vector<float> base = Rows(kernel, call.base).Read(0, kMixes);
  if (hf32) {
    TruncateToHf32(fn);
  }
  Rows y(kernel, call.y);
  Rows post(kernel, call.post);
  Rows comb(kernel, call.comb);
  std::vector<float> streams(static_cast<size_t>(row));
  std::vector<float> out(static_cast<size_t>(width));
  for (int64_t token = 0; token < tokens; ++token) {
    x.Read(token * row, row, streams.data());
    const float mean = Dot(streams.data(), streams.data(), row) / static_cast<float>(row);
    const float inverse = 1.0F / std::sqrt(mean + call.norm_eps);
    std::vector<float> factors = streams;
    if (hf32) {
      TruncateToHf32(factors);
    }
    float mix[kMixes];
    for (int64_t i = 0; i < kMixes; ++i) {
      const float product = Dot(factors.data(), fn.data() + i * row, row) * inverse;
      const size_t part = i < kStreams ? 0 : i < 2 * kStreams ? 1 : 2;
      mix[i] = product * scale[part] + base[static_cast<size_t>(i)];
    }
    std::fill(out.begin(), out.end(), 0.0F);
    for (int64_t i = 0; i < kStreams; ++i) {
      AddScaled(Sigmoid(mix[i]) + call.hc_eps, streams.data() + i * width, width, out.data());
      mix[kStreams + i] = 2.0F * Sigmoid(mix[kStreams + i]);
    }
    Sinkhorn(mix + 2 * kStreams, call.iterations, call.hc_eps);
    y.Write(token * width, width, out.data());
    post.Write(token * kStreams, kStreams, mix + kStreams);
    comb.Write(token * kStreams * kStreams, kStreams * kStreams, mix + 2 * kStreams);
  }
}

struct Post {
  Operand x;         // [..., d], the sub-layer's output
  Operand residual;  // [..., 4, d], the streams before it
  Operand post;      // FP32 [..., 4]
  Operand comb;      // FP32 [..., 4, 4]: first index the source stream
  Operand y;         // [..., 4, d]
};

void Add(Kernel& kernel, const Post& call) {
  const int64_t width = call.x.dim(-1);
  const int64_t row = kStreams * width;
  const Rows x(kernel, call.x);
  const Rows residual(kernel, call.residual);
  const Rows post(kernel, call.post);
  const Rows comb(kernel, call.comb);
  Rows y(kernel, call.y);
  std::vector<float> input(static_cast<size_t>(width));
  std::vector<float> streams(static_cast<size_t>(row));
  std::vector<float> out(static_cast<size_t>(row));
  for (int64_t token = 0; token < call.x.count() / width; ++token) {
    x.Read(token * width, width, input.data());
    residual.Read(token * row, row, streams.data());
    const std::vector<float> gates = post.Read(token * kStreams, kStreams);
    const std::vector<float> mixes = comb.Read(token * kStreams * kStreams, kStreams * kStreams);
    for (int64_t j = 0; j < kStreams; ++j) {
      float* to = out.data() + j * width;
      std::fill_n(to, width, 0.0F);
      for (int64_t i = 0; i < kStreams; ++i) {
        AddScaled(mixes[static_cast<size_t>(i * kStreams + j)], streams.data() + i * width, width,
                  to);
      }
      AddScaled(gates[static_cast<size_t>(j)], input.data(), width, to);
    }
    y.Write(token * row, row, out.data());
  }
}

// The shape of the tokens: what stands before the last `axes` axes.
std::vector<int64_t> Leading(const Operand& operand, int64_t axes) {
  return {operand.shape.begin(), operand.shape.end() - axes};
}

std::vector<int64_t> With(std::vector<int64_t> shape, std::initializer_list<int64_t> axes) {
  shape.insert(shape.end(), axes);
  return shape;
}

void CheckPre(Call& call, const Pre& a, int64_t mult, bool flat) {
  call.Expect(mult == kStreams, kAclnnInvalid, "hcMult {}, not 4", mult);
  call.Expect(a.iterations >= 1 && a.iterations <= 100, kAclnnInvalid,
              "{} iterations, not in 1..100", a.iterations);
  if (!call.ok()) {
    return;
  }
  const std::vector<int64_t> tokens = Leading(a.x, 2);
  const int64_t width = a.x.dim(-1);
  call.Shape(a.x, With(tokens, {kStreams, width}));
  call.Shape(a.fn, {kMixes, kStreams * width});
  call.Shape(a.scale, {3});
  call.Shape(a.base, {kMixes});
  call.Shape(a.y, With(tokens, {width}));
  call.Shape(a.post, With(tokens, {kStreams}));
  call.Shape(a.comb,
             flat ? With(tokens, {kStreams * kStreams}) : With(tokens, {kStreams, kStreams}));
  call.Expect(a.y.dtype == a.x.dtype, kAclnnInvalid, "{}: {}, but x is {}", a.y.name,
              NameOf(a.y.dtype), NameOf(a.x.dtype));
  for (const Operand* operand : {&a.x, &a.fn, &a.scale, &a.base, &a.y, &a.post, &a.comb}) {
    call.Contiguous(*operand);
  }
}

void CheckPost(Call& call, const Post& a, aclnnStatus streams_code) {
  if (!call.ok()) {
    return;
  }
  const std::vector<int64_t> tokens = Leading(a.residual, 2);
  const int64_t width = a.residual.dim(-1);
  call.Expect(a.residual.dim(-2) == kStreams, streams_code, "{}: {} streams, not 4",
              a.residual.name, a.residual.dim(-2));
  call.Shape(a.x, With(tokens, {width}));
  call.Shape(a.post, With(tokens, {kStreams}));
  call.Shape(a.comb, With(tokens, {kStreams, kStreams}));
  call.SameShape(a.residual, a.y);
  for (const Operand* operand : {&a.x, &a.y}) {
    call.Expect(operand->dtype == a.residual.dtype, kAclnnInvalid, "{}: {}, but {} is {}",
                operand->name, NameOf(operand->dtype), a.residual.name, NameOf(a.residual.dtype));
  }
  for (const Operand* operand : {&a.x, &a.residual, &a.post, &a.comb, &a.y}) {
    call.Contiguous(*operand);
  }
}

aclnnStatus HcPreSize(const aclTensor* x, const aclTensor* hc_fn, const aclTensor* hc_scale,
                      const aclTensor* hc_base, int64_t hc_mult, int64_t sinkhorn_iters,
                      double hc_eps, double norm_eps, aclTensor* y, aclTensor* post,
                      aclTensor* comb_frag, uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnHcPre", size, executor);
  Pre a;
  a.x = call.Input("x", x, {ACL_BF16});
  a.fn = call.Input("hcFn", hc_fn, {ACL_FLOAT});
  a.scale = call.Input("hcScale", hc_scale, {ACL_FLOAT});
  a.base = call.Input("hcBase", hc_base, {ACL_FLOAT});
  a.y = call.Output("y", y, {ACL_BF16});
  a.post = call.Output("post", post, {ACL_FLOAT});
  a.comb = call.Output("combFrag", comb_frag, {ACL_FLOAT});
  a.iterations = sinkhorn_iters;
  a.hc_eps = static_cast<float>(hc_eps);
  a.norm_eps = static_cast<float>(norm_eps);
  call.Rank(a.x, {3, 4});
  CheckPre(call, a, hc_mult, false);
  if (call.ok()) {
    call.Limit(a.x.dim(-1) == 4096 || a.x.dim(-1) == 7168, "HcPre.hidden",
               "x: hidden size {}, neither 4096 nor 7168", a.x.dim(-1));
  }
  return call.Finish([a](Kernel& kernel) { Mix(kernel, a); });
}

aclnnStatus HcPostSize(const aclTensor* x, const aclTensor* residual, const aclTensor* post,
                       const aclTensor* comb, aclTensor* y, uint64_t* size,
                       aclOpExecutor** executor) {
  Call call("aclnnHcPost", size, executor);
  Post a;
  a.x = call.Input("x", x, {ACL_BF16});
  a.residual = call.Input("residual", residual, {ACL_BF16});
  a.post = call.Input("post", post, {ACL_FLOAT});
  a.comb = call.Input("comb", comb, {ACL_FLOAT});
  a.y = call.Output("y", y, {ACL_BF16});
  call.Rank(a.residual, {3, 4});
  CheckPost(call, a, kAclnnInvalid);
  if (call.ok()) {
    call.Limit(a.x.dim(-1) == 4096 || a.x.dim(-1) == 7168, "HcPost.hidden",
               "x: hidden size {}, neither 4096 nor 7168", a.x.dim(-1));
  }
  return call.Finish([a](Kernel& kernel) { Add(kernel, a); });
}

aclnnStatus MhcPreSize(const aclTensor* x, const aclTensor* phi, const aclTensor* alpha,
                       const aclTensor* bias, int64_t hc_mult, int64_t num_iters, double hc_eps,
                       double norm_eps, bool need_backward, aclTensor* hin, aclTensor* h_post,
                       aclTensor* h_res, aclTensor* /*h_pre*/, aclTensor* /*hc_before_norm*/,
                       aclTensor* /*inv_rms*/, aclTensor* /*sum_out*/, aclTensor* /*norm_out*/,
                       uint64_t* size, aclOpExecutor** executor) {
  Call call("aclnnMhcPreSinkhorn", size, executor);
  Pre a;
  a.x = call.Input("x", x, {ACL_BF16});
  a.fn = call.Input("phi", phi, {ACL_FLOAT});
  a.scale = call.Input("alpha", alpha, {ACL_FLOAT});
  a.base = call.Input("bias", bias, {ACL_FLOAT});
  a.y = call.Output("hin", hin, {ACL_BF16});
  a.post = call.Output("hPost", h_post, {ACL_FLOAT});
  a.comb = call.Output("hRes", h_res, {ACL_FLOAT});
  a.iterations = num_iters;
  a.hc_eps = static_cast<float>(hc_eps);
  a.norm_eps = static_cast<float>(norm_eps);
  call.Expect(!need_backward, kAclnnInvalid, "needBackward: not emulated");
  call.Rank(a.x, {4});
  CheckPre(call, a, hc_mult, true);
  if (call.ok()) {
    call.Limit(a.x.dim(-1) % 128 == 0, "MhcPreSinkhorn.hidden",
               "x: hidden size {}, not a multiple of 128", a.x.dim(-1));
  }
  return call.Finish([a](Kernel& kernel) { Mix(kernel, a); });
}

aclnnStatus MhcPostSize(const aclTensor* x, const aclTensor* h_res, const aclTensor* h_out,
                        const aclTensor* h_post, aclTensor* out, uint64_t* size,
                        aclOpExecutor** executor) {
  Call call("aclnnMhcPost", size, executor);
  Post a;
  a.residual = call.Input("x", x, kHalfTypes);
  a.comb = call.Input("hRes", h_res, {ACL_FLOAT});
  a.x = call.Input("hOut", h_out, kHalfTypes);
  a.post = call.Input("hPost", h_post, {ACL_FLOAT});
  a.y = call.Output("out", out, kHalfTypes);
  call.Rank(a.residual, {4});
  CheckPost(call, a, kAclnnExecutor);
  if (call.ok()) {
    call.Limit(a.x.dim(-1) % 128 == 0, "MhcPost.hidden", "x: hidden size {}, not a multiple of 128",
               a.x.dim(-1));
  }
  return call.Finish([a](Kernel& kernel) { Add(kernel, a); });
}

}  // namespace
}  // namespace ascend_emulator

EMULATOR_CUSTOM_OP(aclnnHcPre, ascend_emulator::HcPreSize);
EMULATOR_CUSTOM_OP(aclnnHcPost, ascend_emulator::HcPostSize);
EMULATOR_OFFICIAL_OP(aclnnMhcPreSinkhorn, ascend_emulator::MhcPreSize);
EMULATOR_OFFICIAL_OP(aclnnMhcPost, ascend_emulator::MhcPostSize);
