// `cachalot generate`: answers a file of requests, many at once, into a file of results.
#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <random>

#include "cli/answer_collector.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/generate_request.h"
#include "cli/generate_result.h"
#include "cli/generation_defaults.h"
#include "cli/interrupt_guard.h"
#include "cli/progress.h"
#include "cli/request_encoder.h"
#include "io/file.h"

namespace cachalot {
namespace {

struct GenerateFlags {
  ModelFlags model;
  EngineFlags engine;
  std::string input;
  std::string output;
  std::string trace;
  int64_t seed = 0;
};

// Results on their way from the engine's thread to the file.
class ResultQueue {
 public:
  void Push(GenerateResult result) {
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(result));
    pushed_.notify_one();
  }
  // All that have come, or nothing after a while without any.
  std::vector<GenerateResult> Wait(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    pushed_.wait_for(lock, at_most, [&] { return !results_.empty(); });
    return std::exchange(results_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::vector<GenerateResult> results_;
};

// Submits all choices of a request; the result comes to `queue` when the last has ended.
void Start(Engine& engine, const GenerateRequest& line, const RequestEncoder& encoder,
           ResultQueue& queue) {
  auto collector = std::make_shared<AnswerCollector>(
      line, encoder.tokenizer(),
      [&queue](GenerateResult result) { queue.Push(std::move(result)); });
  const auto prompt = encoder.Encode(line);
  if (!prompt) {
    collector->RefuseFrom(0, prompt.error().message);
    return;
  }
  for (int64_t choice = 0; choice < line.num_choices; ++choice) {
    EngineRequest request;
    request.prompt = *prompt;
    request.sampling = line.sampling;
    request.sampling.seed = ChoiceSeed(line.sampling.seed, choice);
    request.max_new_tokens = line.max_new_tokens.value_or(engine.max_context());
    request.top_logprobs = line.top_logprobs;
    request.prompt_logprobs = line.echo && line.top_logprobs.has_value();
    request.priority =
        static_cast<int32_t>(std::clamp<int64_t>(line.priority, INT32_MIN, INT32_MAX));
    request.timeout = line.timeout_seconds;
    request.listener = collector->NewListener(choice, *prompt);
    if (const auto submitted = engine.Submit(std::move(request)); !submitted) {
      collector->RefuseFrom(choice, submitted.error().message);
      return;
    }
  }
}

// What is still to be answered, and where the output goes on.
struct Work {
  std::vector<GenerateRequest> requests;
  int64_t done = 0;
  int64_t whole_bytes = 0;
};

Result<Work> FindWork(const GenerateFlags& flags, const RequestDefaults& defaults) {
  Work work;
  CACHALOT_ASSIGN_OR_RETURN(work.requests, ReadGenerateRequests(flags.input, defaults));
  CACHALOT_ASSIGN_OR_RETURN(const ResumeState resume, ReadResumeState(flags.output));
  work.done = std::erase_if(work.requests, [&](const GenerateRequest& request) {
    return resume.done.contains(request.id);
  });
  work.whole_bytes = resume.whole_bytes;
  return work;
}

Result<OutputFile> OpenOutput(const GenerateFlags& flags, const Work& work) {
  return work.whole_bytes > 0 ? OutputFile::Continue(flags.output, work.whole_bytes)
                              : OutputFile::Create(flags.output);
}

Status RunGenerate(const GenerateFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model.folder));
  CACHALOT_ASSIGN_OR_RETURN(const GenerationDefaults generation,
                            LoadGenerationDefaults(flags.model.folder));
  RequestDefaults defaults = {generation.sampling, config.vocab_size};
  defaults.sampling.seed = static_cast<uint64_t>(flags.seed);
  defaults.sampling.stop_ids = generation.stop_ids;
  if (defaults.sampling.stop_ids.empty()) {
    defaults.sampling.stop_ids = {static_cast<int32_t>(config.eos_token)};
  }
  CACHALOT_ASSIGN_OR_RETURN(Work work, FindWork(flags, defaults));
  CACHALOT_ASSIGN_OR_RETURN(RequestEncoder encoder,
                            RequestEncoder::Load(flags.model.folder, config, work.requests));
  for (GenerateRequest& request : work.requests) {
    request.sampling.banned_ids = encoder.unused_ids();
  }
  CACHALOT_ASSIGN_OR_RETURN(OutputFile output, OpenOutput(flags, work));

  std::optional<OutputFile> trace;
  Status traced;  // of the engine's thread, until it is idle
  std::function<void(const std::string&)> on_trace;
  if (!flags.trace.empty()) {
    CACHALOT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(flags.trace));
    trace.emplace(std::move(file));
    on_trace = [&](const std::string& line) {
      const std::string with_end = line + "\n";
      if (traced) {
        traced = trace->Write(std::as_bytes(std::span(with_end)));
      }
    };
  }
  ResultQueue queue;
  CACHALOT_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(flags.model));
  CACHALOT_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                            OpenEngine(*device, flags.model, flags.engine, on_trace));
  const InterruptGuard interrupts;
  for (const GenerateRequest& request : work.requests) {
    Start(*engine, request, encoder, queue);
  }
  ProgressBar bar("answered", "requests");
  const auto total = work.done + static_cast<int64_t>(work.requests.size());
  while (work.done < total) {
    bar.Show(work.done, total);
    for (const GenerateResult& result : queue.Wait(std::chrono::milliseconds(100))) {
      const std::string line = ResultLine(result);
      CACHALOT_RETURN_IF_ERROR(output.Write(std::as_bytes(std::span(line))));
      ++work.done;
    }
    if (InterruptGuard::interrupted()) {
      return MakeError(StatusCode::kCancelled,
                       "interrupted after {} of {} requests; the same command goes on from there",
                       work.done, total);
    }
  }
  bar.Clear();
  CACHALOT_RETURN_IF_ERROR(output.Close());
  engine->Drain();
  return traced;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("generate", "Answer a file of requests, many at once, into a file");
  auto flags = std::make_shared<GenerateFlags>();
  flags->model.AddTo(*command);
  command->add_option("--input", flags->input, "requests: JSON lines (docs/generate.md)")
      ->required();
  command
      ->add_option("--output", flags->output,
                   "results: JSON lines, as they are done; a run that was killed goes on behind "
                   "those that are there")
      ->required();
  flags->engine.AddTo(*command);
  command->add_option("--seed", flags->seed, "for requests without a seed of their own")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--trace", flags->trace,
                      "write down every decision of the scheduler, for cachalot replay");
  command->callback([flags, &action] { action = [flags] { return RunGenerate(*flags); }; });
}

}  // namespace cachalot
