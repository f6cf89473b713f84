#include <cmath>
#include <numeric>

#include "backends/cpu/ops/attention/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Attention, "attention")

// Row `index` of a request's pages.
std::vector<float> RowOf(const RowPool& pool, const Tensor& pages, int64_t page_rows,
                         int64_t request, int64_t index) {
  const int64_t page = pages.As<int32_t>()[request * pages.shape[1] + index / page_rows];
  std::vector<float> row(static_cast<size_t>(pool.layout.width));
  DecodeRow(pool.layout, pool.row(page * page_rows + index % page_rows), row);
  return row;
}

// Written as the definition is: a softmax over a set of keys and one more term below.
TEST(Attention, WeighsExactlyTheKeysOfItsSet) {
  for (const Problem<AttentionParams>& problem : AttentionProblems()) {
    SCOPED_TRACE(problem.name);
    const auto made = problem.Make();
    const AttentionParams& params = made->params;
    Context context(2, Isa::kRef);
    Attention(params, context);
    const int64_t heads = params.q.shape[1];
    const auto width = static_cast<size_t>(params.q.shape[2]);
    for (int64_t b = 0; b < params.requests.start_pos.shape[0]; ++b) {
      const int32_t* starts = params.requests.query_starts.As<int32_t>() + b;
      for (int64_t t = starts[0]; t < starts[1]; ++t) {
        const int64_t position = params.requests.start_pos.As<int32_t>()[b] + t - starts[0];
        std::vector<std::vector<float>> keys;
        for (int64_t p = 0; p <= position + 1000; ++p) {
          if (params.key_begin.As<int32_t>()[t] <= p && p < params.key_end.As<int32_t>()[t]) {
            keys.push_back(
                RowOf(params.window, params.window_pages, params.window_page_rows, b, p));
          }
        }
        for (int64_t e = 0; params.ratio > 0 && (e + 1) * params.ratio <= position + 1; ++e) {
          bool in_set = params.selected.empty();
          for (int64_t i = 0; !in_set && i < params.selected.shape[1]; ++i) {
            in_set = params.selected.As<int32_t>()[t * params.selected.shape[1] + i] == e;
          }
          if (in_set) {
            keys.push_back(RowOf(params.entries, params.entry_pages, params.page_entries, b, e));
          }
        }
        for (const int64_t head : {int64_t{0}, heads - 1}) {
          const auto at = static_cast<size_t>(t * heads + head) * width;
          const float* q = params.q.As<float>() + at;
          std::vector<long double> sums(width);
          long double below = std::exp(static_cast<long double>(params.sink.As<float>()[head]));
          for (const std::vector<float>& key : keys) {
            const long double dot = std::inner_product(key.begin(), key.end(), q, 0.0L);
            const long double weight = std::exp(dot / std::sqrt(static_cast<long double>(width)));
            below += weight;
            for (size_t c = 0; c < width; ++c) {
              sums[c] += weight * key[c];
            }
          }
          std::vector<float> wanted;
          for (const long double sum : sums) {
            wanted.push_back(static_cast<float>(sum / below));
          }
          ASSERT_LE(RelativeError({params.o.As<float>() + at, width}, wanted), 1e-6)
              << "token " << t << ", head " << head;
        }
      }
    }
  }
}

TEST(Attention, GivesTokensOfNobodyZeros) {
  for (const Variant<AttentionParams>& variant : AttentionVariants()) {
    for (const Problem<AttentionParams>& problem : AttentionProblems()) {
      const auto inert = problem.Make();
      const AttentionParams& params = inert->params;
      if (variant.isa > DetectIsa() || variant.supports(params) != nullptr) {
        continue;
      }
      Context context(2, variant.isa);
      variant.run(params, context);
      const int64_t requests = params.requests.start_pos.shape[0];
      const Tensor beyond =
          params.o.Rows(params.requests.query_starts.As<int32_t>()[requests], inert->tokens);
      for (const float value : ValuesOf({"", beyond, {}})) {
        ASSERT_EQ(value, 0) << variant.name << " on " << problem.name;
      }
    }
  }
}

