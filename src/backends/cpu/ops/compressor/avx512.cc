#include "backends/cpu/ops/compressor/kernel.h"
