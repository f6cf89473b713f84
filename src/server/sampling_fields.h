// The fields of sampling, as OpenAI, vLLM and SGLang spell them: the same in every dialect and in files
// of requests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

// temperature, top_p, top_k (-1 and 0: all), min_p, seed, frequency_penalty, presence_penalty,
// repetition_penalty, logit_bias, stop_token_ids, ignore_eos, over what is in `sampling`. Ids are below
// vocab_size.
Status ReadSampling(const JsonFields& fields, int64_t vocab_size, SamplingParams* sampling);

// min_tokens and the longest answer, which goes by one of `names`.
Status ReadLengths(const JsonFields& fields, std::span<const char* const> names,
                   GenerationRequest* request);

// A string or a list of at most kMaxStopStrings, none of them empty.
Status ReadStop(const JsonFields& fields, const char* name, std::vector<std::string>* stops);

// n, priority, timeout (seconds).
Status ReadScheduling(const JsonFields& fields, GenerationRequest* request);

// logprobs: true with top_logprobs beside it, as in chats, or their number, as in completions.
Status ReadLogprobs(const JsonFields& fields, std::optional<int64_t>* top);

// Empty where absent.
Result<std::vector<int32_t>> ReadTokenIds(const JsonFields& fields, const char* name,
                                          int64_t vocab_size);
// Ids of a list that `name` names in errors.
Result<std::vector<int32_t>> TokenIdsOf(const JsonFields& fields, std::string_view name,
                                        const OrderedJson& list, int64_t vocab_size);

}  // namespace cachalot
