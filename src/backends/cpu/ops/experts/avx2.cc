#include "backends/cpu/ops/experts/kernel.h"
