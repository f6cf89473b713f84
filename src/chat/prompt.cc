#include "chat/prompt.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "chat/markers.h"
#include "chat/python_json.h"

namespace cachalot {
namespace {

// A message ready to render. Tool messages have become blocks of user messages.
struct Block {
  bool is_tool_result;
  std::string tool_call_id;
  std::string text;
};
struct Turn {
  Message message;
  std::vector<Block> blocks;  // of a user message
};

bool IsUserLike(const Turn& turn) {
  return turn.message.role == Role::kUser || turn.message.role == Role::kDeveloper;
}

std::vector<Turn> MergeToolMessages(const std::vector<Message>& messages) {
  std::vector<Turn> turns;
  for (const Message& message : messages) {
    const bool is_tool = message.role == Role::kTool;
    if (!is_tool && message.role != Role::kUser) {
      turns.push_back({message, {}});
      continue;
    }
    Block block = {is_tool, message.tool_call_id, message.content};
    const bool follows_user = !turns.empty() && turns.back().message.role == Role::kUser;
    // A task closes a user message to further text, though not to tool results.
    if (follows_user && (is_tool || !turns.back().message.task)) {
      turns.back().blocks.push_back(std::move(block));
      continue;
    }
    Turn turn;
    turn.message.role = Role::kUser;
    if (!is_tool) {
      turn.message.task = message.task;
    }
    turn.blocks.push_back(std::move(block));
    turns.push_back(std::move(turn));
  }
  return turns;
}

// Puts the results within each user message in the order in which the latest assistant message
// called the tools. Text keeps its place; a result of an unknown call counts as the first.
void SortToolResults(std::vector<Turn>& turns) {
  std::unordered_map<std::string, size_t> order;
  for (Turn& turn : turns) {
    if (!turn.message.tool_calls.empty() && turn.message.role == Role::kAssistant) {
      order.clear();
      for (size_t i = 0; i < turn.message.tool_calls.size(); ++i) {
        if (const std::string& id = turn.message.tool_calls[i].id; !id.empty()) {
          order[id] = i;
        }
      }
    }
    std::vector<Block> results;
    for (const Block& block : turn.blocks) {
      if (block.is_tool_result) {
        results.push_back(block);
      }
    }
    const auto rank = [&order](const Block& block) {
      const auto found = order.find(block.tool_call_id);
      return found == order.end() ? 0 : found->second;
    };
    std::stable_sort(results.begin(), results.end(),
                     [&](const Block& a, const Block& b) { return rank(a) < rank(b); });
    size_t next = 0;
    for (Block& block : turn.blocks) {
      if (block.is_tool_result) {
        block = std::move(results[next++]);
      }
    }
  }
}

std::ptrdiff_t LastUserIndex(const std::vector<Turn>& turns) {
  const auto last = std::find_if(turns.rbegin(), turns.rend(), IsUserLike);
  return turns.rend() - last - 1;
}

std::vector<Turn> DropThinking(std::vector<Turn> turns) {
  const std::ptrdiff_t last_user = LastUserIndex(turns);
  std::vector<Turn> kept;
  for (std::ptrdiff_t i = 0; i < std::ssize(turns); ++i) {
    Turn& turn = turns[static_cast<size_t>(i)];
    if (i < last_user) {
      if (turn.message.role == Role::kDeveloper) {
        continue;
      }
      turn.message.reasoning_content.clear();
    }
    kept.push_back(std::move(turn));
  }
  return kept;
}

class Renderer {
 public:
  Renderer(const std::vector<Turn>& turns, bool thinking, bool drop, std::string_view effort_prefix,
           const PromptWording& wording, Prompt& prompt)
      : turns_(turns),
        thinking_(thinking),
        drop_(drop),
        last_user_(LastUserIndex(turns)),
        effort_prefix_(effort_prefix),
        wording_(wording),
        prompt_(prompt) {}

