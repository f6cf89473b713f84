// `cachalot tokenize` and `cachalot detokenize`.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "io/file.h"
#include "io/json.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {
namespace {

struct TokenizeFlags {
  std::string folder;
  std::string tokenizer_path;
  std::string text;
  bool has_text = false;
  bool json_lines = false;
  bool plain = false;
};

Result<Tokenizer> OpenTokenizer(const TokenizeFlags& flags) {
  if (flags.folder.empty() == flags.tokenizer_path.empty()) {
    return MakeError(StatusCode::kInvalidArgument,
                     "expected a tokenizer: either -m DIR or --tokenizer FILE");
  }
  return Tokenizer::Load(flags.folder.empty() ? flags.tokenizer_path
                                              : flags.folder + "/tokenizer.json");
}

std::string ReadStdin() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// Calls `convert` on each line of stdin with its place, and prints what comes back as a line.
template <typename Convert>
Status ForEachLine(const Convert& convert) {
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    CACHALOT_ASSIGN_OR_RETURN(const std::string converted,
                              convert(line, fmt::format("line {}", number)));
    Print(converted + "\n");
  }
  return {};
}

Status RunTokenize(const TokenizeFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const Tokenizer tokenizer, OpenTokenizer(flags));
  const EncodeOptions options = {.special_tokens = !flags.plain};
  if (flags.json_lines) {
    return ForEachLine(
        [&](const std::string& line, const std::string& place) -> Result<std::string> {
          CACHALOT_ASSIGN_OR_RETURN(const Json json, ParseJson(line, place));
          if (!json.is_string()) {
            return MakeError(StatusCode::kInvalidArgument, "{}: expected a JSON string", place);
          }
          const auto ids = tokenizer.Encode(json.get_ref<const std::string&>(), options);
          if (!ids) {
            return MakeError(ids.error().code, "{}: {}", place, ids.error().message);
          }
          return DumpJson(Json(*ids));
        });
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                            tokenizer.Encode(flags.has_text ? flags.text : ReadStdin(), options));
  std::string line;
  for (const int32_t id : ids) {
    line += (line.empty() ? "" : " ") + std::to_string(id);
  }
  Print(line + "\n");
  return {};
}

Result<int32_t> IdOf(const Json& json, const std::string& place) {
  if (!json.is_number_integer() || json.get<int64_t>() < 0 ||
      json.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {} is no token id", place,
                     DumpJson(json).substr(0, 40));
  }
  return json.get<int32_t>();
}

Status RunDetokenize(const TokenizeFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const Tokenizer tokenizer, OpenTokenizer(flags));
  const auto decode = [&](const Json& list, const std::string& place) -> Result<std::string> {
    std::vector<int32_t> ids;
    for (const Json& item : list) {
      CACHALOT_ASSIGN_OR_RETURN(const int32_t id, IdOf(item, place));
      ids.push_back(id);
    }
    return tokenizer.Decode(ids, flags.plain);
  };
  if (flags.json_lines) {
    return ForEachLine([&](const std::string& line,
                           const std::string& place) -> Result<std::string> {
      CACHALOT_ASSIGN_OR_RETURN(const Json json, ParseJson(line, place));
      if (!json.is_array()) {
        return MakeError(StatusCode::kInvalidArgument, "{}: expected a JSON array of ids", place);
      }
      CACHALOT_ASSIGN_OR_RETURN(const std::string text, decode(json, place));
      return DumpJson(Json(text));
    });
  }
  const std::string input = flags.has_text ? flags.text : ReadStdin();
  std::string list;
  for (const char c : input) {  // numbers apart by blanks or commas
    const bool digit = c >= '0' && c <= '9';
    if (!digit && c != ' ' && c != ',' && c != '\n' && c != '\t' && c != '\r') {
      return MakeError(StatusCode::kInvalidArgument,
                       "the input has \"{}\", expected token ids apart by blanks", c);
    }
    list += digit ? c : ' ';
  }
  Json ids = Json::array();
  size_t at = 0;
  while ((at = list.find_first_not_of(' ', at)) != std::string::npos) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (end - at > 10) {
      return MakeError(StatusCode::kInvalidArgument, "{} is no token id",
                       list.substr(at, std::min<size_t>(end - at, 40)));
    }
    ids.push_back(std::stoll(list.substr(at, end - at)));
    at = end;
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::string text, decode(ids, "the input"));
  Print(text);
  return {};
}

}  // namespace

void AddTokenizeCommands(CLI::App& app, Action& action) {
  const auto add = [&](const char* name, const char* about, const char* input, const char* plain,
                       Status (*run)(const TokenizeFlags&)) {
    CLI::App* command = app.add_subcommand(name, about);
    auto flags = std::make_shared<TokenizeFlags>();
    command->add_option("-m,--model", flags->folder, "checkpoint folder");
    command->add_option("--tokenizer", flags->tokenizer_path, "a tokenizer.json");
    CLI::Option* text = command->add_option("-p,--prompt", flags->text, input);
    command->add_flag("--jsonl", flags->json_lines,
                      "lines of JSON on stdin: strings to arrays of ids, or back");
    command->add_flag("--no-special", flags->plain, plain);
    command->callback([flags, text, run, &action] {
      flags->has_text = text->count() > 0;
      action = [flags, run] { return run(*flags); };
    });
  };
  add("tokenize", "Text to token ids", "the text (default: stdin)",
      "take the spelling of special tokens for plain text", RunTokenize);
  add("detokenize", "Token ids to text", "the ids, apart by blanks (default: stdin)",
      "leave special tokens out", RunDetokenize);
}

}  // namespace cachalot
