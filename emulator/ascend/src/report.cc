#include "report.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ascend_emulator {

std::string Describe(const Site& site) {
  std::string text = fmt::format("{}, call {}", site.call, site.number);
  Dl_info info{};
  if (site.caller != nullptr && dladdr(site.caller, &info) != 0 && info.dli_fname != nullptr) {
    const char* slash = std::strrchr(info.dli_fname, '/');
    const char* file = slash != nullptr ? slash + 1 : info.dli_fname;
    const auto offset =
        static_cast<const char*>(site.caller) - static_cast<const char*>(info.dli_fbase);
    text += fmt::format(", from {}+{:#x}", file, offset);
    if (info.dli_sname != nullptr) text += fmt::format(" ({})", info.dli_sname);
  }
  return text;
}

void Journal::Open(const std::string& trace) {
  trace_ = trace;
  if (trace_.empty()) return;
  if (std::FILE* file = std::fopen(trace_.c_str(), "w"); file != nullptr) {
    std::fclose(file);
  } else {
    fmt::print(stderr, "ascend emulator: cannot write the trace to {}\n", trace_);
    trace_.clear();
  }
}

void Journal::Report(const std::string& text, bool abort_now) {
  reports_.push_back(text);
  Trace("report: " + text);
  if (abort_now) {
    fmt::print(stderr, "ascend emulator: {}\n", text);
    std::abort();
  }
}

void Journal::Trace(const std::string& line) {
  if (trace_.empty()) return;
  // Opened anew for each line, so that what is there is whole however the program ends.
  if (std::FILE* file = std::fopen(trace_.c_str(), "a"); file != nullptr) {
    fmt::print(file, "{}\n", line);
    std::fclose(file);
  }
}

uint64_t Journal::counter(const std::string& name) const {
  const auto at = counters_.find(name);
  return at == counters_.end() ? 0 : at->second;
}

}  // namespace ascend_emulator
