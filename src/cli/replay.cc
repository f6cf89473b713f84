// `cachalot replay`: a scheduler's trace once more, decision by decision.
#include <cstdio>

#include "cli/commands.h"
#include "io/file.h"
#include "scheduler/trace.h"

namespace cachalot {

void AddReplayCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "replay", "Check that a scheduler's trace (generate --trace) gives the same decisions again");
  auto path = std::make_shared<std::string>();
  command->add_option("trace", *path, "the trace")->required();
  command->callback([path, &action] {
    action = [path]() -> Status {
      constexpr int64_t kMostBytes = int64_t{1} << 34;
      CACHALOT_ASSIGN_OR_RETURN(const std::string text, ReadFile(*path, kMostBytes));
      CACHALOT_ASSIGN_OR_RETURN(const ReplayResult result, ReplayTrace(text, *path));
      std::printf("%lld events, %lld plans, all as recorded\n",
                  static_cast<long long>(result.events), static_cast<long long>(result.plans));
      return {};
    };
  });
}

}  // namespace cachalot
