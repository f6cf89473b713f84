// `cachalot bench serving`: many requests over an engine in this process, and the figures that
// servers are compared by.
#pragma once

#include "cli/commands.h"

namespace cachalot {

void AddBenchServing(CLI::App& bench, Action& action);

}  // namespace cachalot
