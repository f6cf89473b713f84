// A short wording for tests, with every kind of placeholder.
#pragma once

#include "chat/wording.h"

namespace cachalot {

inline PromptWording TestWording() {
  return WordingFromJson(
             R"json({"tools_template": "## Tools\nUse <{dsml_token}tool_calls>.\n{tool_schemas}\nThat is all.\n",
                     "response_format_template": "## Format\n{schema}",
                     "reasoning_effort": {"low": "", "high": "Think hard.\n\n", "max": "Think <think>harder.\n\n"}})json",
             "test wording")
      .value();
}

}  // namespace cachalot
