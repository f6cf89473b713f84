// The commands of the program. Each Add… declares a sub-command's flags and gives it an action that
// main runs after the whole command line has been read.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace cachalot {

using Action = std::function<Status()>;

void AddRunCommand(CLI::App& app, Action& action);
void AddServeCommand(CLI::App& app, Action& action);
void AddGenerateCommand(CLI::App& app, Action& action);
void AddReplayCommand(CLI::App& app, Action& action);
void AddLogitsCommand(CLI::App& app, Action& action);
void AddTokenizeCommands(CLI::App& app, Action& action);  // tokenize, detokenize
void AddPromptCommands(CLI::App& app, Action& action);    // render, parse
void AddInspectCommand(CLI::App& app, Action& action);
void AddBenchCommands(CLI::App& app, Action& action);  // bench limits, kernels, throughput, serving
void AddSynthCommand(CLI::App& app, Action& action);

// The program: reads the command line, runs one command, returns the exit code.
int RunProgram(int argc, const char* const* argv);

}  // namespace cachalot
