#include "cli/generation_defaults.h"

#include <filesystem>
#include <limits>

#include "io/file.h"
#include "io/json.h"

namespace cachalot {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

Status ReadNumber(const Json& json, const char* name, const std::string& source, double* value) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) {
    return {};
  }
  if (!found->is_number()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {} is {}, expected a number", source, name,
                     DumpJson(*found).substr(0, 60));
  }
  *value = found->get<double>();
  return {};
}

Status AppendId(const Json& value, const std::string& source, std::vector<int32_t>* ids) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 ||
      value.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: eos_token_id is {}, expected a token id",
                     source, DumpJson(value).substr(0, 60));
  }
  ids->push_back(value.get<int32_t>());
  return {};
}

}  // namespace

Result<GenerationDefaults> ParseGenerationDefaults(const std::string& text,
                                                   const std::string& source) {
  CACHALOT_ASSIGN_OR_RETURN(const Json json, ParseJson(text, source));
  if (!json.is_object()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: expected a JSON object", source);
  }
  GenerationDefaults defaults;
  SamplingParams& sampling = defaults.sampling;
  double top_k = 0;
  CACHALOT_RETURN_IF_ERROR(ReadNumber(json, "temperature", source, &sampling.temperature));
  CACHALOT_RETURN_IF_ERROR(ReadNumber(json, "top_p", source, &sampling.top_p));
  CACHALOT_RETURN_IF_ERROR(ReadNumber(json, "min_p", source, &sampling.min_p));
  CACHALOT_RETURN_IF_ERROR(ReadNumber(json, "top_k", source, &top_k));
  if (!(top_k >= 0 && top_k < 1e9)) {
    return MakeError(StatusCode::kInvalidArgument, "{}: top_k is {}, expected 0 or more", source,
                     top_k);
  }
  sampling.top_k = static_cast<int64_t>(top_k);
  if (const auto sampled = json.find("do_sample");
      sampled != json.end() && sampled->is_boolean() && !sampled->get<bool>()) {
    sampling.temperature = 0;
  }
  if (const auto status = CheckSamplingParams(sampling); !status) {
    return MakeError(status.error().code, "{}: {}", source, status.error().message);
  }
  if (const auto eos = json.find("eos_token_id"); eos != json.end() && !eos->is_null()) {
    for (const Json& value : eos->is_array() ? *eos : Json::array({*eos})) {
      CACHALOT_RETURN_IF_ERROR(AppendId(value, source, &defaults.stop_ids));
    }
  }
  return defaults;
}

Result<GenerationDefaults> LoadGenerationDefaults(const std::string& folder) {
  const std::string path = folder + "/generation_config.json";
  if (!std::filesystem::exists(path)) {
    return GenerationDefaults{};
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  return ParseGenerationDefaults(text, path);
}

}  // namespace cachalot
