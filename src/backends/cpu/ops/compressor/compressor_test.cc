#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numeric>

#include "backends/cpu/ops/compressor/problems.h"
#include "backends/cpu/ops/compressor/ref.h"
#include "backends/cpu/ops/variants_test.h"
#include "numeric/formats.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Compressor, "compressor")

// The definition over a whole sequence at once, for entries kept as they are.
struct Sequence {
  CompressorParams products;
  Tensor kv;
  Tensor score;
  Tensor ape;
  Tensor norm;
  RopeTable rope;
  int64_t ratio;
  int64_t width;
};

Sequence MakeSequence(ProblemData& data, int64_t tokens, int64_t ratio, int64_t width) {
  const int64_t row = ratio == 4 ? 2 * width : width;
  CompressorParams products;
  SetProducts(products, tokens, row, data);
  return {products,
          products.kv,
          products.score,
          data.Normal({ratio, row}),
          data.Normal({width}, 0.3, 1),
          data.Rope(width / 2),
          ratio,
          width};
}

// Entry `entry`, its dense Hadamard product included where asked for.
std::vector<float> WholeSequenceEntry(const Sequence& s, int64_t entry, bool hadamard) {
  const int64_t row = s.kv.shape[1];
  std::vector<double> pooled;
  for (int64_t c = 0; c < s.width; ++c) {
    double above = 0;
    double below = 0;
    for (int64_t t = (entry - 1) * s.ratio; t < (entry + 1) * s.ratio; ++t) {
      const bool before = t < entry * s.ratio;
      if (t < 0 || (before && s.ratio != 4)) {
        continue;
      }
      const int64_t channel = s.ratio == 4 && !before ? s.width + c : c;
      const double weight = std::exp(s.score.As<float>()[t * row + channel] +
                                     s.ape.As<float>()[t % s.ratio * row + channel]);
      above += weight * s.kv.As<float>()[t * row + channel];
      below += weight;
    }
    pooled.push_back(above / below);
  }
  const double squares = std::inner_product(pooled.begin(), pooled.end(), pooled.begin(), 0.0);
  for (int64_t c = 0; c < s.width; ++c) {
    pooled[static_cast<size_t>(c)] *=
        s.norm.As<float>()[c] / std::sqrt(squares / static_cast<double>(s.width) + 1e-6);
  }
  for (int64_t i = 0; i < s.rope.dim / 2; ++i) {
    const auto even = static_cast<size_t>(s.width - s.rope.dim + 2 * i);
    const std::complex<double> turned =
        std::complex(pooled[even], pooled[even + 1]) *
        std::polar(
            1.0, static_cast<double>(entry * s.ratio) * s.rope.frequencies[static_cast<size_t>(i)]);
    pooled[even] = turned.real();
    pooled[even + 1] = turned.imag();
  }
  std::vector<float> values;
  for (size_t i = 0; i < pooled.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < pooled.size(); ++j) {
      sum += std::popcount(i & j) % 2 == 0 ? pooled[j] : -pooled[j];
    }
    values.push_back(
        static_cast<float>(hadamard ? sum / std::sqrt(static_cast<double>(s.width)) : pooled[i]));
  }
  return values;
}

constexpr int64_t kStatePage = 128;  // positions of a page of paged state

// Leaves a request whose tokens [begin, end) come in one step the pages that this step or later ones
// read, and puts 0 for the others.
void DropUnreadPages(int64_t ratio, int64_t begin, int64_t end, std::vector<int32_t>& pages) {
  const auto first_read = [&](int64_t position) {
    return std::max<int64_t>(position / ratio - (ratio == 4 ? 1 : 0), 0) * ratio;
  };
  for (size_t column = 0; column < pages.size(); ++column) {
    const auto first = static_cast<int64_t>(column) * kStatePage;
    const auto holds = [&](int64_t low, int64_t high) {
      return first < high && first + kStatePage > low;
    };
    if (!holds(first_read(begin), begin) && !holds(first_read(end), end)) {
      pages[column] = 0;
    }
  }
}