  void Render(std::ptrdiff_t index) {
    const Turn& turn = At(index);
    if (index == 0 && thinking_) {
      prompt_.AddTemplateText(effort_prefix_);
    }
    switch (turn.message.role) {
      case Role::kDeveloper:
        prompt_.AddSpecial(kUserMarker);
        [[fallthrough]];
      case Role::kSystem:
        prompt_.AddText(turn.message.content);
        RenderDeclarations(turn.message);
        break;
      case Role::kUser:
      case Role::kTool:  // merged away
        RenderUser(turn);
        break;
      case Role::kLatestReminder:
        prompt_.AddSpecial(kLatestReminderMarker);
        prompt_.AddText(turn.message.content);
        break;
      case Role::kAssistant:
        RenderAssistant(index);
        break;
    }
    RenderTransition(index);
  }

 private:
  const Turn& At(std::ptrdiff_t index) const { return turns_[static_cast<size_t>(index)]; }

  void RenderDeclarations(const Message& message) {
    if (!message.tools.empty()) {
      std::string schemas;
      for (const OrderedJson& tool : message.tools) {
        schemas += schemas.empty() ? "" : "\n";
        schemas += DumpPythonJson(tool);
      }
      prompt_.AddText("\n\n");
      RenderTemplate(wording_.tools_template, schemas);
    }
    if (message.response_format) {
      prompt_.AddText("\n\n");
      RenderTemplate(wording_.response_format_template, DumpPythonJson(*message.response_format));
    }
  }

  void RenderTemplate(const WordingTemplate& pieces, std::string_view insert) {
    for (const WordingTemplate::Piece& piece : pieces.pieces) {
      prompt_.AddTemplateText(piece.text);
      if (piece.insert_after) {
        prompt_.AddText(insert);
      }
    }
  }

  void RenderUser(const Turn& turn) {
    prompt_.AddSpecial(kUserMarker);
    for (size_t i = 0; i < turn.blocks.size(); ++i) {
      const Block& block = turn.blocks[i];
      prompt_.AddText(i > 0 ? "\n\n" : "");
      prompt_.AddText(block.is_tool_result ? "<tool_result>" : "");
      prompt_.AddText(block.text);
      prompt_.AddText(block.is_tool_result ? "</tool_result>" : "");
    }
  }

  void RenderAssistant(std::ptrdiff_t index) {
    const Message& message = At(index).message;
    // The answer to a task is given without thinking.
    const bool answers_task = index > 0 && At(index - 1).message.task.has_value();
    if (thinking_ && !answers_task && (!drop_ || index > last_user_)) {
      if (message.written) {
        prompt_.AddTokens(message.written->reasoning);
      } else {
        prompt_.AddText(message.reasoning_content);
      }
      prompt_.AddSpecial(kThinkClose);
    }
    if (message.written) {
      prompt_.AddTokens(message.written->answer);
    } else {
      RenderAnswer(message);
    }
    if (!message.omit_end_of_sentence) {
      prompt_.AddSpecial(kEndOfSentence);
    }
  }

  void RenderAnswer(const Message& message) {
    prompt_.AddText(message.content);
    if (!message.tool_calls.empty()) {
      prompt_.AddText("\n\n");
      AddTag("<", kToolCallsTag, ">\n");
      for (const ToolCall& call : message.tool_calls) {
        RenderCall(call);
      }
      AddTag("</", kToolCallsTag, ">");
    }
  }

  void AddTag(std::string_view open, std::string_view name, std::string_view close) {
    prompt_.AddText(open);
    prompt_.AddSpecial(kDsml);
    prompt_.AddText(name);
    prompt_.AddText(close);
  }

  void RenderCall(const ToolCall& call) {
    AddTag("<", kInvokeTag, " name=\"" + call.name + "\">\n");
    auto arguments = ParsePythonJson(call.arguments, "arguments");
    if (!arguments || !arguments->is_object()) {
      arguments = OrderedJson{{"arguments", call.arguments}};
    }
    const char* between = "";
    for (const auto& [key, value] : arguments->get_ref<const OrderedJson::object_t&>()) {
      const bool is_string = value.is_string();
      prompt_.AddText(between);
      AddTag("<", kParameterTag,
             fmt::format(" name=\"{}\" string=\"{}\">", key, is_string ? "true" : "false"));
      prompt_.AddText(is_string ? value.get_ref<const std::string&>() : DumpPythonJson(value));
      AddTag("</", kParameterTag, ">");
      between = "\n";
    }
    prompt_.AddText("\n");
    AddTag("</", kInvokeTag, ">\n");
  }

