// The grammar of an answer that must call a tool.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "grammar/grammar.h"

namespace cachalot {

// The beginning of a call as prompts write it, two newlines before it, of one of the tools `names`:
//   <｜DSML｜tool_calls>
//   <｜DSML｜invoke name="NAME">
// then anything. ｜DSML｜ is the special token `dsml`; its spelling in text is none of the grammar.
// Errors (kInvalidArgument): no names, an empty one, one with a quote or a control character.
Result<Grammar> ForcedToolCall(std::span<const std::string> names, int32_t dsml);
// The same as a part of another grammar: the node where it begins.
Result<NodeId> AddToolCall(GrammarBuilder& builder, std::span<const std::string> names,
                           int32_t dsml);

}  // namespace cachalot
