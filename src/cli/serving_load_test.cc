#include "cli/serving_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace cachalot {
namespace {

using testing::HasSubstr;

LengthDistribution Lengths(std::string_view text) {
  return ParseLengthDistribution(text, "--input-len").value();
}

LoadOptions Options(std::string_view input, std::string_view output) {
  LoadOptions options;
  options.input = Lengths(input);
  options.output = Lengths(output);
  options.vocab_size = 1000;
  options.seed = 1;
  return options;
}

TEST(ServingLoad, IsAFunctionOfItsOptions) {
  LoadOptions options = Options("8-40", "lognormal:16:0.5");
  const auto load = MakeLoad(options);
  const auto again = MakeLoad(options);
  options.output = Lengths("3");
  const auto other = MakeLoad(options);
  ASSERT_EQ(load.size(), 1000U);
  for (size_t i = 0; i < load.size(); ++i) {
    EXPECT_EQ(load[i].prompt, again[i].prompt);
    EXPECT_EQ(load[i].arrival, again[i].arrival);
    EXPECT_EQ(load[i].output_tokens, again[i].output_tokens);
    // Other answers leave prompts and arrivals as they were.
    EXPECT_EQ(load[i].prompt, other[i].prompt);
    EXPECT_EQ(load[i].arrival, other[i].arrival);
    EXPECT_EQ(other[i].output_tokens, 3);
  }
  options.seed = 2;
  EXPECT_NE(MakeLoad(options)[0].prompt, load[0].prompt);
}

// The values themselves: another compiler or library gives the same load.
TEST(ServingLoad, IsTheSameEverywhere) {
  LoadOptions options = Options("3", "10-99");
  options.num_requests = 2;
  const auto load = MakeLoad(options);
  EXPECT_THAT(load[0].prompt, testing::ElementsAre(252, 648, 813));
  EXPECT_THAT(load[1].prompt, testing::ElementsAre(490, 580, 860));
  EXPECT_EQ(load[0].output_tokens, 49);
  EXPECT_EQ(load[1].output_tokens, 36);
  EXPECT_EQ(load[0].arrival, 0);
  EXPECT_NEAR(load[1].arrival, 1.1825771296437824, 1e-9);
}

TEST(ServingLoad, ArrivesByItsProcess) {
  LoadOptions options = Options("1", "1");
  options.num_requests = 10001;
  options.rate = 4;
  const auto poisson = MakeLoad(options);
  double squares = 0;
  for (size_t i = 1; i < poisson.size(); ++i) {
    const double gap = poisson[i].arrival - poisson[i - 1].arrival;
    ASSERT_GE(gap, 0);
    squares += gap * gap;
  }
  EXPECT_EQ(poisson.front().arrival, 0);
  // Gaps of mean 1/4 and deviation 1/4.
  EXPECT_NEAR(poisson.back().arrival, 2500, 100);
  EXPECT_NEAR(squares / 10000, 2.0 / 16, 0.012);

  options.process = ArrivalProcess::kConstant;
  EXPECT_NEAR(MakeLoad(options)[9].arrival, 2.25, 1e-12);
  options.rate = ParseRequestRate("inf").value();
  EXPECT_EQ(MakeLoad(options).back().arrival, 0);
  options.process = ArrivalProcess::kPoisson;
  EXPECT_EQ(MakeLoad(options).back().arrival, 0);
}

TEST(ServingLoad, HasLengthsOfItsDistributions) {
  LoadOptions options = Options("3-6", "lognormal:200:0.5");
  options.num_requests = 20000;
  std::set<size_t> inputs;
  double sum = 0;
  double squares = 0;
  for (const LoadRequest& request : MakeLoad(options)) {
    inputs.insert(request.prompt.size());
    const auto length = static_cast<double>(request.output_tokens);
    sum += length;
    squares += length * length;
  }
  EXPECT_THAT(inputs, testing::ElementsAre(3, 4, 5, 6));
  const double mean = sum / 20000;
  EXPECT_NEAR(mean, 200, 4);
  EXPECT_NEAR(std::sqrt(squares / 20000 - mean * mean), 100, 5);
}

TEST(ServingLoad, CutsLognormalLengths) {
  LoadOptions options = Options("lognormal:2:10", "1");
  options.num_requests = 5000;
  size_t longest = 0;
  size_t shortest = 100;
  for (const LoadRequest& request : MakeLoad(options)) {
    longest = std::max(longest, request.prompt.size());
    shortest = std::min(shortest, request.prompt.size());
  }
  EXPECT_EQ(options.input.high, 32);
  EXPECT_EQ(longest, 32U);
  EXPECT_EQ(shortest, 1U);
}

TEST(ServingLoad, HasTokensOfTheVocabulary) {
  LoadOptions options = Options("100", "1");
  options.vocab_size = 7;
  options.num_requests = 100;
  std::vector<int> counts(7);
  for (const LoadRequest& request : MakeLoad(options)) {
    for (const int32_t id : request.prompt) {
      ++counts.at(static_cast<size_t>(id));
    }
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 10000 / 7, 150);
  }
}

