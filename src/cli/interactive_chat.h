// A chat at the terminal.
#pragma once

#include <string_view>

#include "base/result.h"
#include "cli/chat_session.h"
#include "cli/interrupt_guard.h"
#include "cli/progress.h"

namespace cachalot {

// An answer on stdout as it comes: reasoning dimmed where stdout is a terminal, tool calls as
// name(arguments).
class TerminalWriter final : public AnswerWriter {
 public:
  TerminalWriter();

  void Reasoning(std::string_view text) override;
  void Content(std::string_view text) override;
  void CallStart(std::string_view name) override;
  void CallArguments(std::string_view text) override;
  void CallEnd() override;
  void Prefill(int64_t done, int64_t total) override;
  bool Cancelled() override { return InterruptGuard::interrupted(); }

 private:
  void Print(std::string_view text, bool dim);

  const bool on_terminal_;
  bool dim_ = false;
  bool has_reasoning_ = false;
  ProgressBar prefill_{"prompt", "tokens"};
};

// Reads lines until /quit or the end of input. Ctrl-C stops an answer and not the chat.
Status ChatInteractively(ChatSession& session);

}  // namespace cachalot
