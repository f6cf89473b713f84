#include "backends/cpu/ops/linear/tiles.h"
