#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "backends/cpu/ops/indexer/problems.h"
#include "backends/cpu/ops/variants_test.h"
#include "numeric/quantise.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Indexer, "indexer")

// The query of one head as the keys are: a dense Hadamard product, then the rounding.
std::vector<float> Turned(const float* q, int64_t width, RowRounding rounding) {
  std::vector<float> turned;
  for (int64_t i = 0; i < width; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) {
      sum += std::popcount(static_cast<uint64_t>(i & j)) % 2 == 0 ? q[j] : -q[j];
    }
    turned.push_back(static_cast<float>(sum / std::sqrt(static_cast<double>(width))));
  }
  if (rounding == RowRounding::kFp4) {
    RoundFp4Blocks(turned, 32);
  } else if (rounding == RowRounding::kInt8) {
    RoundInt8Row(turned);
  }
  return turned;
}

// An entry is selected when fewer than top_k entries come before it.
std::vector<int32_t> Wanted(const IndexerParams& params, int64_t request, int64_t t,
                            int64_t position) {
  const int64_t heads = params.q.shape[1];
  const int64_t width = params.q.shape[2];
  const int64_t complete = (position + 1) / 4;
  std::vector<double> scores(static_cast<size_t>(complete));
  for (int64_t head = 0; head < heads; ++head) {
    const auto q = Turned(params.q.As<float>() + (t * heads + head) * width, width,
                          params.keys.layout.rounding);
    const double weight = params.weights.As<float>()[t * heads + head] /
                          std::sqrt(static_cast<double>(width * heads));
    for (int64_t e = 0; e < complete; ++e) {
      const int32_t page =
          params.pages.As<int32_t>()[request * params.pages.shape[1] + e / params.page_entries];
      std::vector<float> key(static_cast<size_t>(width));
      DecodeRow(params.keys.layout,
                params.keys.row(page * params.page_entries + e % params.page_entries), key);
      const double dot = std::inner_product(q.begin(), q.end(), key.begin(), 0.0);
      scores[static_cast<size_t>(e)] += dot > 0 ? dot * weight : 0;
    }
  }
  std::vector<int32_t> selected;
  for (size_t e = 0; e < scores.size(); ++e) {
    int64_t before = 0;
    for (size_t other = 0; other < scores.size(); ++other) {
      before += scores[other] > scores[e] || (scores[other] == scores[e] && other < e) ? 1 : 0;
    }
    if (before < params.top_k) {
      selected.push_back(static_cast<int32_t>(e));
    }
  }
  selected.resize(static_cast<size_t>(params.top_k), -1);
  return selected;
}

TEST(Indexer, SelectsTheEntriesThatTheDefinitionRanksFirst) {
  for (const Problem<IndexerParams>& problem : IndexerProblems()) {
    SCOPED_TRACE(problem.name);
    const auto made = problem.Make();
    const IndexerParams& params = made->params;
    Context context(2, Isa::kRef);
    Indexer(params, context);
    for (int64_t b = 0; b < params.requests.start_pos.shape[0]; ++b) {
      const int32_t* starts = params.requests.query_starts.As<int32_t>() + b;
      for (int64_t t = starts[0]; t < starts[1]; ++t) {
        const int64_t position = params.requests.start_pos.As<int32_t>()[b] + t - starts[0];
        const int32_t* selected = params.selected.As<int32_t>() + t * params.top_k;
        ASSERT_EQ(std::vector<int32_t>(selected, selected + params.top_k),
                  Wanted(params, b, t, position))
            << "token " << t;
      }
    }
    const int64_t requests = params.requests.start_pos.shape[0];
    const Tensor beyond =
        params.selected.Rows(params.requests.query_starts.As<int32_t>()[requests], made->tokens);
    EXPECT_THAT(ValuesOf({"", beyond, {}}), testing::Each(-1));
  }
}

TEST(Indexer, GivesTiesToTheEarlierEntry) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  const RowLayout layout{RowFormat::kF32, RowRounding::kNone, 2, 0};
  IndexerParams params;
  params.q = data.Floats({1, 1, 2}, {2, 0});  // turned: (sqrt 2, sqrt 2)
  params.weights = data.Floats({1, 1}, {1});
  params.keys = data.Pool(layout, 6);
  const float keys[6][2] = {{-1, -1}, {1, 0}, {5, 5}, {0, 1}, {-3, 0}, {1, 0}};
  for (int64_t e = 0; e < 6; ++e) {
    EncodeRow(layout, keys[e], params.keys.row(e));
  }
  params.pages = data.Ints({1, 1}, {0});
  params.page_entries = 6;
  params.requests = data.Requests({{23, 1}});
  params.top_k = 3;
  params.selected = data.Unwritten(DType::kI32, {1, 3});
  Indexer(params, context);
  EXPECT_EQ(ValuesOf({"", params.selected, {}}), (std::vector<float>{1, 2, 3}));
  params.weights.As<float>()[0] = -1;  // now what is cut off at zero is best
  Indexer(params, context);
  EXPECT_EQ(ValuesOf({"", params.selected, {}}), (std::vector<float>{0, 1, 4}));
}

TEST(IndexerDeathTest, RefusesPagesAndShapesThatDoNotFit) {
  const auto made = IndexerProblems()[5].Make();
  Context context(1, Isa::kRef);
  IndexerParams params = made->params;
  params.keys.num_rows = 40;
  EXPECT_DEATH(Indexer(params, context), "pages: page .* beyond 40 rows");
  params = made->params;
  params.page_entries = 4;
  EXPECT_DEATH(Indexer(params, context), "pages: request 0 needs page");
  params = made->params;
  params.selected = params.selected.Rows(0, 1);
  EXPECT_DEATH(Indexer(params, context), "selected is \\[1, 64\\], expected \\[3, 64\\]");
  params = made->params;
  params.top_k = 0;
  EXPECT_DEATH(Indexer(params, context), "0 against 1");
}

}  // namespace
}  // namespace cachalot::cpu
