#include "backends/cpu/ops/store_rows/kernel.h"
