#include "sampling/seed.h"

namespace cachalot {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;

// The finaliser of splitmix64: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

}  // namespace

double UniformAt(uint64_t seed, int64_t step) {
  const uint64_t bits = Mix(Mix(seed + kGolden) + kGolden * static_cast<uint64_t>(step + 1));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

uint64_t ChoiceSeed(uint64_t seed, int64_t choice) {
  // Another multiplier than above: a choice must not be a token further on in another.
  return choice == 0 ? seed : Mix(Mix(seed) + 0xD1342543DE82EF95U * static_cast<uint64_t>(choice));
}

}  // namespace cachalot
