#include "cli/interactive_chat.h"

#include <histedit.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

namespace cachalot {
namespace {

constexpr char kHelp[] =
    "/help      this\n"
    "/new       forget the conversation\n"
    "/think     let the model reason before it answers\n"
    "/nothink   answer at once\n"
    "/quit      leave; so does Ctrl-D. Ctrl-C stops an answer.\n";

// Lines from the terminal with editing and history, or plain lines from a pipe.
class LineReader {
 public:
  LineReader() {
    if (::isatty(STDIN_FILENO) == 0) {
      return;
    }
    editor_.reset(::el_init("cachalot", stdin, stdout, stderr));
    history_.reset(::history_init());
    HistEvent event;
    ::history(history_.get(), &event, H_SETSIZE, 1000);
    ::el_set(
        editor_.get(), EL_PROMPT, +[](EditLine*) { return const_cast<char*>("> "); });
    ::el_set(editor_.get(), EL_EDITOR, "emacs");
    ::el_set(editor_.get(), EL_HIST, ::history, history_.get());
    ::el_set(editor_.get(), EL_SIGNAL, 0);
  }

  // Nothing at the end of input; an empty line when Ctrl-C cleared it.
  std::optional<std::string> Next() {
    std::string line;
    if (editor_ == nullptr) {
      if (!std::getline(std::cin, line)) {
        return std::nullopt;
      }
      return line;
    }
    int count = 0;
    const char* text = ::el_gets(editor_.get(), &count);
    if (InterruptGuard::interrupted()) {
      InterruptGuard::Reset();
      ::el_reset(editor_.get());
      std::printf("\n");
      return "";
    }
    if (text == nullptr || count <= 0) {
      return std::nullopt;
    }
    line.assign(text, static_cast<size_t>(count));
    if (line.back() == '\n') {
      line.pop_back();
    }
    if (!line.empty()) {
      HistEvent event;
      ::history(history_.get(), &event, H_ENTER, line.c_str());
    }
    return line;
  }

 private:
  struct Close {
    void operator()(EditLine* editor) const { ::el_end(editor); }
    void operator()(History* history) const { ::history_end(history); }
  };
  std::unique_ptr<History, Close> history_;
  std::unique_ptr<EditLine, Close> editor_;
};

}  // namespace

TerminalWriter::TerminalWriter() : on_terminal_(::isatty(STDOUT_FILENO) == 1) {}

void TerminalWriter::Print(std::string_view text, bool dim) {
  prefill_.Clear();
  if (on_terminal_ && dim != dim_) {
    std::fputs(dim ? "\033[2m" : "\033[0m", stdout);
    dim_ = dim;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void TerminalWriter::Reasoning(std::string_view text) {
  if (!has_reasoning_ && !on_terminal_) {
    Print("<think>", true);
  }
  has_reasoning_ = true;
  Print(text, true);
}

void TerminalWriter::Content(std::string_view text) {
  if (has_reasoning_) {
    has_reasoning_ = false;
    Print(on_terminal_ ? "\n\n" : "</think>", false);
  }
  Print(text, false);
}

void TerminalWriter::CallStart(std::string_view name) {
  Content("\n");
  Print(name, false);
  Print("(", false);
}

void TerminalWriter::CallArguments(std::string_view text) { Print(text, false); }

void TerminalWriter::CallEnd() { Print(")", false); }

void TerminalWriter::Prefill(int64_t done, int64_t total) {
  if (done < total) {
    prefill_.Show(done, total);
  } else {
    prefill_.Clear();
  }
}

Status ChatInteractively(ChatSession& session) {
  const InterruptGuard interrupts;
  LineReader lines;
  if (::isatty(STDIN_FILENO) == 1) {
    std::printf("/help lists the commands.\n");
  }
  while (const std::optional<std::string> line = lines.Next()) {
    if (line->find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    if (*line == "/quit" || *line == "/exit") {
      break;
    }
    if (*line == "/help") {
      std::fputs(kHelp, stdout);
    } else if (*line == "/new") {
      session.Forget();
    } else if (*line == "/think" || *line == "/nothink") {
      session.set_thinking(*line == "/think");
    } else if (line->front() == '/') {
      std::printf("no command %s; /help lists them\n", line->c_str());
    } else {
      InterruptGuard::Reset();
      TerminalWriter writer;
      const Status status = session.Answer(*line, writer);
      writer.Content("\n");
      if (!status) {
        std::fprintf(stderr, "%s\n", status.error().message.c_str());
      }
      InterruptGuard::Reset();
    }
  }
  return {};
}

}  // namespace cachalot
