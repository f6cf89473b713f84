#include "backends/cpu/ops/rope/kernel.h"
