// `cachalot run`: one answer, or a chat.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>

#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/generation_defaults.h"
#include "cli/interactive_chat.h"
#include "cli/loaded_model.h"

namespace cachalot {
namespace {

struct RunFlags {
  ModelFlags model;
  std::string prompt;
  std::string task;  // "chat", or empty
  bool think = false;
  bool no_think = false;
  bool raw = false;
  std::string system;
  std::string effort;
  double temperature = -1;  // below 0: the checkpoint's own, as for the others
  double top_p = -1;
  int64_t top_k = -1;
  double min_p = -1;
  int64_t seed = -1;
  int64_t max_new_tokens = 0;
  int64_t context = 0;
  StateKind state = StateKind::kRing;
};

constexpr int64_t kDefaultContext = 32768;

SamplingParams SamplingOf(const RunFlags& flags, SamplingParams sampling) {
  sampling.temperature = flags.temperature >= 0 ? flags.temperature : sampling.temperature;
  sampling.top_p = flags.top_p >= 0 ? flags.top_p : sampling.top_p;
  sampling.top_k = flags.top_k >= 0 ? flags.top_k : sampling.top_k;
  sampling.min_p = flags.min_p >= 0 ? flags.min_p : sampling.min_p;
  sampling.seed = flags.seed >= 0 ? static_cast<uint64_t>(flags.seed) : std::random_device{}();
  return sampling;
}

Status RunRun(const RunFlags& flags) {
  const bool chat = flags.task == "chat";
  if (chat == !flags.prompt.empty()) {
    return MakeError(StatusCode::kInvalidArgument, "expected either -p TEXT or chat");
  }
  if (flags.think && flags.no_think) {
    return MakeError(StatusCode::kInvalidArgument, "--think and --no-think exclude each other");
  }
  CACHALOT_ASSIGN_OR_RETURN(const GenerationDefaults defaults,
                            LoadGenerationDefaults(flags.model.folder));
  CACHALOT_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model.folder));
  ChatSettings settings;
  settings.generate.sampling = SamplingOf(flags, defaults.sampling);
  CACHALOT_RETURN_IF_ERROR(CheckSamplingParams(settings.generate.sampling));
  settings.generate.sampling.stop_ids = defaults.stop_ids;
  if (settings.generate.sampling.stop_ids.empty()) {
    settings.generate.sampling.stop_ids = {static_cast<int32_t>(config.eos_token)};
  }
  const int64_t context =
      flags.context > 0 ? flags.context : std::min(kDefaultContext, config.max_position);
  settings.generate.max_new_tokens = flags.max_new_tokens > 0 ? flags.max_new_tokens : context;
  settings.prompt.thinking_mode = flags.think ? ThinkingMode::kThinking : ThinkingMode::kChat;
  settings.prompt.reasoning_effort = flags.effort;
  settings.system = flags.system;

  // Small parts first: what is wrong with them should not wait for the weights.
  CACHALOT_ASSIGN_OR_RETURN(const PromptWording wording, LoadPromptWording(flags.model.folder));
  CACHALOT_ASSIGN_OR_RETURN(const Tokenizer tokenizer,
                            Tokenizer::Load(flags.model.folder + "/tokenizer.json"));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{}/tokenizer.json has ids up to {}, but the model's vocabulary is {}",
                     flags.model.folder, tokenizer.vocab_size() - 1, config.vocab_size);
  }
  std::vector<int32_t> unused_ids;
  for (int32_t id = 0; id < config.vocab_size; ++id) {
    if (!tokenizer.HasToken(id)) {
      unused_ids.push_back(id);
    }
  }
  settings.generate.sampling.banned_ids =
      std::make_shared<const std::vector<int32_t>>(std::move(unused_ids));
  CACHALOT_ASSIGN_OR_RETURN(const LoadedModel loaded,
                            LoadModel(flags.model,
                                      {.max_context = context,
                                       .max_step_tokens = std::min<int64_t>(512, context),
                                       .state = flags.state},
                                      /*warm=*/true));
  ChatSession session(*loaded.runner, tokenizer, wording, settings);
  if (chat) {
    return ChatInteractively(session);
  }
  const InterruptGuard interrupts;
  TerminalWriter writer;
  CACHALOT_RETURN_IF_ERROR(flags.raw ? session.Complete(flags.prompt, writer)
                                     : session.Answer(flags.prompt, writer));
  std::printf("\n");
  return {};
}

}  // namespace

void AddRunCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Answer a prompt, or chat");
  auto flags = std::make_shared<RunFlags>();
  flags->model.AddTo(*command);
  command->add_option("task", flags->task, "chat: talk with the model, with history")
      ->check(CLI::IsMember({"chat"}));
  command->add_option("-p,--prompt", flags->prompt, "a user's message");
  command->add_flag("--raw", flags->raw, "-p is the whole prompt: no chat format around it");
  command->add_flag("--think", flags->think, "let the model reason before it answers");
  command->add_flag("--no-think", flags->no_think, "answer at once (the default)");
  command->add_option("--effort,--reasoning-effort", flags->effort,
                      "with --think: a level of the checkpoint's wording");
  command->add_option("--system,--system-prompt", flags->system, "a system message");
  command
      ->add_option("--temp,--temperature", flags->temperature,
                   "0 is greedy (default: the checkpoint's, for all of these)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--top-p", flags->top_p, "")->check(CLI::Range(0.0, 1.0));
  command->add_option("--top-k", flags->top_k, "")->check(CLI::NonNegativeNumber);
  command->add_option("--min-p", flags->min_p, "")->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", flags->seed, "same seed, same answer (default: random)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("-n,--n-predict,--max-tokens", flags->max_new_tokens,
                   "tokens of an answer (default: as the context allows)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("-c,--ctx-size,--context", flags->context,
                   "tokens of prompt and answers together (default: 32768, or the model's)")
      ->check(CLI::PositiveNumber);
  AddStateFlag(*command, flags->state);
  command->callback([flags, &action] { action = [flags] { return RunRun(*flags); }; });
}

}  // namespace cachalot
