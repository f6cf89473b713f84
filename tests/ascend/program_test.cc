// The program on the emulated NPU: the same bits under every setting that leaves the arithmetic alone,
// near the CPU, in use of the device as it should be, and clear of what is wrong at start-up.
// CACHALOT_ASCEND=all in the environment: all settings instead of all pairs, and larger models.
#include "e2e/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace cachalot::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

using Words = std::vector<std::string>;

bool All() {
  const char* value = std::getenv("CACHALOT_ASCEND");
  return value != nullptr && std::string_view(value) == "all";
}

// The program with settings of the emulator ("SCHEDULE=lazy"), whatever this test's environment has.
Outcome Emulated(const Words& settings, const Words& arguments) {
  Words command = {"env",
                   "-u",
                   "CACHALOT_ASCENDCL_LIB",
                   "-u",
                   "ASCEND_HOME_PATH",
                   "-u",
                   "ASCEND_OPP_PATH",
                   "-u",
                   "ASCEND_CUSTOM_OPP_PATH"};
  for (const std::string& setting : settings) {
    command.push_back(setting.starts_with("CACHALOT_") ? setting : "CACHALOT_EMULATOR_" + setting);
  }
  command.emplace_back(CACHALOT_PROGRAM);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return RunTool(command);
}

struct Model {
  std::string name;
  std::string folder;
  std::string tokens;
  size_t vocab;
};

Model Nano() {
  const std::string folder = InSource("tests/golden/w8a8");
  return {"w8a8", folder, folder + "/golden/tokens.i32", 256};
}

// --- logits ---

// What a run is told; none but `ops` and the way of compression may change a bit.
struct Setting {
  std::string schedule = "eager";  // or "lazy", or the seed of a random one
  bool paged = false;
  bool few_cores = false;
  bool official = false;
  bool composed = false;
  bool device_schedules = false;
  int64_t chunk = 512;

  // Of runs that agree to the last bit. The standard library's compressor takes state in pages alone.
  std::string Arithmetic() const {
    const bool fused = !composed && (paged || !official);
    return std::string(official ? "standard" : "custom") + (fused ? ", fused" : ", composed");
  }
  Words Environment() const {
    const bool seeded = schedule != "eager" && schedule != "lazy";
    return {"SMALL_MODELS=1", "SCHEDULE=" + (seeded ? "random" : schedule),
            "SEED=" + (seeded ? schedule : "1"), few_cores ? "CORES=20" : "CORES=24",
            official ? "FLAVOUR=official" : "FLAVOUR=custom"};
  }
  Words Flags() const {
    return {"--npu-ops",        official ? "standard" : "custom",
            "--npu-compressor", composed ? "composed" : "fused",
            "--npu-schedules",  device_schedules ? "device" : "host",
            "--state",          paged ? "paged" : "ring",
            "--chunk",          std::to_string(chunk)};
  }
  std::string Describe() const {
    std::string text = "schedule " + schedule + (few_cores ? ", 20 cores" : ", 24 cores");
    for (const std::string& flag : Flags()) {
      text += " " + flag;
    }
    return text;
  }
};

Setting SettingOf(std::string schedule, unsigned bits, int64_t chunk) {
  const auto bit = [&](int i) { return (bits >> i & 1U) != 0; };
  return {std::move(schedule), bit(0), bit(1), bit(2), bit(3), bit(4), chunk};
}

constexpr int kSwitches = 5;

// Each pair of values of two axes is in one of these: switches come in every schedule as they are
// here and all turned, and any two of them are equal in one schedule and not in another.
std::vector<Setting> AllPairs() {
  std::vector<Setting> settings;
  const std::pair<const char*, unsigned> rows[] = {
      {"eager", 0b00000}, {"lazy", 0b01010}, {"1", 0b01100}, {"2", 0b10110}};
  for (const auto& [schedule, bits] : rows) {
    settings.push_back(SettingOf(schedule, bits, 128));
    settings.push_back(SettingOf(schedule, ~bits, 512));
  }
  // The one arithmetic that stands there once.
  settings.push_back(SettingOf("3", 0b00101, 100));
  return settings;
}

std::vector<Setting> AllSettings() {
  std::vector<Setting> settings;
  for (const char* schedule : {"eager", "lazy", "1", "2", "3", "4", "5"}) {
    for (unsigned bits = 0; bits < 1U << kSwitches; ++bits) {
      settings.push_back(SettingOf(schedule, bits, settings.size() % 2 == 0 ? 128 : 512));
    }
  }
  return settings;
}

