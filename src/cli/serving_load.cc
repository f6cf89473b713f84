#include "cli/serving_load.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "checkpoint/random_values.h"

namespace cachalot {
namespace {

// What a stream of random numbers is for: each has its own, so that another output length changes no
// prompt.
enum class Purpose : uint64_t {
  kArrival,
  kInputLength,
  kOutputLength,
  kPrefixChoice,
  kPrefix,
  kPrompt
};

class RandomStream {
 public:
  RandomStream(uint64_t seed, Purpose purpose, int64_t index)
      : key_(RandomBits(RandomBits(seed, static_cast<uint64_t>(purpose)),
                        static_cast<uint64_t>(index))) {}

  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // [0, 1)
  int64_t Below(int64_t end) {
    return static_cast<int64_t>(
        (static_cast<unsigned __int128>(Next()) * static_cast<uint64_t>(end)) >> 64);
  }
  double Exponential() { return -std::log1p(-Uniform()); }  // mean 1
  double Normal() {
    const double radius = std::sqrt(2 * Exponential());
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t Next() { return RandomBits(key_, counter_++); }

  uint64_t key_;
  uint64_t counter_ = 0;
};

int64_t Draw(const LengthDistribution& lengths, RandomStream random) {
  switch (lengths.kind) {
    case LengthDistribution::Kind::kFixed:
      return lengths.low;
    case LengthDistribution::Kind::kUniform:
      return lengths.low + random.Below(lengths.high - lengths.low + 1);
    case LengthDistribution::Kind::kLognormal:
      break;
  }
  const double variance = std::log1p(lengths.variation * lengths.variation);
  const double length =
      lengths.mean * std::exp(std::sqrt(variance) * random.Normal() - variance / 2);
  return std::clamp<int64_t>(std::llround(std::min(length, 1e18)), 1, lengths.high);
}

void AppendIds(RandomStream random, int64_t count, int64_t vocab_size, std::vector<int32_t>* ids) {
  for (int64_t i = 0; i < count; ++i) {
    ids->push_back(static_cast<int32_t>(random.Below(vocab_size)));
  }
}

// The beginning of a prefix is the same however much of it is taken.
std::vector<int32_t> MakePrompt(const LoadOptions& options, int64_t index) {
  const auto stream = [&](Purpose purpose, int64_t of) {
    return RandomStream(options.seed, purpose, of);
  };
  const int64_t length = Draw(options.input, stream(Purpose::kInputLength, index));
  const auto share = static_cast<int64_t>(options.prefix_share * static_cast<double>(length));
  const int64_t shared = std::min(share, options.prefix_tokens);
  const int64_t prefix = stream(Purpose::kPrefixChoice, index).Below(options.num_prefixes);
  std::vector<int32_t> prompt;
  prompt.reserve(static_cast<size_t>(length));
  AppendIds(stream(Purpose::kPrefix, prefix), shared, options.vocab_size, &prompt);
  AppendIds(stream(Purpose::kPrompt, index), length - shared, options.vocab_size, &prompt);
  return prompt;
}

template <typename T>
std::optional<T> ReadNumber(std::string_view text) {
  T value;
  const auto [rest, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && rest == text.data() + text.size() ? std::optional<T>(value)
                                                                   : std::nullopt;
}

std::optional<LengthDistribution> ReadLognormal(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) {
    return std::nullopt;
  }
  const auto mean = ReadNumber<double>(text.substr(0, colon));
  const auto variation = ReadNumber<double>(text.substr(colon + 1));
  if (!mean || !variation || !(*mean >= 1 && *mean <= kMaxLoadLength) ||
      !(*variation >= 0 && *variation <= 100)) {
    return std::nullopt;
  }
  const double longest = std::ceil(*mean * LengthDistribution::kLognormalCut);
  return LengthDistribution{LengthDistribution::Kind::kLognormal, 1, static_cast<int64_t>(longest),
                            *mean, *variation};
}

std::optional<LengthDistribution> ReadBounds(std::string_view text) {
  const size_t dash = text.find('-');
  const auto low = ReadNumber<int64_t>(text.substr(0, dash));
  const auto high = dash == text.npos ? low : ReadNumber<int64_t>(text.substr(dash + 1));
  if (!low || !high || *low < 1 || *high < *low || *high > kMaxLoadLength) {
    return std::nullopt;
  }
  const auto kind =
      dash == text.npos ? LengthDistribution::Kind::kFixed : LengthDistribution::Kind::kUniform;
  return LengthDistribution{kind, *low, *high};
}

Status CheckAtLeast(const char* flag, int64_t value, int64_t least) {
  if (value < least) {
    return MakeError(StatusCode::kInvalidArgument, "{} is {}, expected {} or more", flag, value,
                     least);
  }
  return {};
}

}  // namespace

Result<LengthDistribution> ParseLengthDistribution(std::string_view text, std::string_view flag) {
  constexpr std::string_view kLognormal = "lognormal:";
  const auto lengths = text.starts_with(kLognormal) ? ReadLognormal(text.substr(kLognormal.size()))
                                                    : ReadBounds(text);
  if (!lengths) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{} is \"{}\", expected tokens as 512, 128-1024 or lognormal:MEAN:VARIATION, "
                     "1 to {}",
                     flag, text, kMaxLoadLength);
  }
  return *lengths;
}

Result<double> ParseRequestRate(std::string_view text) {
  const auto rate = ReadNumber<double>(text);  // knows "inf"
  if (!rate || !(*rate > 0)) {
    return MakeError(StatusCode::kInvalidArgument,
                     "--request-rate is \"{}\", expected requests a second above 0, or inf", text);
  }
  return *rate;
}

Status CheckLoadOptions(const LoadOptions& options) {
  CACHALOT_RETURN_IF_ERROR(CheckAtLeast("--num-prompts", options.num_requests, 1));
  CACHALOT_RETURN_IF_ERROR(CheckAtLeast("--num-prefixes", options.num_prefixes, 1));
  CACHALOT_RETURN_IF_ERROR(CheckAtLeast("--prefix-len", options.prefix_tokens, 0));
  CACHALOT_RETURN_IF_ERROR(CheckAtLeast("the vocabulary", options.vocab_size, 1));
  if (!(options.rate > 0)) {
    return MakeError(StatusCode::kInvalidArgument, "--request-rate is {}, expected above 0",
                     options.rate);
  }
  if (!(options.prefix_share >= 0 && options.prefix_share <= 1)) {
    return MakeError(StatusCode::kInvalidArgument, "--prefix-share is {}, expected 0 to 1",
                     options.prefix_share);
  }
  return {};
}

std::vector<LoadRequest> MakeLoad(const LoadOptions& options) {
  std::vector<LoadRequest> requests;
  RandomStream gaps(options.seed, Purpose::kArrival, 0);
  double arrival = 0;
  for (int64_t i = 0; i < options.num_requests; ++i) {
    const RandomStream output(options.seed, Purpose::kOutputLength, i);
    requests.push_back({arrival, MakePrompt(options, i), Draw(options.output, output)});
    const double gap = options.process == ArrivalProcess::kPoisson ? gaps.Exponential() : 1;
    arrival += gap / options.rate;
  }
  return requests;
}

}  // namespace cachalot
