#include "backends/cpu/ops/attention/kernel.h"
