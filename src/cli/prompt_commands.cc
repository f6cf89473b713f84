// `cachalot render` and `cachalot parse`: the prompt format both ways, without a model.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "chat/completion.h"
#include "chat/message.h"
#include "chat/prompt.h"
#include "chat/python_json.h"
#include "chat/wording.h"
#include "cli/commands.h"
#include "io/file.h"

namespace cachalot {
namespace {

constexpr int64_t kMaxInputBytes = int64_t{256} << 20;

struct PromptFlags {
  std::string folder;
  std::string input_path;
  std::string mode;
  std::string effort;
  bool keep_thinking = false;
};

Status RunRender(const PromptFlags& flags) {
  PromptOptions options;
  CACHALOT_ASSIGN_OR_RETURN(options.thinking_mode, ParseThinkingMode(flags.mode));
  options.reasoning_effort = flags.effort;
  options.drop_thinking = !flags.keep_thinking;
  CACHALOT_ASSIGN_OR_RETURN(const PromptWording wording, LoadPromptWording(flags.folder));
  CACHALOT_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.input_path, kMaxInputBytes));
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson json, ParsePythonJson(text, flags.input_path));
  const auto messages = ParseChatInput(json);
  if (!messages) {
    return MakeError(messages.error().code, "{}: {}", flags.input_path, messages.error().message);
  }
  CACHALOT_ASSIGN_OR_RETURN(const Prompt prompt, EncodeMessages(*messages, options, wording));
  const std::string rendered = prompt.Text();
  std::fwrite(rendered.data(), 1, rendered.size(), stdout);
  return {};
}

Status RunParse(const PromptFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const ThinkingMode mode, ParseThinkingMode(flags.mode));
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  std::printf("%s\n", DumpJson(ParseCompletion(text, mode), 2).c_str());
  return {};
}

}  // namespace

void AddPromptCommands(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PromptFlags>();
  const auto add_mode = [&](CLI::App* command) {
    command->add_option("--mode", flags->mode, "thinking or chat")
        ->required()
        ->check(CLI::IsMember({"thinking", "chat"}));
  };
  CLI::App* render = app.add_subcommand("render", "Messages to the exact prompt text on stdout");
  render->add_option("-m,--model", flags->folder, "checkpoint folder, whose wording is used")
      ->required();
  render
      ->add_option("--input", flags->input_path,
                   "JSON: a list of messages, or an object with messages and tools")
      ->required();
  add_mode(render);
  render->add_option("--effort,--reasoning-effort", flags->effort,
                     "a level of the checkpoint's wording");
  render->add_flag("--keep-thinking", flags->keep_thinking, "keep the reasoning of earlier turns");
  render->callback([flags, &action] { action = [flags] { return RunRender(*flags); }; });

  CLI::App* parse = app.add_subcommand(
      "parse", "A completion's text on stdin to a message as JSON: reasoning, content, tool calls");
  parse->add_option("-m,--model", flags->folder, "checkpoint folder (the format needs none of it)");
  add_mode(parse);
  parse->callback([flags, &action] { action = [flags] { return RunParse(*flags); }; });
}

}  // namespace cachalot
