#include "backends/cpu/ops/rms_norm/kernel.h"
