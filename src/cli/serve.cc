// `cachalot serve`: the model behind HTTP, in the dialects of OpenAI and Anthropic.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/generation_defaults.h"
#include "cli/interrupt_guard.h"
#include "cli/request_encoder.h"
#include "cli/request_log.h"
#include "io/file.h"
#include "server/service.h"

namespace cachalot {
namespace {

struct ServeFlags {
  ModelFlags model;
  EngineFlags engine;
  HttpOptions http;
  std::string name;
  bool strict_name = false;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string cors_origin;
  double stall_seconds = 120;
  bool thinking = false;
  bool log_json = false;
};

// Of flags, of a file with one a line, of the environment.
Result<std::vector<std::string>> ApiKeys(const ServeFlags& flags) {
  std::vector<std::string> keys = flags.api_keys;
  if (const char* key = std::getenv("CACHALOT_API_KEY"); key != nullptr && *key != '\0') {
    keys.emplace_back(key);
  }
  if (!flags.api_key_file.empty()) {
    std::ifstream file(flags.api_key_file);
    if (!file) {
      return MakeError(StatusCode::kNotFound, "{}: cannot open", flags.api_key_file);
    }
    for (std::string line; std::getline(file, line);) {
      line.erase(0, line.find_first_not_of(" \t\r"));
      line.erase(line.find_last_not_of(" \t\r") + 1);
      if (!line.empty()) {
        keys.push_back(line);
      }
    }
    if (keys.empty()) {
      return MakeError(StatusCode::kInvalidArgument, "{} has no key", flags.api_key_file);
    }
  }
  return keys;
}

std::string ModelNameOf(const ServeFlags& flags) {
  if (!flags.name.empty()) {
    return flags.name;
  }
  std::error_code ignored;
  const std::filesystem::path folder =
      std::filesystem::weakly_canonical(flags.model.folder, ignored);
  return folder.filename().empty() ? "model" : folder.filename().string();
}

Result<ServedModel> LoadServedModel(const ServeFlags& flags, const ModelConfig& config) {
  ServedModel model;
  model.name = ModelNameOf(flags);
  model.any_name = !flags.strict_name;
  model.created = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  model.thinks_by_default = flags.thinking;
  CACHALOT_ASSIGN_OR_RETURN(TextModel text, LoadTextModel(flags.model.folder, config));
  model.tokenizer = std::move(text.tokenizer);
  model.wording = std::move(text.wording);
  CACHALOT_ASSIGN_OR_RETURN(const GenerationDefaults generation,
                            LoadGenerationDefaults(flags.model.folder));
  model.defaults = {generation.sampling, config.vocab_size};
  model.defaults.sampling.stop_ids = generation.stop_ids;
  if (model.defaults.sampling.stop_ids.empty()) {
    model.defaults.sampling.stop_ids = {static_cast<int32_t>(config.eos_token)};
  }
  model.defaults.sampling.banned_ids = std::move(text.unused_ids);
  return model;
}

std::string UrlOf(const ServeFlags& flags, uint16_t port) {
  std::string host = flags.http.address;
  if (host == "0.0.0.0" || host == "::") {
    host = "localhost";
  }
  return host.find(':') == host.npos ? fmt::format("http://{}:{}", host, port)
                                     : fmt::format("http://[{}]:{}", host, port);
}

void SayWhere(const std::string& url, const std::string& model, bool needs_key) {
  std::printf(
      "%s is served at %s (a page to chat on, OpenAI's and Anthropic's APIs below /v1)\n"
      "  curl %s/v1/chat/completions -H 'Content-Type: application/json'%s "
      "-d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of "
      "France?\"}]}'\n",
      model.c_str(), url.c_str(), url.c_str(),
      needs_key ? " -H \"Authorization: Bearer $CACHALOT_API_KEY\"" : "");
  std::fflush(stdout);
}

// Until then, or until the second interrupt.
void WaitFor(const std::function<bool()>& then) {
  constexpr std::chrono::milliseconds kInterval(50);
  while (InterruptGuard::count() < 2 && !then()) {
    std::this_thread::sleep_for(kInterval);
  }
}

// The first interrupt lets what runs come to its end, the second does not. Until all answers are
// complete new connections are taken, so that who asks for the state hears of it.
void ServeUntilInterrupted(HttpServer& http, Service& service) {
  WaitFor([] { return InterruptGuard::interrupted(); });
  service.Drain();
  spdlog::info("draining {} requests; interrupt again to end at once", service.running());
  WaitFor([&] { return service.running() == 0; });
  http.StopAccepting();
  WaitFor([&] { return http.stats().connections == 0; });
}

Status RunServe(const ServeFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model.folder));
  CACHALOT_ASSIGN_OR_RETURN(ServedModel model, LoadServedModel(flags, config));
  const std::string name = model.name;
  ServiceOptions options;
  CACHALOT_ASSIGN_OR_RETURN(options.api_keys, ApiKeys(flags));
  options.cors_origin = flags.cors_origin;
  options.stall_seconds = flags.stall_seconds;
  options.version = CACHALOT_VERSION;
  options.device = flags.model.device;
  options.on_request = OpenRequestLog(flags.log_json);
  const bool needs_key = !options.api_keys.empty();