// Two keys, weights 3 and 1, and a sink of weight 4.
TEST(Attention, LetsTheSinkEnlargeTheDenominatorOnly) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  const RowLayout layout{RowFormat::kF32, RowRounding::kNone, 4, 0};
  AttentionParams params;
  params.q = data.Floats({1, 1, 4}, {2, 0, 0, 0});  // 4^-0.5 makes it one
  params.sink = data.Floats({1}, {std::log(4.0F)});
  params.requests = data.Requests({{1, 1}});
  params.window = data.Pool(layout, 2);
  const std::vector<float> first = {std::log(3.0F), 8, 0, 1};
  const std::vector<float> second = {0, 0, 16, 1};
  EncodeRow(layout, first, params.window.row(0));
  EncodeRow(layout, second, params.window.row(1));
  params.window_pages = data.Ints({1, 1}, {0});
  params.window_page_rows = 2;
  params.key_begin = data.Ints({1}, {0});
  params.key_end = data.Ints({1}, {2});
  params.o = data.Unwritten(DType::kF32, {1, 1, 4});
  Attention(params, context);
  EXPECT_NEAR(params.o.As<float>()[1], 3, 1e-6);
  EXPECT_NEAR(params.o.As<float>()[2], 2, 1e-6);
  EXPECT_NEAR(params.o.As<float>()[3], 0.5, 1e-6);
  params.sink.As<float>()[0] = 3000;  // far above every score: nothing overflows
  Attention(params, context);
  EXPECT_EQ(params.o.As<float>()[1], 0);
}

TEST(AttentionDeathTest, RefusesSelectionsWindowsAndPagesThatDoNotFit) {
  const auto made = AttentionProblems()[6].Make();  // ratio 4, positions 0+9 and 300+3
  Context context(1, Isa::kRef);
  AttentionParams params = made->params;
  const auto selected = [&](int32_t first, int32_t second) {
    std::vector<int32_t> values(12 * 16, -1);
    values[11 * 16] = first;
    values[11 * 16 + 1] = second;
    return made->data.Ints({12, 16}, values);
  };
  params.selected = selected(7, 7);
  EXPECT_DEATH(Attention(params, context), "selected\\[11\\]\\[1\\] is 7, expected -1 or 8 to 74");
  params.selected = selected(-1, 7);
  EXPECT_DEATH(Attention(params, context), "selected\\[11\\]\\[1\\] is 7");
  params.selected = selected(75, -1);
  EXPECT_DEATH(Attention(params, context), "selected\\[11\\]\\[0\\] is 75");
  params = made->params;
  params.key_end = made->data.Ints({12}, std::vector<int32_t>(12, 1000));
  params.key_begin = made->data.Ints({12}, std::vector<int32_t>(12, 999));
  EXPECT_DEATH(Attention(params, context), "window_pages: request 0 needs page");
  params.key_begin = made->data.Ints({12}, std::vector<int32_t>(12, 1001));
  EXPECT_DEATH(Attention(params, context), "keys of token 0 are 1001 to 1000");
  params = made->params;
  params.entries.layout.width = 64;
  EXPECT_DEATH(Attention(params, context), "entries has rows of 64, expected 128");
  params = made->params;
  params.o = params.q;
  EXPECT_DEATH(Attention(params, context), "o and q overlap");
}

TEST(AttentionDeathTest, RefusesARatioWithoutEntriesOrTheirPages) {
  const auto made = AttentionProblems()[6].Make();  // ratio 4
  Context context(1, Isa::kRef);
  AttentionParams params = made->params;
  params.entries = {};
  EXPECT_DEATH(Attention(params, context), "entries");
  params = made->params;
  params.entry_pages = {};
  EXPECT_DEATH(Attention(params, context), "entry_pages");
  params.entry_pages = made->params.entry_pages.Rows(0, 1);
  EXPECT_DEATH(Attention(params, context), "entry_pages");
}

}  // namespace
}  // namespace cachalot::cpu
