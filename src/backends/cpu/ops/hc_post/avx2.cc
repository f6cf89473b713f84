#include "backends/cpu/ops/hc_post/kernel.h"