// Feeds the sequence in steps of the given sizes, over and over, and compares every entry. Paged
// state where state_span is 0. Returns the entries.
std::string ExpectWholeSequence(const Sequence& s, bool hadamard, int64_t state_span,
                                const std::vector<int64_t>& steps, ProblemData& data,
                                Isa isa = Isa::kRef) {
  Context context(2, isa);
  const int64_t tokens = s.kv.shape[0];
  CompressorParams params = s.products;
  params.ratio = s.ratio;
  params.ape = s.ape;
  params.norm = s.norm;
  params.rms_eps = 1e-6;
  params.rope = s.rope;
  params.hadamard = hadamard;
  const bool paged = state_span == 0;
  params.state_rows = s.ratio == 4 && !paged ? 8 : 128;
  params.state_span = paged ? kStatePage : state_span;
  const int64_t pages = (tokens + params.state_span - 1) / params.state_span;
  const Tensor all_pages = data.Pages(1, pages, 1);
  params.state_pages = all_pages;
  params.state =
      data.Unwritten(DType::kF32, {(pages + 1) * params.state_rows, 2 * s.kv.shape[1]});  // NaN
  params.pool = data.Pool({RowFormat::kF32, RowRounding::kNone, s.width, 0}, tokens / s.ratio + 1);
  size_t next = 0;
  for (int64_t begin = 0; begin < tokens;) {
    const int64_t end = std::min(begin + steps[next++ % steps.size()], tokens);
    params.x = s.products.x.Rows(begin, end);
    params.kv = data.Unwritten(DType::kF32, {end - begin, s.kv.shape[1]});
    params.score = data.Unwritten(DType::kF32, {end - begin, s.kv.shape[1]});
    params.requests =
        data.Requests({{static_cast<int32_t>(begin), static_cast<int32_t>(end - begin)}});
    if (paged) {
      std::vector<int32_t> held(all_pages.As<int32_t>(), all_pages.As<int32_t>() + pages);
      DropUnreadPages(s.ratio, begin, end, held);
      params.state_pages = data.Ints({1, pages}, held);
    }
    std::vector<int32_t> slots;
    for (int64_t e = begin / s.ratio; e < end / s.ratio; ++e) {
      slots.push_back(static_cast<int32_t>(e));
    }
    params.entry_slots = data.Ints({static_cast<int64_t>(slots.size())}, slots);
    Compressor(params, context);
    begin = end;
  }
  for (int64_t e = 0; e < tokens / s.ratio; ++e) {
    const auto* row = static_cast<const float*>(params.pool.row(e));
    EXPECT_LE(
        RelativeError({row, static_cast<size_t>(s.width)}, WholeSequenceEntry(s, e, hadamard)),
        1e-6)
        << "entry " << e << ", ratio " << s.ratio << ", first step " << steps[0];
  }
  const Tensor nowhere = params.state.Rows(0, params.state_rows);
  EXPECT_EQ(BytesOf({"nowhere", nowhere, {}}),
            std::string(static_cast<size_t>(nowhere.bytes()), '\xff'));
  const auto entry_bytes = static_cast<size_t>(params.pool.layout.bytes());
  return BytesOf({"pool", {}, params.pool})
      .substr(0, static_cast<size_t>(tokens / s.ratio) * entry_bytes);
}

TEST(Compressor, MakesTheEntriesOfTheWholeSequenceHoweverItIsCut) {
  ProblemData data(3);
  const Sequence four = MakeSequence(data, 277, 4, 32);
  const Sequence many = MakeSequence(data, 400, 128, 16);
  for (const std::vector<int64_t>& steps : std::vector<std::vector<int64_t>>{
           {400}, {1}, {3}, {4}, {128}, {2, 9, 1, 50}, {127, 1, 1, 3}}) {
    ExpectWholeSequence(four, false, 128, steps, data);
    ExpectWholeSequence(four, true, int64_t{1} << 40, steps, data);
    ExpectWholeSequence(many, false, int64_t{1} << 40, steps, data);
  }
}

// Bit for bit, by every instruction set that the machine has.
TEST(Compressor, MakesTheSameEntriesFromPagesAsFromRings) {
  ProblemData data(5);
  const Sequence four = MakeSequence(data, 400, 4, 32);
  const Sequence many = MakeSequence(data, 400, 128, 16);
  for (const Isa isa : {Isa::kRef, *ChooseIsa("")}) {
    for (const std::vector<int64_t>& steps : std::vector<std::vector<int64_t>>{
             {400}, {1}, {128}, {256}, {384, 1}, {2, 9, 1, 50}, {127, 1, 1, 3, 200}}) {
      EXPECT_TRUE(ExpectWholeSequence(four, true, 0, steps, data, isa) ==
                  ExpectWholeSequence(four, true, 128, steps, data, isa));
      EXPECT_TRUE(ExpectWholeSequence(many, false, 0, steps, data, isa) ==
                  ExpectWholeSequence(many, false, int64_t{1} << 40, steps, data, isa));
    }
  }
}