  // What comes first outlives the rest.
  ServerMetrics metrics({.version = CACHALOT_VERSION, .device = options.device, .model = name});
  std::atomic<const HttpServer*> listening = nullptr;
  options.http_gauges = [&listening] {
    const HttpServer* const server = listening;
    const HttpStats stats = server != nullptr ? server->stats() : HttpStats();
    return HttpGauges{.connections = stats.connections,
                      .accepted = stats.accepted,
                      .turned_away = stats.turned_away};
  };
  Service service(std::move(options), metrics);
  std::unique_ptr<Device> device;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Generator> generator;
  CACHALOT_ASSIGN_OR_RETURN(
      const std::unique_ptr<HttpServer> http,
      HttpServer::Start(
          flags.http, [&](std::shared_ptr<HttpExchange> exchange) { service.Handle(exchange); },
          [&](int status, std::string_view message, std::string_view path) {
            return service.Fault(status, message, path);
          }));
  listening = http.get();
  const std::string url = UrlOf(flags, http->port());
  spdlog::info("listening at {}, loading {}", url, flags.model.folder);

  CACHALOT_ASSIGN_OR_RETURN(device, OpenDevice(flags.model));
  CACHALOT_ASSIGN_OR_RETURN(engine, OpenEngine(*device, flags.model, flags.engine));
  CACHALOT_ASSIGN_OR_RETURN(generator, Generator::New(*engine, std::move(model), metrics));
  service.ModelIsLoaded(*generator);
  const InterruptGuard interrupts;  // until here Ctrl-C just ends the program
  SayWhere(url, name, needs_key);
  ServeUntilInterrupted(*http, service);
  http->Stop();
  return {};
}

}  // namespace

void AddServeCommand(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("serve", "Answer clients of OpenAI's and Anthropic's APIs over HTTP");
  auto flags = std::make_shared<ServeFlags>();
  flags->http.port = 8000;
  flags->engine.max_waiting = 4096;
  flags->model.AddTo(*command);
  command->add_option("--host", flags->http.address, "the address to listen at")
      ->capture_default_str();
  command->add_option("-p,--port", flags->http.port, "the port; 0: any that is free")
      ->capture_default_str();
  command->add_option("--served-model-name", flags->name,
                      "what clients call the model (default: the folder's name)");
  command->add_flag("--strict-model-name", flags->strict_name,
                    "answer requests for other models with 404 instead of by this one");
  command->add_option("--api-key", flags->api_keys,
                      "a key that clients must have, may be given more than once; also "
                      "$CACHALOT_API_KEY");
  command->add_option("--api-key-file", flags->api_key_file, "keys, one a line");
  command->add_option("--cors", flags->cors_origin,
                      "an origin whose pages may ask, or * (default: none)");
  command->add_flag("--thinking", flags->thinking, "think where a request does not say whether to");
  flags->engine.AddTo(*command);
  flags->engine.AddQueueTo(*command);
  command->add_option("--max-body", flags->http.max_body_bytes, "bytes of a request, as 64M")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--max-connections", flags->http.max_connections, "open at once")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--stall-timeout", flags->stall_seconds,
                   "seconds that a step may take before /health says that it is stalled")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--log-json", flags->log_json, "log lines are JSON objects");
  command->callback([flags, &action] { action = [flags] { return RunServe(*flags); }; });
}

}  // namespace cachalot
