#include "backends/cpu/ops/indexer/kernel.h"
