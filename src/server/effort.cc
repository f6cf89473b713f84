#include "server/effort.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr std::array<std::string_view, 6> kRanks = {"minimal", "low",   "medium",
                                                    "high",    "xhigh", "max"};
constexpr size_t kMaxShownBytes = 100;

}  // namespace

Result<std::string> EffortLevel(const PromptWording& wording, std::string_view effort) {
  if (effort.empty() || wording.effort_prefixes.contains(effort)) {
    return std::string(effort);
  }
  const auto rank = std::ranges::find(kRanks, effort);
  if (rank == kRanks.end()) {
    return tl::unexpected(Error{StatusCode::kInvalidArgument,
                                fmt::format("effort is \"{}\", expected none, minimal, low, "
                                            "medium, high, xhigh or max",
                                            Utf8Prefix(effort, kMaxShownBytes)),
                                "reasoning_effort"});
  }
  std::string nearest;
  std::ptrdiff_t distance = std::ssize(kRanks);
  for (auto level = kRanks.begin(); level != kRanks.end(); ++level) {
    if (std::abs(level - rank) < distance && wording.effort_prefixes.contains(*level)) {
      nearest = *level;
      distance = std::abs(level - rank);
    }
  }
  return nearest;
}

}  // namespace cachalot