class AscendLogits : public testing::Test {
 protected:
  std::string CpuLogits(const Model& model) {
    const std::string out = temp_ / "cpu.f32";
    const Outcome outcome =
        Cachalot({"logits", "-m", model.folder, "--tokens", model.tokens, "--out", out});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return ReadAll(out);
  }

  // Empty after a failure. The last tokens go one by one.
  std::string NpuLogits(const Model& model, const Words& settings, Words flags) {
    const std::string out = temp_ / "npu.f32";
    const Words arguments = {"logits",   "-m",         model.folder, "--device", "ascend:emulated",
                             "--tokens", model.tokens, "--out",      out};
    flags.insert(flags.begin(), arguments.begin(), arguments.end());
    const Outcome outcome = Emulated(settings, flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");  // where reports would stand
    return outcome.exit_code == 0 ? ReadAll(out) : "";
  }

  // Prints the median error of a row, which is returned.
  double CompareWithCpu(const std::string& what, const Model& model, const std::string& logits,
                        const std::string& wanted) {
    const auto values = [](const std::string& bytes) {
      std::vector<float> floats(bytes.size() / sizeof(float));
      std::copy_n(bytes.data(), floats.size() * sizeof(float),
                  reinterpret_cast<char*>(floats.data()));
      return floats;
    };
    const auto errors = RowErrors(values(logits), values(wanted), model.vocab);
    EXPECT_FALSE(errors.empty()) << what << ": a file of another size";
    if (errors.empty()) {
      return 1;
    }
    std::printf("%-32s median %.4f, nine in ten below %.4f\n", (model.name + " " + what).c_str(),
                Quantile(errors, 0.5), Quantile(errors, 0.9));
    return Quantile(errors, 0.5);
  }

  // Logits within `bound` of the CPU, and of one kind of arithmetic the same to the last byte.
  void ExpectSameBits(const Model& model, const std::vector<Setting>& settings,
                      const std::string& prefill, double bound) {
    const std::string cpu = CpuLogits(model);
    std::map<std::string, std::string> first;
    for (const Setting& setting : settings) {
      SCOPED_TRACE(setting.Describe());
      Words flags = setting.Flags();
      flags.insert(flags.end(), {"--prefill", prefill});
      const std::string logits = NpuLogits(model, setting.Environment(), flags);
      ASSERT_FALSE(logits.empty());
      const auto [known, is_new] = first.emplace(setting.Arithmetic(), logits);
      if (is_new) {
        const double error = CompareWithCpu(known->first, model, logits, cpu);
        EXPECT_GT(error, 0);  // the CPU computes in float32
        EXPECT_LE(error, bound);
      } else {
        EXPECT_TRUE(logits == known->second) << "other bits";
      }
    }
    EXPECT_EQ(first.size(), 4U);
  }

  TempFolder temp_;
};

// Activations in int8 and bf16 are 1e-2 from the CPU's, which are float32.
constexpr double kNear = 2e-2;

TEST_F(AscendLogits, AreTheSameBitsUnderEverySettingAndNearTheCpu) {
  ExpectSameBits(Nano(), All() ? AllSettings() : AllPairs(), "290", kNear);
}

TEST_F(AscendLogits, OfATrainedModelAreTheSameBitsToo) {
  if (!All()) {
    GTEST_SKIP() << "only with CACHALOT_ASCEND=all";
  }
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 300; ++i) {
    ids.push_back(3 + i * i * 7 % 1000);
  }
  const std::string tokens = temp_ / "tokens.i32";
  WriteAll(tokens, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
  const std::string folder = InSource("models/calf");
  const Json config = *ParseJson(ReadAll(folder + "/config.json"), "config.json");
  ExpectSameBits({"calf", folder, tokens, config["vocab_size"].get<size_t>()}, AllPairs(), "290",
                 0.1);
}

// A model that the operators take as it is.
TEST_F(AscendLogits, NeedNoLimitLiftedForAModelOfTheDevicesSizes) {
  if (!All()) {
    GTEST_SKIP() << "only with CACHALOT_ASCEND=all";
  }
  const std::string folder = temp_ / "a3";
  const Outcome synth =
      Cachalot({"synth", "--shape", "a3", "--layout", "w8a8", "--output", folder});
  ASSERT_EQ(synth.exit_code, 0) << synth.err;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 150; ++i) {
    ids.push_back(3 + i * i * 7 % 500);
  }
  const Model model = {"a3", folder, temp_ / "tokens.i32", 512};
  WriteAll(model.tokens, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
  const std::string cpu = CpuLogits(model);
  for (const bool official : {false, true}) {
    for (const bool paged : {false, true}) {
      Setting setting;
      setting.official = official;
      setting.paged = paged;
      SCOPED_TRACE(setting.Describe());
      Words environment = setting.Environment();
      std::erase(environment, "SMALL_MODELS=1");
      environment.emplace_back("HBM=4G");
      const std::string logits = NpuLogits(model, environment, setting.Flags());
      EXPECT_LE(CompareWithCpu(setting.Arithmetic() + (paged ? ", pages" : ", rings"), model,
                               logits, cpu),
                kNear);
    }
  }
}

// --- generate ---

struct Answers {
  std::map<std::string, Json> results;  // by id
  std::string scheduler_trace;
};

class AscendGenerate : public testing::Test {
 protected:
  static constexpr int kTop = 2;