TEST(ServingLoad, SharesPrefixes) {
  LoadOptions options = Options("10-100", "1");
  options.prefix_share = 0.5;
  options.num_prefixes = 3;
  options.prefix_tokens = 30;
  std::set<std::vector<int32_t>> prefixes;
  std::set<int32_t> first_own;
  for (const LoadRequest& request : MakeLoad(options)) {
    const size_t shared = std::min<size_t>(request.prompt.size() / 2, 30);
    prefixes.insert({request.prompt.begin(), request.prompt.begin() + 5});
    const auto same = [&](const std::vector<int32_t>& begin) {
      return std::equal(begin.begin(), begin.end(), request.prompt.begin());
    };
    EXPECT_TRUE(std::any_of(prefixes.begin(), prefixes.end(), same));
    first_own.insert(request.prompt[shared]);
  }
  EXPECT_EQ(prefixes.size(), 3U);
  EXPECT_GT(first_own.size(), 500U);  // behind the prefix every prompt is its own

  // A longer prompt goes further into the same prefix, as far as it reaches.
  options.num_prefixes = 1;
  options.input = Lengths("40");
  const auto shorter = MakeLoad(options)[0].prompt;
  options.input = Lengths("200");
  const auto load = MakeLoad(options);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.begin() + 20, load[1].prompt.begin()));
  EXPECT_TRUE(
      std::equal(load[0].prompt.begin(), load[0].prompt.begin() + 30, load[1].prompt.begin()));
  EXPECT_FALSE(
      std::equal(load[0].prompt.begin(), load[0].prompt.begin() + 40, load[1].prompt.begin()));
}

TEST(LengthDistribution, IsReadFromText) {
  EXPECT_EQ(Lengths("512").low, 512);
  EXPECT_EQ(Lengths("512").high, 512);
  EXPECT_EQ(Lengths("128-1024").low, 128);
  EXPECT_EQ(Lengths("128-1024").high, 1024);
  EXPECT_EQ(Lengths("lognormal:512:0.8").mean, 512);
  EXPECT_EQ(Lengths("lognormal:512:0.8").variation, 0.8);
  EXPECT_EQ(Lengths("lognormal:512:0.8").high, 16 * 512);
  for (const char* text :
       {"", "0", "-5", "5-", "6-5", "x", "5x", "1e3", "16777217", "lognormal", "lognormal:5",
        "lognormal:0:1", "lognormal:5:-1", "lognormal:5:x", "lognormal:nan:1", "lognormal:5:1:2"}) {
    const auto lengths = ParseLengthDistribution(text, "--input-len");
    ASSERT_FALSE(lengths) << text;
    EXPECT_THAT(lengths.error().message,
                HasSubstr(fmt::format("--input-len is \"{}\", expected tokens as 512", text)));
  }
}

TEST(LoadOptions, NameTheFlagThatIsWrong) {
  EXPECT_EQ(ParseRequestRate("0.5").value(), 0.5);
  for (const char* text : {"0", "-1", "nan", "x", "", "1x"}) {
    EXPECT_THAT(ParseRequestRate(text).error().message,
                HasSubstr(fmt::format("--request-rate is \"{}\", expected", text)));
  }
  LoadOptions options = Options("1", "1");
  EXPECT_TRUE(CheckLoadOptions(options));
  options.prefix_share = 1.5;
  EXPECT_EQ(CheckLoadOptions(options).error().message, "--prefix-share is 1.5, expected 0 to 1");
  options.num_prefixes = 0;
  EXPECT_EQ(CheckLoadOptions(options).error().message, "--num-prefixes is 0, expected 1 or more");
}

}  // namespace
}  // namespace cachalot
