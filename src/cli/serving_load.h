// The requests of `cachalot bench serving`: when each arrives, what it says and how long its answer
// is to be. They come when they come, whether or not earlier ones are answered (an open loop), and
// are functions of the options and the seed alone, by a generator of our own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cachalot {

// Of tokens, always at least one.
struct LengthDistribution {
  enum class Kind : uint8_t { kFixed, kUniform, kLognormal };

  Kind kind = Kind::kFixed;
  int64_t low = 1;       // fixed: the length; uniform: the bounds, themselves included
  int64_t high = 1;      // lognormal: the longest, kLognormalCut means; what is longer is cut
  double mean = 1;       // of the lognormal
  double variation = 0;  // of the lognormal: its deviation over its mean

  static constexpr int64_t kLognormalCut = 16;
};

inline constexpr int64_t kMaxLoadLength = int64_t{1} << 24;

// "512", "128-1024", or "lognormal:512:0.8", with mean and variation. `flag` names it in errors.
Result<LengthDistribution> ParseLengthDistribution(std::string_view text, std::string_view flag);

enum class ArrivalProcess : uint8_t { kPoisson, kConstant };

struct LoadOptions {
  int64_t num_requests = 1000;
  ArrivalProcess process = ArrivalProcess::kPoisson;
  double rate = 1;  // requests a second; infinite: all at once
  LengthDistribution input;
  LengthDistribution output;
  // Of every prompt this share, cut to prefix_tokens, is the beginning of one of num_prefixes texts.
  double prefix_share = 0;
  int64_t num_prefixes = 1;
  int64_t prefix_tokens = 0;
  int64_t vocab_size = 0;
  uint64_t seed = 0;
};

// "8", "0.5" or "inf".
Result<double> ParseRequestRate(std::string_view text);
// Names the flag that is out of bounds.
Status CheckLoadOptions(const LoadOptions& options);

struct LoadRequest {
  double arrival;  // seconds after the first, which comes at 0
  std::vector<int32_t> prompt;
  int64_t output_tokens;
};

// In order of arrival. Options as CheckLoadOptions lets them pass.
std::vector<LoadRequest> MakeLoad(const LoadOptions& options);

}  // namespace cachalot