  void Ask(int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      Json ids = Json::array();
      for (int t = 0; t < 10 + i * 37 % 291; ++t) {
        ids.push_back(3 + (t * t * 7 + t * 13 + i * 31) % 250);
      }
      const Json line = {{"id", i},          {"token_ids", ids}, {"max_tokens", 8 + i % 2 * 8},
                         {"temperature", 0}, {"logprobs", true}, {"top_logprobs", kTop}};
      lines += line.dump() + "\n";
    }
    WriteAll(temp_ / "requests.jsonl", lines);
  }

  Answers Generate(const Words& settings, const Words& flags) {
    const std::string out = temp_ / "results.jsonl";
    const std::string trace = temp_ / "trace.jsonl";
    WriteAll(out, "");
    Words arguments = {
        "generate", "-m",  Nano().folder, "--input", temp_ / "requests.jsonl", "--output", out,
        "--trace",  trace, "--context",   "512",     "--cache-bytes",          "64M"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = Emulated(settings, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    Answers answers;
    std::istringstream lines(ReadAll(out));
    for (std::string line; std::getline(lines, line);) {
      Json result = *ParseJson(line, "results");
      const std::string id = result["id"].dump();
      answers.results[id] = std::move(result);
    }
    answers.scheduler_trace = ReadAll(trace);
    return answers;
  }

  Answers GenerateOnNpu(Words settings, Words flags) {
    settings.emplace_back("SMALL_MODELS=1");
    flags.insert(flags.end(), {"--device", "ascend:emulated"});
    return Generate(settings, flags);
  }

  TempFolder temp_;
};

size_t CountOf(std::string_view part, std::string_view text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// Copies from the device to the host that happened, by the emulator's trace: "17 aclrtMemcpyAsync(...
// 1024 bytes, d2h) = 0" as it is queued, "run aclrtMemcpyAsync of call 17" whenever it runs, in a
// replayed graph too.
struct Downloads {
  int64_t count = 0;
  int64_t bytes = 0;
};

Downloads DownloadsIn(const std::string& trace) {
  std::map<std::string, int64_t> bytes_of_call;
  std::vector<std::string> runs;  // by their calls; a task may run before its call returns
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kRun = "run aclrtMemcpyAsync of call ";
    if (line.starts_with(kRun)) {
      runs.push_back(line.substr(kRun.size()));
    } else if (line.find(" bytes, d2h)") != line.npos) {
      EXPECT_THAT(line, HasSubstr(" aclrtMemcpyAsync("));  // a synchronous one waits for nothing
      const size_t comma = line.find(", ");
      bytes_of_call[line.substr(0, line.find(' '))] = std::stoll(line.substr(comma + 2));
    }
  }
  Downloads downloads;
  for (const std::string& run : runs) {
    if (const auto call = bytes_of_call.find(run); call != bytes_of_call.end()) {
      ++downloads.count;
      downloads.bytes += call->second;
    }
  }
  return downloads;
}

// What the engine brings back for a scheduler's trace: the logits of each part of a step that samples,
// 32 rows at a time. A part is [request, slot, first position, tokens, whether it samples].
Downloads LogitsOf(const std::string& scheduler_trace) {
  constexpr int64_t kRowsAtOnce = 32;
  Downloads downloads;
  std::istringstream lines(scheduler_trace);
  for (std::string line; std::getline(lines, line);) {
    const Json event = *ParseJson(line, "trace");
    if (event.value("event", "") != "plan") {
      continue;
    }
    int64_t rows = 0;
    for (const Json& part : event["decision"]["run"]) {
      rows += part[4].get<bool>() ? 1 : 0;
    }
    downloads.count += (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    downloads.bytes += rows * static_cast<int64_t>(Nano().vocab * sizeof(float));
  }
  return downloads;
}

// Tokens that came after the CPU's own are the CPU's, wherever its first choice leads by `sure` in
// logprob; nearly always by a tenth. Now and then a row of an untrained model, near a tie of two
// experts, goes to the other one.
void ExpectTheCpusTokens(const std::map<std::string, Json>& found,
                         const std::map<std::string, Json>& wanted, double sure) {
  int64_t num_sure = 0;
  int64_t num_likely = 0;
  int64_t num_missed = 0;
  for (const auto& [id, cpu] : wanted) {
    const Json& npu = found.at(id);
    for (size_t i = 0; i < cpu["token_ids"].size(); ++i) {
      const Json& top = cpu["logprobs"]["content"][i]["top_logprobs"];
      const double lead = top[0]["logprob"].get<double>() - top[1]["logprob"].get<double>();
      const bool same = i < npu["token_ids"].size() && npu["token_ids"][i] == cpu["token_ids"][i];
      EXPECT_TRUE(same || lead < sure)
          << "request " << id << ", token " << i << ", led by " << lead;
      num_sure += lead >= sure ? 1 : 0;
      num_likely += lead >= 0.1 ? 1 : 0;
      num_missed += lead >= 0.1 && !same ? 1 : 0;
      if (!same) {
        break;
      }
    }
  }
  std::printf("%ld sure tokens, all the CPU's; %ld of %ld likely ones are not\n", num_sure,
              num_missed, num_likely);
  EXPECT_GT(num_sure, static_cast<int64_t>(wanted.size()));
  EXPECT_LE(num_missed, num_likely / 25);
}

TEST_F(AscendGenerate, AnswersManyRequestsAtOnceWithoutAReport) {
  const int count = All() ? 64 : 16;
  Ask(count);
  const std::string emulator_trace = temp_ / "emulator.trace";
  const Answers graph = GenerateOnNpu({"SCHEDULE=random", "SEED=7", "TRACE=" + emulator_trace},
                                      {"--max-running", std::to_string(count), "--graph", "on"});
  ASSERT_EQ(graph.results.size(), static_cast<size_t>(count));

  const std::string trace = ReadAll(emulator_trace);
  EXPECT_THAT(trace, HasSubstr("aclFinalize() = 0\n"));
  EXPECT_EQ(CountOf("\nreport: ", trace), 0U);
  const auto num_replays = static_cast<int64_t>(CountOf(" aclmdlRIExecuteAsync() = 0", trace));
  EXPECT_GT(num_replays, 0);
  // Nothing comes back but the table that is compared at start-up and the logits of the rows that end
  // a request's tokens so far.
  constexpr Downloads kScheduleProbe = {1, 1024 * sizeof(int32_t)};
  const Downloads found = DownloadsIn(trace);
  const Downloads wanted = LogitsOf(graph.scheduler_trace);
  std::printf("%ld downloads, %ld replays\n", found.count, num_replays);
  EXPECT_EQ(found.count, wanted.count + kScheduleProbe.count);
  EXPECT_EQ(found.bytes, wanted.bytes + kScheduleProbe.bytes);

  const Words many = {"--max-running", std::to_string(count)};
  Words eager = many;
  eager.insert(eager.end(), {"--graph", "off"});
  for (const Answers& other :
       {GenerateOnNpu({"SCHEDULE=lazy"}, many), GenerateOnNpu({"SCHEDULE=eager"}, eager)}) {
    for (const auto& [id, result] : graph.results) {
      EXPECT_EQ(other.results.at(id)["token_ids"], result["token_ids"]) << id;
      EXPECT_EQ(other.results.at(id)["logprobs"], result["logprobs"]) << id;
    }
  }
  ExpectTheCpusTokens(graph.results, Generate({}, many).results, 0.5);
}

// --- start-up ---

class AscendStart : public testing::Test {
 protected:
  Outcome Start(const Words& settings, const std::string& device, Words flags = {}) {
    const Model model = Nano();
    flags.insert(flags.begin(), {"logits", "-m", model.folder, "--device", device, "--tokens",
                                 model.tokens, "--out", temp_ / "logits.f32"});
    return Emulated(settings, flags);
  }

  static void ExpectError(const Outcome& outcome, const testing::Matcher<std::string>& message) {
    EXPECT_GT(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, message);
  }

  TempFolder temp_;
};

struct Function {
  std::string library;
  std::string feature;
  std::string name;
};

std::vector<Function> NeededFunctions() {
  return {
#define CACHALOT_ACL_FUNCTION(library, feature, returns, name, parameters) \
  {#library, #feature, #name},
#define CACHALOT_ACLNN_OPERATOR(source, feature, member, symbol, parameters) \
  {#source, #feature, #symbol}, {#source, #feature, #symbol "GetWorkspaceSize"},
#include "backends/ascend/symbols.def"
#undef CACHALOT_ACL_FUNCTION
#undef CACHALOT_ACLNN_OPERATOR
  };
}

// A function of each feature, of the packages' two kinds both; or all.
TEST_F(AscendStart, NamesTheFunctionThatTheLibraryLacks) {
  std::set<std::string> seen;
  int started = 0;
  for (const auto& [library, feature, name] : NeededFunctions()) {
    if (!All() && !seen.insert(feature + (library == "kOfficial" ? "official" : "")).second) {
      continue;
    }
    SCOPED_TRACE(name);
    const bool official = library == "kOfficial";
    const Outcome outcome =
        Start({"SMALL_MODELS=1", "HIDE=" + name, official ? "FLAVOUR=official" : "FLAVOUR=custom"},
              "ascend:emulated");
    ExpectError(outcome, ContainsRegex(name + "([^A-Za-z0-9]|$)"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    ++started;
  }
  std::printf("%d functions hidden in turn\n", started);
  EXPECT_GE(started, 10);
}

TEST_F(AscendStart, SaysWhichLibraryItMisses) {
  ExpectError(Start({}, "ascend"),
              AllOf(HasSubstr("no AscendCL on this machine"), HasSubstr("libascendcl.so"),
                    HasSubstr("ASCEND_HOME_PATH unset")));
  ExpectError(Start({"CACHALOT_ASCENDCL_LIB=/absent/libascendcl.so"}, "ascend"),
              HasSubstr("/absent/libascendcl.so"));
  ExpectError(Start({"CACHALOT_ASCENDCL_LIB=libm.so.6"}, "ascend"),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("no AscendCL library")));
  ExpectError(
      Start({"SMALL_MODELS=1", "FLAVOUR=custom"}, "ascend:emulated", {"--npu-ops", "standard"}),
      AllOf(HasSubstr("the standard library's operators asked for"),
            HasSubstr("aclnnSparseFlashMla")));
  ExpectError(
      Start({"SMALL_MODELS=1", "FLAVOUR=official"}, "ascend:emulated", {"--npu-ops", "custom"}),
      AllOf(HasSubstr("a custom operator package asked for"),
            HasSubstr("aclnnSparseAttnSharedkv")));
  ExpectError(
      Start({"HIDE=aclnnSparseAttnSharedkv"}, "ascend:emulated"),
      AllOf(HasSubstr("no library has aclnnSparseAttnSharedkv"), HasSubstr("aclnnSparseFlashMla")));
  ExpectError(Start({"SMALL_MODELS=1"}, "ascend:7"), HasSubstr("no AscendCL on this machine"));
  ExpectError(Start({"SMALL_MODELS=1"}, "ascend:seven"),
              HasSubstr("expected cpu, ascend, ascend:N or ascend:emulated"));
}

TEST_F(AscendStart, RefusesWhatTheDeviceIsNot) {
  ExpectError(Start({"SMALL_MODELS=1", "SOC=Ascend310P3"}, "ascend:emulated"),
              HasSubstr("the NPU is a Ascend310P3"));
  ExpectError(Start({"SMALL_MODELS=1", "HBM=4M"}, "ascend:emulated"), HasSubstr("no memory for"));
}

TEST_F(AscendStart, NamesTheLimitThatAModelIsBeyond) {
  ExpectError(Start({}, "ascend:emulated"),
              AllOf(HasSubstr("cachalot: NPU 0: aclnnHcPre: PARAM_INVALID"),
                    HasSubstr("hidden size 128, neither 4096 nor 7168")));
}

}  // namespace
}  // namespace cachalot::e2e
