// How far two arrays are apart: the measures that tests and benchmarks judge kernels by.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cachalot {

// 1 - 2<x,y> / (<x,x> + <y,y>): 0 for equal arrays, about half the squared relative error. Not
// finite where either array is not finite at a place where the other differs.
double Difference(std::span<const float> found, std::span<const float> wanted);

// |found - wanted| / |wanted| in the Euclidean norm.
double RelativeError(std::span<const float> found, std::span<const float> wanted);

// Empty when all bits are equal, else a line with the first place that differs and both values.
std::string FirstBitDifference(std::span<const float> found, std::span<const float> wanted);

}  // namespace cachalot
