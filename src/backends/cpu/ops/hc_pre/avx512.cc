#include "backends/cpu/ops/hc_pre/kernel.h"
