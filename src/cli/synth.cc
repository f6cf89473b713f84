// `cachalot synth`: a random checkpoint in the published format.
#include "checkpoint/synth.h"

#include "checkpoint/named_shapes.h"
#include "cli/commands.h"
#include "cli/progress.h"

namespace cachalot {
namespace {

struct SynthFlags {
  std::string shape;
  std::string layout = "native";
  uint64_t seed = 1;
  std::string folder;
};

Status RunSynth(const SynthFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const WeightLayout layout, ParseWeightLayout(flags.layout));
  CACHALOT_ASSIGN_OR_RETURN(const ModelConfig config, NamedShape(flags.shape, layout));
  ProgressBar bar("writing", "B");
  return WriteSynthCheckpoint(config, flags.seed, flags.folder,
                              [&](int64_t done, int64_t total) { bar.Show(done, total); });
}

}  // namespace

void AddSynthCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "synth", "A random checkpoint in the published format, to test with and to measure on");
  auto flags = std::make_shared<SynthFlags>();
  command->add_option("--shape", flags->shape, "nano, small, a3, flash4, flash or pro")->required();
  command->add_option("--layout", flags->layout, "native, bf16 or w8a8")->capture_default_str();
  command->add_option("--seed", flags->seed, "same seed, same bytes")->capture_default_str();
  command->add_option("-o,--output", flags->folder, "an empty or new folder")->required();
  command->callback([flags, &action] { action = [flags] { return RunSynth(*flags); }; });
}

}  // namespace cachalot