TEST(Compressor, LeavesTheRowsOfTheLastTokensInTheRing) {
  ProblemData data(4);
  Context context(1, Isa::kRef);
  const Sequence s = MakeSequence(data, 11, 4, 32);
  CompressorParams params = s.products;
  params.ratio = 4;
  params.ape = s.ape;
  params.norm = s.norm;
  params.rope = s.rope;
  params.requests = data.Requests({{0, 11}});
  params.state = data.Unwritten(DType::kF32, {16, 128});
  params.state_pages = data.Ints({1, 1}, {1});
  params.state_span = 128;
  params.state_rows = 8;
  params.pool = data.Pool({RowFormat::kF32, RowRounding::kNone, 32, 0}, 2);
  params.entry_slots = data.Ints({2}, {0, 1});
  Compressor(params, context);
  for (int64_t p = 3; p < 11; ++p) {
    const float* row = params.state.As<float>() + (8 + p % 8) * 128;
    for (int64_t c = 0; c < 64; ++c) {
      ASSERT_EQ(row[c], s.kv.As<float>()[p * 64 + c]);
      ASSERT_EQ(row[64 + c], s.score.As<float>()[p * 64 + c] + s.ape.As<float>()[p % 4 * 64 + c]);
    }
  }
}

TEST(Hadamard, HasThePublishedSize) {
  std::vector<double> row(128);
  row[0] = 1;
  HadamardRow(row);
  for (const double value : row) {
    EXPECT_NEAR(value, 0.0883883, 1e-7);
    EXPECT_EQ(RoundToBf16(static_cast<float>(value)), 0.08837890625F);
  }
  HadamardRow(row);
  EXPECT_NEAR(row[0], 1, 1e-12);
  EXPECT_NEAR(row[77], 0, 1e-12);
}

TEST(Hadamard, KeepsProductsAndUndoesItself) {
  ProblemData data(6);
  const Tensor values = data.Normal({2, 128});
  const std::vector<double> q(values.As<float>(), values.As<float>() + 128);
  const std::vector<double> k(values.As<float>() + 128, values.As<float>() + 256);
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  std::vector<double> turned_q = q;
  std::vector<double> turned_k = k;
  HadamardRow(turned_q);
  HadamardRow(turned_k);
  EXPECT_NEAR(product(turned_q, turned_q), product(q, q), 1e-10);
  EXPECT_NEAR(product(turned_q, turned_k), product(q, k), 1e-10);
  HadamardRow(turned_q);
  for (size_t i = 0; i < q.size(); ++i) {
    ASSERT_NEAR(turned_q[i], q[i], 1e-12) << i;
  }
}

TEST(CompressorDeathTest, RefusesEntriesPagesAndRequestsThatDoNotFit) {
  const auto made = CompressorProblems()[5].Make();  // four requests of ratio 4
  Context context(1, Isa::kRef);
  CompressorParams params = made->params;
  params.entry_slots = params.entry_slots.Rows(0, 1);
  EXPECT_DEATH(Compressor(params, context), "entry_slots is \\[1\\], expected at least 3");
  params = made->params;
  params.x = params.x.Rows(0, 2);
  EXPECT_DEATH(Compressor(params, context), "y is \\[9, 128\\], expected \\[2, 128\\]");
  params = made->params;
  params.pool.layout = {RowFormat::kInt8, RowRounding::kInt8, 64, 0, /*planar=*/true};
  EXPECT_DEATH(Compressor(params, context), "pool is planar, expected row by row");
  params = made->params;
  params.ratio = 8;
  EXPECT_DEATH(Compressor(params, context), "ratio is 8, expected 4 or 128");
  params = made->params;
  params.state_rows = 6;
  EXPECT_DEATH(Compressor(params, context), "state pages of 6 rows");
  params = made->params;
  params.state = params.state.Rows(0, 8);
  EXPECT_DEATH(Compressor(params, context), "state_pages: page");
  params = made->params;
  params.state_pages = made->data.Ints(params.state_pages.shape, {1, 2, 0, 4, 5, 6, 7, 8});
  EXPECT_DEATH(Compressor(params, context), "request 1 reads position 120, whose page is 0");
  params = made->params;
  params.requests = made->data.Requests({{5, 3}, {126, 5}, {7, 0}, {127, 2}});
  EXPECT_DEATH(Compressor(params, context),
               "query_starts go from 0 to 10, expected 0 to at most 9");
}

}  // namespace
}  // namespace cachalot::cpu
