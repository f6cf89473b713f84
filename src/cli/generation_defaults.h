// generation_config.json: how a checkpoint's makers want it sampled.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sampling/params.h"

namespace cachalot {

struct GenerationDefaults {
  SamplingParams sampling;
  std::vector<int32_t> stop_ids;  // empty where the file names none
};

// Of `folder`/generation_config.json; temperature 1 and nothing else where there is no such file.
Result<GenerationDefaults> LoadGenerationDefaults(const std::string& folder);
Result<GenerationDefaults> ParseGenerationDefaults(const std::string& text,
                                                   const std::string& source);

}  // namespace cachalot
