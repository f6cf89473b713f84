// The fixed strings of the DeepSeek-V4 prompt format. Every one in the first group is one added
// token of the tokenizer; a prompt carries them in its trusted segments alone. The wording around
// them is the checkpoint's (wording.h).
#pragma once

#include <string_view>

namespace cachalot {

inline constexpr std::string_view kBeginOfSentence = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEndOfSentence = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUserMarker = "<｜User｜>";
inline constexpr std::string_view kAssistantMarker = "<｜Assistant｜>";
inline constexpr std::string_view kLatestReminderMarker = "<｜latest_reminder｜>";
inline constexpr std::string_view kThinkOpen = "<think>";
inline constexpr std::string_view kThinkClose = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";

// Names of tags, written <｜DSML｜NAME …> and </｜DSML｜NAME>.
inline constexpr std::string_view kToolCallsTag = "tool_calls";
inline constexpr std::string_view kInvokeTag = "invoke";
inline constexpr std::string_view kParameterTag = "parameter";

// The bar that every special token but <think> is built with.
inline constexpr std::string_view kWideBar = "｜";

}  // namespace cachalot