  // What makes the model, or the next message, go on from here.
  void RenderTransition(std::ptrdiff_t index) {
    if (index + 1 < std::ssize(turns_)) {
      const Role next = At(index + 1).message.role;
      if (next != Role::kAssistant && next != Role::kLatestReminder) {
        return;
      }
    }
    const Turn& turn = At(index);
    if (turn.message.task && *turn.message.task != PromptTask::kAction) {
      prompt_.AddSpecial(TaskMarker(*turn.message.task));
    } else if (turn.message.task) {
      prompt_.AddSpecial(kAssistantMarker);
      prompt_.AddSpecial(thinking_ ? kThinkOpen : kThinkClose);
      prompt_.AddSpecial(TaskMarker(*turn.message.task));
    } else if (IsUserLike(turn)) {
      prompt_.AddSpecial(kAssistantMarker);
      const bool thinks = thinking_ && (!drop_ || index >= last_user_);
      prompt_.AddSpecial(thinks ? kThinkOpen : kThinkClose);
    }
  }

  const std::vector<Turn>& turns_;
  const bool thinking_;
  const bool drop_;
  const std::ptrdiff_t last_user_;
  const std::string_view effort_prefix_;
  const PromptWording& wording_;
  Prompt& prompt_;
};

// The length of the special token at the front of template text, or 0.
size_t SpecialLength(std::string_view text) {
  for (const std::string_view marker : {kDsml, kThinkOpen, kThinkClose}) {
    if (text.starts_with(marker)) {
      return marker.size();
    }
  }
  constexpr std::string_view kOpen = "<｜";
  constexpr std::string_view kClose = "｜>";
  if (!text.starts_with(kOpen)) {
    return 0;
  }
  constexpr size_t kLongestToken = 64;
  text = text.substr(0, kLongestToken);
  const size_t close = text.find(kClose, kOpen.size());
  // <｜DSML｜tool_calls> and the like are a tag around a token, not a token.
  if (close == text.npos ||
      text.substr(kOpen.size(), close - kOpen.size()).find_first_of(" \n<>") != text.npos) {
    return 0;
  }
  return close + kClose.size();
}

}  // namespace

void Prompt::Add(std::string_view text, bool trusted) {
  if (text.empty()) {
    return;
  }
  if (segments_.empty() || segments_.back().trusted != trusted ||
      !segments_.back().tokens.empty()) {
    segments_.push_back({"", trusted});
  }
  segments_.back().text += text;
}

void Prompt::AddTokens(const std::vector<int32_t>& tokens) {
  if (!tokens.empty()) {
    segments_.push_back({.tokens = tokens});
  }
}

void Prompt::AddTemplateText(std::string_view text) {
  size_t plain = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = SpecialLength(text.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    AddText(text.substr(plain, at - plain));
    AddSpecial(text.substr(at, length));
    at += length;
    plain = at;
  }
  AddText(text.substr(plain));
}

std::string Prompt::Text() const {
  std::string text;
  for (const PromptSegment& segment : segments_) {
    text += segment.text;
  }
  return text;
}

Result<Prompt> EncodeMessages(const std::vector<Message>& messages, const PromptOptions& options,
                              const PromptWording& wording) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string effort_prefix,
                            wording.EffortPrefix(options.reasoning_effort));
  std::vector<Turn> context = MergeToolMessages(options.context);
  std::vector<Turn> turns = context;
  for (Turn& turn : MergeToolMessages(messages)) {
    turns.push_back(std::move(turn));
  }
  SortToolResults(turns);

  const bool thinking = options.thinking_mode == ThinkingMode::kThinking;
  const bool has_tools = std::any_of(turns.begin(), turns.end(),
                                     [](const Turn& t) { return !t.message.tools.empty(); });
  const bool drop = options.drop_thinking && !has_tools;
  Prompt prompt;
  if (options.add_begin_of_sentence && context.empty()) {
    prompt.AddSpecial(kBeginOfSentence);
  }
  if (thinking && drop) {
    turns = DropThinking(std::move(turns));
    context = DropThinking(std::move(context));
  }
  Renderer renderer(turns, thinking, drop, effort_prefix, wording, prompt);
  for (std::ptrdiff_t i = std::ssize(context); i < std::ssize(turns); ++i) {
    renderer.Render(i);
  }
  return prompt;
}

}  // namespace cachalot
