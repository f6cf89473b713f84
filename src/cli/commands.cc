#include "cli/commands.h"

#include <cstdio>

#include "base/log.h"
#include "cli/flags.h"

namespace cachalot {

int RunProgram(int argc, const char* const* argv) {
  CLI::App app("cachalot: DeepSeek-V4 from a checkpoint folder to text", "cachalot");
  app.require_subcommand(1);
  app.set_version_flag("--version", "cachalot " CACHALOT_VERSION);
  std::string log_level;
  app.add_option("--log-level", log_level,
                 "trace, debug, info, warn, error or off (default: $CACHALOT_LOG, else warn; info "
                 "for serve)");
  Action action;
  AddRunCommand(app, action);
  AddServeCommand(app, action);
  AddGenerateCommand(app, action);
  AddReplayCommand(app, action);
  AddLogitsCommand(app, action);
  AddTokenizeCommands(app, action);
  AddPromptCommands(app, action);
  AddInspectCommand(app, action);
  AddBenchCommands(app, action);
  AddSynthCommand(app, action);
  try {
    app.parse(ReversedArguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : ExitCode(StatusCode::kInvalidArgument);
  }
  Status status = SetUpLog(log_level, app.got_subcommand("serve") ? "info" : "warn");
  if (status) {
    status = action();
  }
  if (!status) {
    std::fprintf(stderr, "cachalot: %s\n", status.error().message.c_str());
    return ExitCode(status.error().code);
  }
  return 0;
}

}  // namespace cachalot
