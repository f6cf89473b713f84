#include "settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>

namespace ascend_emulator {
namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> Bytes(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const auto letter = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    shift = letter == 'K' ? 10 : letter == 'M' ? 20 : letter == 'G' ? 30 : 0;
    if (shift != 0) text.remove_suffix(1);
  }
  const auto value = Number(text);
  if (!value || *value > (UINT64_MAX >> shift)) return std::nullopt;
  return *value << shift;
}

// "aclrtMalloc:3=207001": the third call. "aclnnAdd@2=507015": the second task.
std::optional<InjectedFailure> Failure(std::string_view text) {
  const size_t equals = text.find('=');
  const size_t mark = text.find_first_of(":@");
  if (equals == std::string_view::npos || mark == std::string_view::npos || mark > equals ||
      mark == 0) {
    return std::nullopt;
  }
  const auto nth = Number(text.substr(mark + 1, equals - mark - 1));
  const auto code = Number(text.substr(equals + 1));
  if (!nth || *nth == 0 || !code || *code == 0) return std::nullopt;
  return InjectedFailure{std::string(text.substr(0, mark)), *nth, static_cast<int>(*code),
                         text[mark] == '@'};
}

template <typename T>
std::string Choose(const std::string& value,
                   std::initializer_list<std::pair<const char*, T>> choices, T& chosen) {
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (value == name) {
      chosen = choice;
      return "";
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  return fmt::format("\"{}\" is none of: {}", value, known);
}

std::mutex& NamesMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

Names* names_now = nullptr;

}  // namespace

std::string Apply(std::string_view name, const std::string& value, Settings& settings,
                  Names& names) {
  const auto in = [](std::optional<uint64_t> number, uint64_t least, uint64_t most, auto& target,
                     const char* what) -> std::string {
    if (!number || *number < least || *number > most) {
      return fmt::format("{} is from {} to {}", what, least, most);
    }
    target = static_cast<std::remove_reference_t<decltype(target)>>(*number);
    return "";
  };
  if (name == "devices")
    return in(Number(value), 1, kMostDevices, settings.devices, "the number of devices");
  if (name == "hbm")
    return in(Bytes(value), 1, uint64_t{62} << 30, settings.hbm, "a device's memory");
  if (name == "quarantine") {
    return in(Bytes(value), 0, uint64_t{62} << 30, settings.quarantine, "the quarantine");
  }
  if (name == "schedule") {
    return Choose<Schedule>(
        value,
        {{"eager", Schedule::kEager}, {"lazy", Schedule::kLazy}, {"random", Schedule::kRandom}},
        settings.schedule);
  }
  if (name == "seed") return in(Number(value), 0, UINT64_MAX, settings.seed, "the seed");
  if (name == "pageable") {
    return Choose<Pageable>(
        value,
        {{"error", Pageable::kError}, {"drain", Pageable::kDrain}, {"late", Pageable::kLate}},
        settings.pageable);
  }
  if (name == "cores") return Choose<int>(value, {{"20", 20}, {"24", 24}}, settings.cores);
  if (name == "soc") {
    settings.soc = value;
    return value.empty() ? "a name is expected" : "";
  }
  if (name == "graph_free") {
    return Choose<bool>(value, {{"free", false}, {"replay", true}}, settings.graph_free_at_replay);
  }
  if (name == "reports") {
    return Choose<bool>(value, {{"collect", false}, {"abort", true}}, settings.abort_on_report);
  }
  if (name == "print")
    return Choose<bool>(value, {{"0", false}, {"1", true}}, settings.print_reports);
  if (name == "trace") {
    settings.trace = value;
    return "";
  }
  if (name == "fail") {
    std::vector<InjectedFailure> failures;
    for (const std::string& part : Split(value, ',')) {
      const auto failure = Failure(part);
      if (!failure) return fmt::format("\"{}\" is not CALL:N=CODE or CALL@N=CODE", part);
      failures.push_back(*failure);
    }
    settings.failures = std::move(failures);
    return "";
  }
  if (name == "small_models") {
    const auto limits = Split(value, ',');
    settings.small_models_all = value == "1";
    settings.small_models.clear();
    if (value != "0" && value != "1") settings.small_models.insert(limits.begin(), limits.end());
    return "";
  }
  if (name == "flavour") {
    return Choose<Flavour>(
        value,
        {{"custom", Flavour::kCustom}, {"official", Flavour::kOfficial}, {"both", Flavour::kBoth}},
        names.flavour);
  }
  if (name == "hide") {
    const auto hidden = Split(value, ',');
    names.hidden = {hidden.begin(), hidden.end()};
    return "";
  }
  return "there is no such setting";
}

void ReadEnvironment(Settings& settings, Names& names) {
  for (const char* name :
       {"devices", "hbm", "quarantine", "schedule", "seed", "pageable", "cores", "soc",
        "graph_free", "reports", "print", "trace", "fail", "small_models", "flavour", "hide"}) {
    std::string variable = "CACHALOT_EMULATOR_";
    for (const char* c = name; *c != 0; ++c) {
      variable += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
    }
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) continue;
    const std::string why = Apply(name, value, settings, names);
    if (!why.empty()) fmt::print(stderr, "ascend emulator: {}: {}\n", variable, why);
  }
}

Names CurrentNames() {
  const std::lock_guard lock(NamesMutex());
  if (names_now == nullptr) {
    names_now = new Names;
    Settings unused;
    ReadEnvironment(unused, *names_now);
  }
  return *names_now;
}

void SetNames(Names names) {
  const std::lock_guard lock(NamesMutex());
  if (names_now == nullptr) names_now = new Names;
  *names_now = std::move(names);
}

Flavour flavour() { return CurrentNames().flavour; }

}  // namespace ascend_emulator
