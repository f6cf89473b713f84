#include "grammar/tool_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cachalot {

Result<NodeId> AddToolCall(GrammarBuilder& builder, std::span<const std::string> names,
                           int32_t dsml) {
  if (names.empty()) {
    return MakeError(StatusCode::kInvalidArgument, "no tool to call, expected one at least");
  }
  const NodeId free = builder.Free();
  std::vector<NodeId> calls;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const bool breaks_markup = std::any_of(name.begin(), name.end(), [](char c) {
      return c == '"' || static_cast<unsigned char>(c) < 0x20;
    });
    if (name.empty() || breaks_markup) {
      return MakeError(StatusCode::kInvalidArgument,
                       "the name of tool {} is empty or has a quote or a control character", i);
    }
    calls.push_back(builder.Literal(name + "\">\n", free));
  }
  NodeId begin = builder.Literal("invoke name=\"", builder.Split(std::move(calls)));
  begin = builder.Literal("tool_calls>\n<", builder.Token(dsml, begin));
  return builder.Literal("\n\n<", builder.Token(dsml, begin));
}

Result<Grammar> ForcedToolCall(std::span<const std::string> names, int32_t dsml) {
  GrammarBuilder builder;
  CACHALOT_ASSIGN_OR_RETURN(const NodeId begin, AddToolCall(builder, names, dsml));
  const RuleId root = builder.DeclareRule("tool call");
  builder.DefineRule(root, begin);
  return std::move(builder).Build(root);
}

}  // namespace cachalot
