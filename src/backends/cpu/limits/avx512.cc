#include "backends/cpu/limits/kernel.h"
