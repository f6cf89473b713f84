// Random numbers that are functions of where they are used, so that nothing has a state to share.
#pragma once

#include <cstdint>

namespace cachalot {

// Uniform in [0, 1), for one token of an answer.
double UniformAt(uint64_t seed, int64_t step);

// The seed of one of a request's answers; the first, choice 0, has the request's own.
uint64_t ChoiceSeed(uint64_t seed, int64_t choice);

}  // namespace cachalot
