#include "tokenizer/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <random>

namespace cachalot {
namespace {

// The definition, word for word; cubic or so, and never tuned.
std::vector<int32_t> NaiveEncode(std::string_view piece, const std::vector<Merge>& merges) {
  std::map<std::pair<int32_t, int32_t>, size_t> rank_of;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    rank_of[{merges[rank].left, merges[rank].right}] = rank;
  }
  std::vector<int32_t> ids;
  for (const char c : piece) {
    ids.push_back(static_cast<uint8_t>(c));
  }
  while (true) {
    size_t best_rank = merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rank_of.find({ids[i], ids[i + 1]});
      if (found != rank_of.end() && found->second < best_rank) {
        best_rank = found->second;
        best = i;
      }
    }
    if (best_rank == merges.size()) {
      return ids;
    }
    ids[best] = merges[best_rank].result;
    ids.erase(ids.begin() + best + 1);
  }
}

struct RandomBpe {
  std::vector<std::string> tokens;  // 0..255 the bytes
  std::vector<Merge> merges;
};

// Merges of random pairs over three letters: ranks in no sensible order, several ways to many
// tokens, tokens that no text reaches.
RandomBpe MakeRandomBpe(uint32_t seed, int num_merges) {
  std::mt19937 random(seed);
  RandomBpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    bpe.tokens.emplace_back(1, static_cast<char>(byte));
  }
  std::map<std::string, int32_t> id_of;
  std::map<std::pair<int32_t, int32_t>, bool> seen;
  std::vector<int32_t> usable = {'a', 'b', 'c'};
  for (const int32_t id : usable) {
    id_of[bpe.tokens[id]] = id;
  }
  for (int i = 0; i < num_merges; ++i) {
    const int32_t left = usable[random() % usable.size()];
    const int32_t right = usable[random() % usable.size()];
    const std::string both = bpe.tokens[left] + bpe.tokens[right];
    if (both.size() > 12 || std::exchange(seen[{left, right}], true)) {
      continue;
    }
    const auto [place, is_new] = id_of.emplace(both, static_cast<int32_t>(bpe.tokens.size()));
    if (is_new) {
      bpe.tokens.push_back(both);
      usable.push_back(place->second);
    }
    bpe.merges.push_back({left, right, place->second});
  }
  std::shuffle(bpe.merges.begin(), bpe.merges.end(), random);
  return bpe;
}

RC_GTEST_PROP(Bpe, EncodesRandomTextAsTheDefinitionDoes, (uint32_t seed)) {
  const RandomBpe random_bpe = MakeRandomBpe(seed, *rc::gen::inRange(0, 80));
  const Bpe bpe(Vocabulary(random_bpe.tokens), random_bpe.merges);
  // Lengths on both sides of the border between the two ways of merging.
  const int length = *rc::gen::element(1, 2, 5, 20, 63, 64, 65, 66, 130, 400);
  const auto letters =
      *rc::gen::container<std::string>(length, rc::gen::elementOf(std::string("aabc")));
  std::vector<int32_t> ids;
  bpe.Encode(letters, ids);
  RC_ASSERT(ids == NaiveEncode(letters, random_bpe.merges));
}

TEST(Bpe, EncodesEveryTokenOfTheVocabularyAsTheDefinitionDoes) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const RandomBpe random_bpe = MakeRandomBpe(seed, 60);
    const Bpe bpe(Vocabulary(random_bpe.tokens), random_bpe.merges);
    for (const std::string& token : random_bpe.tokens) {
      std::vector<int32_t> ids;
      bpe.Encode(token, ids);
      EXPECT_EQ(ids, NaiveEncode(token, random_bpe.merges)) << token << " of seed " << seed;
    }
  }
}

TEST(Bpe, MergesTheLeftmostOfEqualPairsFirst) {
  std::vector<std::string> tokens = MakeRandomBpe(0, 0).tokens;
  tokens.push_back("aa");
  const Bpe bpe(Vocabulary(tokens), {{'a', 'a', 256}});
  for (const size_t length : {size_t{3}, size_t{65}, size_t{1001}}) {
    std::vector<int32_t> expected(length / 2, 256);
    expected.push_back('a');
    std::vector<int32_t> ids;
    bpe.Encode(std::string(length, 'a'), ids);
    EXPECT_EQ(ids, expected);
  }
}

TEST(Bpe, AppendsNothingForAnEmptyPiece) {
  const Bpe bpe(Vocabulary(MakeRandomBpe(0, 0).tokens), {});
  std::vector<int32_t> ids = {7};
  bpe.Encode("", ids);
  EXPECT_EQ(ids, std::vector<int32_t>{7});
}

TEST(Vocabulary, FindsEveryTokenAndNothingElse) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 5000; ++i) {
    tokens.push_back(i % 7 == 0 ? "" : std::string(i % 40, 'x') + std::to_string(i));
  }
  tokens.push_back(std::string("\0", 1));
  tokens.push_back(std::string("\0\0", 2));
  const Vocabulary vocabulary(tokens);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].empty()) {
      EXPECT_EQ(vocabulary.Find(tokens[id]), static_cast<int32_t>(id));
    }
  }
  for (const std::string_view absent :
       {std::string_view(""), std::string_view("x"), std::string_view("\0\0\0", 3)}) {
    EXPECT_EQ(vocabulary.Find(absent), kNoToken);
  }
  EXPECT_EQ(Vocabulary().Find("x"), kNoToken);
}

}  // namespace
}  // namespace cachalot
