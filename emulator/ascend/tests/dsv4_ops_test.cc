// Attention, indexer and compressor against their formulas in double, written plainly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "dsv4_calls.h"

namespace ascend_emulator::dsv4 {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// ---- Attention

// A pool and its pages, read once.
class PagedPool {
 public:
  PagedPool(const Tensor& pool, const Tensor& table)
      : block_(pool->shape()[1]),
        width_(pool->shape()[3]),
        columns_(table->shape()[1]),
        rows_(pool->Read()),
        pages_(table->Read()) {}
  Values Row(int64_t request, int64_t row) const {
    const auto page = static_cast<int64_t>(pages_[request * columns_ + row / block_]);
    return Slice(rows_, (page * block_ + row % block_) * width_, width_);
  }

 private:
  int64_t block_;
  int64_t width_;
  int64_t columns_;
  Values rows_;
  Values pages_;
};

Values AttendPlainly(const AttentionCall& call) {
  const Values q = call.q->Read();
  const Values sinks = call.sinks->Read();
  const Values picked = call.selected == nullptr ? Values() : call.selected->Read();
  const PagedPool window(call.window, call.window_table);
  const PagedPool entries(call.ratio == 1 ? call.window : call.entries,
                          call.ratio == 1 ? call.window_table : call.entry_table);
  Values out;
  int64_t token = 0;
  for (int64_t request = 0; request < call.requests(); ++request) {
    for (int64_t i = 0; i < call.queries[request]; ++i, ++token) {
      const int64_t position = call.keys[request] - call.queries[request] + i;
      std::vector<Values> keys;
      for (int64_t j = std::max<int64_t>(0, position - 127); j <= position; ++j) {
        keys.push_back(window.Row(request, j));
      }
      const int64_t limit = call.ratio == 1 ? 0 : (position + 1) / call.ratio;
      for (int64_t c = 0; c < (call.topk == 0 ? limit : call.topk); ++c) {
        const int64_t entry =
            call.topk == 0 ? c : static_cast<int64_t>(picked[token * call.topk + c]);
        if (entry >= 0) {
          keys.push_back(entries.Row(request, entry));
        }
      }
      for (int64_t head = 0; head < call.heads; ++head) {
        const double* query = q.data() + (token * call.heads + head) * call.width;
        double sum = std::exp(sinks[head]);
        Values mixed(call.width, 0.0);
        for (const Values& key : keys) {
          const double p =
              std::exp(call.scale * std::inner_product(key.begin(), key.end(), query, 0.0));
          sum += p;
          for (int64_t d = 0; d < call.width; ++d) {
            mixed[d] += p * key[d];
          }
        }
        for (const double value : mixed) {
          out.push_back(value / sum);
        }
      }
    }
  }
  return out;
}

struct AttentionMode {
  int64_t ratio;
  int64_t topk;
};
constexpr AttentionMode kModes[] = {{1, 0}, {128, 0}, {4, 8}};

class AttentionTest : public Dsv4Test {
 protected:
  Values Attend(const AttentionCall& call, bool official) {
    UseFlavour(official);
    const Outcome dealt = call.Deal(stream(), official);
    EXPECT_EQ(dealt.code, 0) << dealt.message;
    const Outcome attended = call.Attend(stream(), official);
    EXPECT_EQ(attended.code, 0) << attended.message;
    return call.out->Read();
  }
};

TEST_F(AttentionTest, FollowsItsFormulaInEveryModeAndBothFlavoursAgree) {
  for (const AttentionMode mode : kModes) {
    AttentionCall call;
    call.ratio = mode.ratio;
    call.topk = mode.topk;
    call.Fill();
    const Values custom = Attend(call, false);
    ExpectNear(custom, AttendPlainly(call), "ratio " + std::to_string(mode.ratio));
    EXPECT_EQ(Attend(call, true), custom);
  }
}

TEST_F(AttentionTest, OfARequestDoesNotDependOnItsBatch) {
  AttentionCall batch;
  batch.ratio = 128;
  batch.Fill();
  const Values together = Attend(batch, false);
  AttentionCall alone = batch;
  const int64_t row = batch.heads * batch.width;
  const int64_t columns = batch.window_table->shape()[1];
  alone.queries = {3};
  alone.keys = {300};
  alone.q = Make(ACL_BF16, {3, batch.heads, batch.width}, Slice(batch.q->Read(), 6 * row, 3 * row));
  const auto last = [&](const Tensor& table, int64_t width) {
    return Make(ACL_INT32, {1, width}, Slice(table->Read(), 3 * width, width));
  };
  alone.window_table = last(batch.window_table, columns);
  alone.entry_table = last(batch.entry_table, batch.entry_table->shape()[1]);
  alone.starts = Ints({0, 3});
  alone.lengths = Ints({300});
  alone.out = Make(ACL_BF16, {3, batch.heads, batch.width});
  EXPECT_EQ(Attend(alone, false), Slice(together, 6 * row, 3 * row));
}

TEST_F(AttentionTest, OfEqualLengthsTakesTheBatchAsAnAxis) {
  AttentionCall packed;
  packed.queries = {2, 2};
  packed.keys = {30, 140};
  packed.ratio = 128;
  packed.Fill();
  AttentionCall batched = packed;
  batched.layout_q = "BSND";
  batched.starts = nullptr;
  batched.max_queries = 2;
  batched.q = Make(ACL_BF16, {2, 2, packed.heads, packed.width}, packed.q->Read());
  batched.out = Make(ACL_BF16, {2, 2, packed.heads, packed.width});
  for (const bool official : {false, true}) {
    EXPECT_EQ(Attend(batched, official), Attend(packed, official));
  }
}

TEST_F(AttentionTest, TakesATableThatTheHostMade) {
  AttentionCall call;
  call.Fill();
  const Values expected = Attend(call, false);
  Values table = call.metadata->Read();
  std::fill(table.begin() + 864, table.end(), 0.0);
  call.metadata->Write(table);
  call.out->Write(Values(expected.size(), 9));
  ExpectSucceeds(call.Attend(stream(), false));
  EXPECT_EQ(call.out->Read(), expected);
}

TEST_F(AttentionTest, MetadataHasThePublishedRanges) {
  AttentionCall call;
  call.queries = std::vector<int64_t>(8, 1);
  call.keys = {128, 256, 512, 1024, 2048, 4096, 8192, 12345};
  call.heads = 64;
  call.ratio = 4;
  call.topk = 512;
  call.starts = Ints({0, 1, 2, 3, 4, 5, 6, 7, 8});
  call.lengths = Ints(call.keys);
  call.metadata = Make(ACL_INT32, {1024});
  UseFlavour(false);
  ExpectSucceeds(call.Deal(stream(), false));
  const Values table = call.metadata->Read();
  EXPECT_THAT(Slice(table, 0, 8), ElementsAre(1, 0, 0, 0, 2, 0, 0, 0));
  EXPECT_THAT(Slice(table, 6 * 8, 8), ElementsAre(1, 7, 0, 0, 8, 0, 0, 0));
  EXPECT_THAT(Slice(table, 7 * 8, 864 - 7 * 8), ::testing::Each(0));
  UseFlavour(true);
  call.entry_lengths = Ints({32, 64, 128, 256, 512, 1024, 2048, 3086});
  call.residuals = Ints({0, 0, 0, 0, 0, 0, 0, 1});
  ExpectSucceeds(call.Deal(stream(), true));
  // The last request has a block of the window and one of entries, the first core two of each.
  EXPECT_THAT(Slice(call.metadata->Read(), 9, 9), ElementsAre(1, 2, 0, 0, 3, 0, 0, 0, 4));
}

TEST_F(AttentionTest, OfNoTokensDoesNothing) {
  AttentionCall call;
  call.queries = {0, 0};
  call.keys = {5, 0};
  call.Fill();
  EXPECT_EQ(Attend(call, false), Values());
}

// ---- Indexer

std::vector<Values> ScorePlainly(const IndexerCall& call) {
  const Values query = call.query->Read();
  const Values key = call.key->Read();
  const Values weights = call.weights->Read();
  const Values query_scale = call.query_scale->Read();
  const Values key_scale = call.key_scale->Read();
  const Values table = call.table->Read();
  std::vector<Values> scores;
  for (int64_t request = 0; request < call.requests(); ++request) {
    for (int64_t i = 0; i < call.queries[request]; ++i) {
      const auto token = static_cast<int64_t>(scores.size());
      const int64_t limit = (call.keys[request] - call.queries[request] + i + 1) / 4;
      Values row;
      for (int64_t c = 0; c < limit; ++c) {
        const int64_t columns = call.table->shape()[1];
        const int64_t at =
            static_cast<int64_t>(table[request * columns + c / call.block]) * call.block +
            c % call.block;
        double score = 0;
        for (int64_t head = 0; head < call.heads; ++head) {
          const int64_t th = token * call.heads + head;
          const double dot = std::inner_product(query.begin() + th * call.width,
                                                query.begin() + (th + 1) * call.width,
                                                key.begin() + at * call.width, 0.0);
          score += weights[th] * std::max(0.0, dot * query_scale[th] * key_scale[at]);
        }
        row.push_back(score);
      }
      scores.push_back(row);
    }
  }
  return scores;
}

class IndexerTest : public Dsv4Test {
 protected:
  void TearDown() override {
    unsetenv("CACHALOT_EMULATOR_TOPK_ORDER");
    Dsv4Test::TearDown();
  }
  Values Pick(const IndexerCall& call, bool official) {
    UseFlavour(official);
    const Outcome dealt = call.Deal(stream(), official);
    EXPECT_EQ(dealt.code, 0) << dealt.message;
    const Outcome picked = call.Pick(stream(), official);
    EXPECT_EQ(picked.code, 0) << picked.message;
    return call.indices->Read();
  }
};

TEST_F(IndexerTest, PicksTheLargestScoresAndBothFlavoursAgree) {
  IndexerCall call;
  call.Fill();
  const Values picked = Pick(call, false);
  const std::vector<Values> scores = ScorePlainly(call);
  for (size_t token = 0; token < scores.size(); ++token) {
    std::vector<int32_t> best(scores[token].size());
    std::iota(best.begin(), best.end(), 0);
    std::stable_sort(best.begin(), best.end(),
                     [&](int32_t a, int32_t b) { return scores[token][a] > scores[token][b]; });
    best.resize(8, -1);
    EXPECT_THAT(Slice(picked, static_cast<int64_t>(token) * 8, 8), ElementsAreArray(best))
        << "token " << token;
  }
  EXPECT_EQ(Pick(call, true), picked);
}

TEST_F(IndexerTest, PrefersTheLowerOfEqualScores) {
  IndexerCall call;
  call.Fill();
  call.weights->Write(Values(call.tokens() * call.heads, 0.0));
  EXPECT_THAT(Slice(Pick(call, false), 8 * 8, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(IndexerTest, GivesTheSameSetInAnotherOrderWhereAsked) {
  IndexerCall call;
  call.Fill();
  const Values by_score = Slice(Pick(call, false), 8 * 8, 8);
  setenv("CACHALOT_EMULATOR_TOPK_ORDER", "index", 1);
  Values sorted = by_score;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(Slice(Pick(call, false), 8 * 8, 8), sorted);
  setenv("CACHALOT_EMULATOR_TOPK_ORDER", "reversed", 1);
  EXPECT_EQ(Slice(Pick(call, false), 8 * 8, 8), Values(by_score.rbegin(), by_score.rend()));
}

// ---- Compressor

// Two or more requests that go through the compressor in steps.
struct Story {
  int64_t ratio = 4;
  int64_t overlap = 2;
  std::vector<int64_t> lengths = {23, 9};
  int64_t hidden = 48;
  int64_t width = 32;
  int64_t rope = 16;
  Values wkv, wgate, ape, norm, cos, sin;
  std::vector<Values> x;  // of each request

  explicit Story(int64_t r = 4, std::vector<int64_t> of = {23, 9})
      : ratio(r), overlap(r == 4 ? 2 : 1), lengths(std::move(of)) {
    const int64_t channels = overlap * width;
    wkv = Random(channels * hidden, 1, 0.5);
    wgate = Random(channels * hidden, 2, 0.5);
    ape = Random(ratio * channels, 3);
    norm = Random(width, 4);
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (int64_t i = 0; i < longest * rope; ++i) {
      const double angle = static_cast<double>(i / rope) * std::pow(0.7, i % rope / 2);
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    for (size_t request = 0; request < lengths.size(); ++request) {
      x.push_back(Make(ACL_BF16, {lengths[request] * hidden},
                       Random(lengths[request] * hidden, 5 + static_cast<uint32_t>(request)))
                      ->Read());
    }
  }
};

// The rows that each request's groups come to. `raw`: without norm and rope.
std::vector<Values> CompressPlainly(const Story& story, bool raw) {
  const int64_t channels = story.overlap * story.width;
  const Values wkv = Make(ACL_BF16, {channels, story.hidden}, story.wkv)->Read();
  const Values wgate = Make(ACL_BF16, {channels, story.hidden}, story.wgate)->Read();
  const Values norm = Make(ACL_BF16, {story.width}, story.norm)->Read();
  std::vector<Values> results;
  for (size_t request = 0; request < story.lengths.size(); ++request) {
    const auto project = [&](const Values& weight, int64_t position, int64_t channel) {
      return std::inner_product(weight.begin() + channel * story.hidden,
                                weight.begin() + (channel + 1) * story.hidden,
                                story.x[request].begin() + position * story.hidden, 0.0);
    };
    Values result;
    for (int64_t group = 0; group < story.lengths[request] / story.ratio; ++group) {
      Values row;
      for (int64_t c = 0; c < story.width; ++c) {
        double weight = 0;
        double sum = 0;
        for (int64_t i = 0; i < story.overlap * story.ratio; ++i) {
          const int64_t position = (group + 1 - story.overlap) * story.ratio + i;
          if (position < 0) {
            continue;
          }
          const int64_t channel = c + (i >= story.ratio ? story.width : 0);
          const double p = std::exp(project(wgate, position, channel) +
                                    story.ape[position % story.ratio * channels + channel]);
          weight += p;
          sum += p * project(wkv, position, channel);
        }
        row.push_back(sum / weight);
      }
      if (!raw) {
        const double mean =
            std::inner_product(row.begin(), row.end(), row.begin(), 0.0) / story.width;
        for (int64_t c = 0; c < story.width; ++c) {
          row[c] *= norm[c] / std::sqrt(mean + 1e-6);
        }
        for (int64_t i = 0; i < story.rope; i += 2) {
          const double cos = story.cos[group * story.ratio * story.rope + i];
          const double sin = story.sin[group * story.ratio * story.rope + i];
          double* pair = row.data() + story.width - story.rope + i;
          const double first = pair[0];
          pair[0] = first * cos - pair[1] * sin;
          pair[1] = pair[1] * cos + first * sin;
        }
      }
      result.insert(result.end(), row.begin(), row.end());
    }
    results.push_back(result);
  }
  return results;
}

class CompressorTest : public Dsv4Test {
 protected:
  static constexpr int64_t kBlock = 8;

  // Runs the story with `chunk` tokens of the first request a step, one more of each next one.
  std::vector<Values> Tell(const Story& story, int64_t chunk, int64_t mode, bool official) {
    UseFlavour(official);
    const int64_t channels = story.overlap * story.width;
    const auto requests = static_cast<int64_t>(story.lengths.size());
    const int64_t longest = *std::max_element(story.lengths.begin(), story.lengths.end());
    const int64_t ring = 2 * story.overlap * story.ratio;
    const int64_t columns = (longest + kBlock - 1) / kBlock;
    const int64_t blocks = mode == 1 ? 1 + requests * columns : requests * ring / kBlock + 1;
    CompressorCall call;
    call.ratio = story.ratio;
    call.overlap = story.overlap;
    call.mode = mode;
    call.wkv = Make(ACL_BF16, {channels, story.hidden}, story.wkv);
    call.wgate = Make(ACL_BF16, {channels, story.hidden}, story.wgate);
    call.ape = Make(ACL_FLOAT, {story.ratio, channels}, story.ape);
    call.norm = Make(ACL_BF16, {story.width}, story.norm);
    const int64_t row = kBlock * 2 * channels + (official || mode == 2 ? 0 : 32);
    call.state = Make(ACL_FLOAT, {blocks, kBlock, 2 * channels}, {}, row);
    call.state_stride = row;
    std::vector<Values> results(story.lengths.size());
    std::vector<int64_t> done(story.lengths.size(), 0);
    while (done != story.lengths) {
      std::vector<int64_t> sums = {0};
      std::vector<int64_t> closed;
      Values x;
      Values cos;
      Values sin;
      int64_t widest = 0;
      for (int64_t request = 0; request < requests; ++request) {
        const int64_t begin = done[request];
        const int64_t count = std::min(chunk + request, story.lengths[request] - begin);
        widest = std::max(widest, count);
        const Values part = Slice(story.x[request], begin * story.hidden, count * story.hidden);
        x.insert(x.end(), part.begin(), part.end());
        sums.push_back(sums.back() + count);
        const int64_t first = begin / story.ratio;
        closed.push_back((begin + count) / story.ratio - first);
        for (int64_t group = first; group < first + closed.back(); ++group) {
          const Values c = Slice(story.cos, group * story.ratio * story.rope, story.rope);
          const Values s = Slice(story.sin, group * story.ratio * story.rope, story.rope);
          cos.insert(cos.end(), c.begin(), c.end());
          sin.insert(sin.end(), s.begin(), s.end());
        }
      }
      const int64_t tokens = sums.back();
      const int64_t rows = std::min(tokens, tokens / story.ratio + requests);
      cos.resize(static_cast<size_t>(rows * story.rope), 0);
      sin.resize(static_cast<size_t>(rows * story.rope), 0);
      call.x = Make(ACL_BF16, {tokens, story.hidden}, x);
      call.cos = Make(ACL_FLOAT, {rows, story.rope}, cos);
      call.sin = Make(ACL_FLOAT, {rows, story.rope}, sin);
      call.starts = Ints(sums);
      call.start_pos = Ints(done);
      call.table = mode == 1 ? Pages(requests, columns)
                             : Locations(story, done, sums, widest, ring, blocks * kBlock - 1);
      call.out = Make(ACL_BF16, {rows, story.width});
      const Outcome outcome = call.Compress(stream(), official);
      EXPECT_EQ(outcome.code, 0) << outcome.message;
      const Values out = call.out->Read();
      int64_t next = 0;
      for (int64_t request = 0; request < requests; ++request) {
        const Values part = Slice(out, next * story.width, closed[request] * story.width);
        results[request].insert(results[request].end(), part.begin(), part.end());
        next += closed[request];
        done[request] += sums[request + 1] - sums[request];
      }
      for (size_t i = static_cast<size_t>(next * story.width); i < out.size(); ++i) {
        EXPECT_TRUE(std::isnan(out[i])) << "padding row " << i / story.width;
      }
    }
    return results;
  }

  static Tensor Pages(int64_t requests, int64_t columns) {
    std::vector<int64_t> ids(static_cast<size_t>(requests * columns));
    std::iota(ids.begin(), ids.end(), 1);
    return Ints(ids, {requests, columns});
  }

  // Each request has a ring of its own; the last row is nowhere.
  static Tensor Locations(const Story& story, const std::vector<int64_t>& done,
                          const std::vector<int64_t>& sums, int64_t widest, int64_t ring,
                          int64_t nowhere) {
    std::vector<int64_t> table;
    const int64_t history = story.overlap * story.ratio;
    for (size_t request = 0; request < done.size(); ++request) {
      const int64_t end = done[request] + sums[request + 1] - sums[request];
      for (int64_t column = 0; column < history + widest; ++column) {
        const int64_t position = done[request] - history + column;
        table.push_back(position < 0 || position >= end
                            ? nowhere
                            : static_cast<int64_t>(request) * ring + position % ring);
      }
    }
    return Ints(table, {static_cast<int64_t>(done.size()), history + widest});
  }
};

TEST_F(CompressorTest, FollowsItsFormulaHoweverTheTokensAreSplitAndTheStateIsKept) {
  for (const Story& story : {Story(4, {23, 9}), Story(128, {260, 131})}) {
    const std::vector<Values> whole = Tell(story, 1000, 1, false);
    const std::vector<Values> plain = CompressPlainly(story, false);
    for (size_t request = 0; request < whole.size(); ++request) {
      ExpectNear(whole[request], plain[request], "request " + std::to_string(request));
    }
    for (const int64_t chunk :
         story.ratio == 4 ? std::vector<int64_t>{1, 3, 10} : std::vector<int64_t>{37, 129}) {
      for (const int64_t mode : {1, 2}) {
        EXPECT_EQ(Tell(story, chunk, mode, false), whole) << "chunk " << chunk << ", mode " << mode;
      }
    }
  }
}

TEST_F(CompressorTest, OfTheStandardLibraryLeavesNormAndRopeOut) {
  const Story story;
  const std::vector<Values> pooled = Tell(story, 5, 1, true);
  const std::vector<Values> plain = CompressPlainly(story, true);
  for (size_t request = 0; request < pooled.size(); ++request) {
    ExpectNear(pooled[request], plain[request], "request " + std::to_string(request));
  }
}

// One request of five tokens from position 8 on, four heads of nothing before it.
CompressorCall FiveTokens(int64_t mode) {
  const Story story(4, {16});
  CompressorCall call;
  call.mode = mode;
  call.x = Make(ACL_BF16, {5, 48}, Slice(story.x[0], 0, 5 * 48));
  call.wkv = Make(ACL_BF16, {64, 48}, story.wkv);
  call.wgate = Make(ACL_BF16, {64, 48}, story.wgate);
  call.ape = Make(ACL_FLOAT, {4, 64}, story.ape);
  call.norm = Make(ACL_BF16, {32}, story.norm);
  call.cos = Make(ACL_FLOAT, {2, 16}, Values(32, 1));
  call.sin = Make(ACL_FLOAT, {2, 16}, Values(32, 0));
  call.state = Make(ACL_FLOAT, {3, 8, 128}, Values(3 * 8 * 128, 0.25));
  call.state_stride = 8 * 128;
  call.starts = Ints({0, 5});
  call.start_pos = Ints({8});
  call.out = Make(ACL_BF16, {2, 32});
  return call;
}

TEST_F(CompressorTest, KeepsEveryNewRowButThoseOfTheLastRow) {
  UseFlavour(false);
  CompressorCall call = FiveTokens(2);
  // Positions 0..7 in rows 0..7, then 8 in row 3, 9 nowhere, 10..12 in rows 20, 21, 22.
  call.table = Ints({0, 1, 2, 3, 4, 5, 6, 7, 3, 23, 20, 21, 22}, {1, 13});
  ExpectSucceeds(call.Compress(stream(), false));
  const Values state = call.state->Read();
  std::set<int64_t> changed;
  for (size_t i = 0; i < state.size(); ++i) {
    if (state[i] != 0.25) {
      changed.insert(static_cast<int64_t>(i) / 128);
    }
  }
  EXPECT_THAT(changed, ElementsAre(3, 20, 21, 22));
}

TEST_F(CompressorTest, ReadsTheRowsOfTheStateBeforeItWritesAny) {
  UseFlavour(false);
  CompressorCall call = FiveTokens(2);
  call.table = Ints({0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20}, {1, 13});
  ExpectSucceeds(call.Compress(stream(), false));
  const Values apart = call.out->Read();
  call.state->Write(Values(3 * 8 * 128, 0.25));
  call.table = Ints({0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 0}, {1, 13});
  ExpectSucceeds(call.Compress(stream(), false));
  EXPECT_EQ(Slice(call.out->Read(), 0, 32), Slice(apart, 0, 32));
}

TEST_F(CompressorTest, NeitherReadsNorWritesStateBlockZero) {
  UseFlavour(false);
  CompressorCall call = FiveTokens(1);
  call.state->Write(Values(8 * 128, std::numeric_limits<double>::quiet_NaN()));
  call.table = Ints({0, 2}, {1, 2});
  ExpectSucceeds(call.Compress(stream(), false));
  EXPECT_FALSE(std::isnan(call.out->Read()[0]));
  EXPECT_THAT(Slice(call.state->Read(), 0, 8 * 128), ::testing::Each(::testing::IsNan()));
  EXPECT_THAT(Slice(call.state->Read(), 8 * 128, 8 * 128), ::testing::Each(0.25));
}

TEST_F(CompressorTest, OfPaddedRequestsGivesEachItsRows) {
  UseFlavour(false);
  const Story story(4, {16});
  CompressorCall call = FiveTokens(1);
  call.x = Make(ACL_BF16, {2, 8, 48}, Slice(story.x[0], 0, 16 * 48));
  call.starts = nullptr;
  call.used = Ints({3, 8});
  call.start_pos = nullptr;
  call.table = Ints({1, 2}, {2, 1});
  call.cos = Make(ACL_FLOAT, {2, 2, 16}, Values(64, 1));
  call.sin = Make(ACL_FLOAT, {2, 2, 16}, Values(64, 0));
  call.out = Make(ACL_BF16, {2, 2, 32});
  ExpectSucceeds(call.Compress(stream(), false));
  const Values out = call.out->Read();
  EXPECT_THAT(Slice(out, 0, 64), ::testing::Each(::testing::IsNan()));
  EXPECT_THAT(Slice(out, 64, 64), ::testing::Each(::testing::Not(::testing::IsNan())));
}

TEST_F(CompressorTest, MetadataSaysWhereTheClosedGroupsGo) {
  UseFlavour(false);
  const auto find = [&](int64_t format, const Tensor& slots) {
    Values table(32 * 2);
    std::iota(table.begin(), table.end(), 0.0);
    const Tensor cos = Make(ACL_FLOAT, {32, 2}, table);
    const Tensor starts = Ints({0, 5, 6, 14});
    const Tensor start_pos = Ints({2, 4, 12});
    const Tensor pages = Ints({3, 9, 5, 9, 7, 8}, {3, 2});
    const Tensor out_cos = Make(ACL_FLOAT, {4, 2});
    const Tensor out_sin = Make(ACL_FLOAT, {4, 2});
    const Outcome outcome = Perform("aclnnCompressorMetadata", stream(), In(cos), In(cos),
                                    In(starts), In(start_pos), In(pages), int64_t{4}, format,
                                    int64_t{4}, int64_t{3}, Raw(out_cos), Raw(out_sin), Raw(slots));
    EXPECT_EQ(outcome.code, 0) << outcome.message;
    return out_cos->Read();
  };
  // Group 0 of the first request, none of the second, groups 3 and 4 of the third.
  const Tensor pairs = Make(ACL_INT32, {4, 2});
  EXPECT_THAT(find(2, pairs), ElementsAre(0, 1, 24, 25, 32, 33, 0, 0));
  EXPECT_THAT(pairs->Read(), ElementsAre(3, 0, 7, 3, 8, 0, -1, -1));
  const Tensor flat = Make(ACL_INT32, {4});
  find(1, flat);
  EXPECT_THAT(flat->Read(), ElementsAre(12, 31, 32, -1));
}

}  // namespace
}  // namespace ascend_emulator::dsv4
