#include "backends/cpu/ops/linear/kernel.h"
