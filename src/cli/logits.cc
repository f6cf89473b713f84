// `cachalot logits`: teacher-forced logits as raw float32, the interface by which correctness is
// judged.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/progress.h"
#include "engine/teacher_forcing.h"
#include "io/file.h"

namespace cachalot {
namespace {

struct LogitsFlags {
  ModelFlags model;
  std::string tokens_path;
  std::string out_path;
  int64_t prefill = -1;  // all
  int64_t chunk = 512;
  std::string head = "main";
  int64_t anchor = -1;
  StateKind state = StateKind::kRing;
};

constexpr int64_t kMaxTokenBytes = int64_t{1} << 30;

Result<std::vector<int32_t>> ReadTokens(const std::string& path) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxTokenBytes));
  if (bytes.empty() || bytes.size() % sizeof(int32_t) != 0) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{}: {} bytes, expected little-endian int32 ids, four bytes each", path,
                     bytes.size());
  }
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

template <typename T>
Status WriteArray(const std::string& path, std::span<const T> values) {
  CACHALOT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  CACHALOT_RETURN_IF_ERROR(file.Write(std::as_bytes(values)));
  return file.Close();
}

Status WriteForcedLogits(const LogitsFlags& flags, ModelRunner& runner,
                         std::span<const int32_t> ids) {
  const auto total = static_cast<int64_t>(ids.size());
  TeacherForcingOptions options;
  options.prefill = flags.prefill < 0 ? total : std::min(flags.prefill, total);
  options.chunk = flags.chunk;
  options.head = flags.head == "mtp" ? LogitsHead::kMtp : LogitsHead::kMain;
  CACHALOT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(flags.out_path));
  ProgressBar bar("logits", "tokens");
  int64_t done = 0;
  CACHALOT_RETURN_IF_ERROR(ForceTokens(runner, ids, options, [&](std::span<const float> rows) {
    done += static_cast<int64_t>(rows.size()) / runner.config().vocab_size;
    bar.Show(done, total);
    return file.Write(std::as_bytes(rows));
  }));
  return file.Close();
}

Status WriteDraft(const LogitsFlags& flags, ModelRunner& runner, std::span<const int32_t> ids) {
  const auto total = static_cast<int64_t>(ids.size());
  if (flags.anchor < 0 || flags.anchor + 1 >= total) {
    return MakeError(StatusCode::kInvalidArgument,
                     "--anchor is {}, expected 0 to {}: its successor must be among the {} tokens",
                     flags.anchor, total - 2, total);
  }
  CACHALOT_ASSIGN_OR_RETURN(const RequestSlot slot, runner.Open());
  const int64_t prefill = flags.prefill < 0 ? total : flags.prefill;
  int64_t count = 0;
  for (int64_t begin = 0; begin <= flags.anchor; begin += count) {
    count =
        begin < prefill ? std::min({flags.chunk, prefill - begin, flags.anchor + 1 - begin}) : 1;
    const RequestTokens step = {
        slot, ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(count))};
    CACHALOT_RETURN_IF_ERROR(runner.Forward({&step, 1}));
  }
  CACHALOT_ASSIGN_OR_RETURN(const ModelRunner::Draft draft,
                            runner.DraftBlock(slot, ids[static_cast<size_t>(flags.anchor + 1)]));
  CACHALOT_RETURN_IF_ERROR(WriteArray<float>(flags.out_path, draft.logits));
  CACHALOT_RETURN_IF_ERROR(WriteArray<int32_t>(flags.out_path + ".ids.i32", draft.ids));
  return WriteArray<float>(flags.out_path + ".confidence.f32", draft.confidence);
}

Status RunLogits(const LogitsFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadTokens(flags.tokens_path));
  CACHALOT_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model.folder));
  const auto total = static_cast<int64_t>(ids.size());
  if (total > config.max_position) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {} tokens, but the model's context is {}",
                     flags.tokens_path, total, config.max_position);
  }
  const bool dspark = flags.head == "dspark";
  if (flags.head == "mtp" && !config.has_mtp) {
    return MakeError(StatusCode::kUnsupported, "--head mtp: {} has no MTP block",
                     flags.model.folder);
  }
  if (dspark && !config.dspark) {
    return MakeError(StatusCode::kUnsupported, "--head dspark: {} has no DSpark stages",
                     flags.model.folder);
  }
  if (!dspark && flags.anchor >= 0) {
    return MakeError(StatusCode::kInvalidArgument, "--anchor goes with --head dspark, not {}",
                     flags.head);
  }
  CACHALOT_ASSIGN_OR_RETURN(const LoadedModel loaded,
                            LoadModel(flags.model,
                                      {.max_context = total,
                                       .max_step_tokens = std::min(flags.chunk, total),
                                       .draft_context = dspark,
                                       .state = flags.state},
                                      /*warm=*/false));
  return dspark ? WriteDraft(flags, *loaded.runner, ids)
                : WriteForcedLogits(flags, *loaded.runner, ids);
}

}  // namespace

void AddLogitsCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "logits", "Teacher-forced logits of every position, as float32 [tokens, vocab]");
  auto flags = std::make_shared<LogitsFlags>();
  flags->model.AddTo(*command);
  command->add_option("--tokens", flags->tokens_path, "token ids, raw int32")->required();
  command->add_option("--out", flags->out_path, "where the logits go, raw float32")->required();
  command
      ->add_option("--prefill", flags->prefill,
                   "how many tokens to prefill in chunks; the rest go one by one (default: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--chunk", flags->chunk, "tokens of a prefill chunk")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--head", flags->head, "main, mtp or dspark")
      ->capture_default_str()
      ->check(CLI::IsMember({"main", "mtp", "dspark"}));
  command->add_option("--anchor", flags->anchor,
                      "dspark: draft what follows this position; ids and confidence go to "
                      "OUT.ids.i32 and OUT.confidence.f32");
  AddStateFlag(*command, flags->state);
  command->callback([flags, &action] { action = [flags] { return RunLogits(*flags); }; });
}

}  // namespace cachalot
