#include "tokenizer/tokenizer_file.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "io/json.h"
#include "tokenizer/byte_alphabet.h"

namespace cachalot {
namespace {

constexpr size_t kMaxAddedTokenBytes = 1024;
constexpr size_t kMaxPatterns = 16;

// A value as it stands in the file, cut so that an error stays one readable line.
std::string Show(const Json& value) {
  constexpr size_t kMaxShown = 60;
  if (value.is_object() || value.is_array()) {
    return fmt::format("an {} of {}", value.type_name(), value.size());
  }
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMaxShown) {
    return DumpJson(Json(value.get_ref<const std::string&>().substr(0, kMaxShown))) + "…";
  }
  return DumpJson(value);
}

// The reader keeps the place in the file that errors name.
class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  Result<TokenizerFile> Read(const Json& root) {
    CACHALOT_RETURN_IF_ERROR(
        CheckFields(root, "",
                    {"version", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", "post_processor", "decoder", "model"}));
    CACHALOT_RETURN_IF_ERROR(CheckAbsent(root, "", "truncation"));
    CACHALOT_RETURN_IF_ERROR(CheckAbsent(root, "", "padding"));
    CACHALOT_RETURN_IF_ERROR(CheckNormalizer(Field(root, "normalizer")));
    CACHALOT_RETURN_IF_ERROR(ReadPreTokenizer(Field(root, "pre_tokenizer")));
    // A ByteLevel post-processor only shifts offsets, which we do not have; any other could add
    // tokens.
    if (!Field(root, "post_processor").is_null()) {
      CACHALOT_RETURN_IF_ERROR(
          CheckType(Field(root, "post_processor"), "post_processor", "ByteLevel"));
    }
    CACHALOT_RETURN_IF_ERROR(CheckType(Field(root, "decoder"), "decoder", "ByteLevel"));
    const Json& model = Field(root, "model");
    CACHALOT_RETURN_IF_ERROR(CheckModel(model));
    // Added tokens first: a vocabulary may list them too, and they need not be written in the byte
    // alphabet.
    CACHALOT_RETURN_IF_ERROR(ReadAddedTokens(Field(root, "added_tokens")));
    CACHALOT_RETURN_IF_ERROR(ReadVocabulary(Field(model, "vocab")));
    CACHALOT_RETURN_IF_ERROR(ReadMerges(Field(model, "merges")));
    return std::move(file_);
  }

 private:
  template <typename... Args>
  tl::unexpected<Error> Fault(StatusCode code, fmt::format_string<Args...> format,
                              Args&&... args) const {
    return MakeError(code, "{}: {}", source_, fmt::format(format, std::forward<Args>(args)...));
  }

  tl::unexpected<Error> Unexpected(const std::string& where, const Json& found,
                                   std::string_view expected) const {
    return Fault(StatusCode::kInvalidArgument, "{} is {}, expected {}", where,
                 found.is_null() ? "missing" : Show(found), expected);
  }

  tl::unexpected<Error> Unsupported(const std::string& where, const Json& found,
                                    std::string_view supported) const {
    return Fault(StatusCode::kUnsupported, "{} is {}, supported is only {}", where, Show(found),
                 supported);
  }

  // A missing field reads as null, and so does any field of what is no object.
  static const Json& Field(const Json& object, std::string_view name) {
    static const Json null;
    if (!object.is_object()) {
      return null;
    }
    const auto field = object.find(name);
    return field == object.end() ? null : *field;
  }

  static std::string Join(const std::string& where, std::string_view name) {
    return where.empty() ? std::string(name) : fmt::format("{}.{}", where, name);
  }

  Status CheckFields(const Json& object, const std::string& where,
                     std::initializer_list<std::string_view> known) const {
    if (!object.is_object()) {
      return Unexpected(where.empty() ? "the file" : where, object, "an object");
    }
    for (const auto& [name, value] : object.items()) {
      if (std::ranges::find(known, name) == known.end()) {
        return Fault(StatusCode::kUnsupported, "{}unknown field {}",
                     where.empty() ? "" : where + ": ", Show(Json(name)));
      }
    }
    return {};
  }

  Status CheckAbsent(const Json& object, const std::string& where, std::string_view name) const {
    const Json& value = Field(object, name);
    return value.is_null() ? Status() : Unsupported(Join(where, name), value, "null");
  }

  // A flag whose other value would change what the tokenizer does.
  Status CheckFlag(const Json& object, const std::string& where, std::string_view name, bool wanted,
                   bool if_missing) const {
    const Json& value = Field(object, name);
    if (!value.is_null() && !value.is_boolean()) {
      return Unexpected(Join(where, name), value, "true or false");
    }
    const bool found = value.is_null() ? if_missing : value.get<bool>();
    return found == wanted ? Status()
                           : Unsupported(Join(where, name), Json(found), wanted ? "true" : "false");
  }

  Status CheckText(const Json& object, const std::string& where, std::string_view name,
                   std::string_view wanted) const {
    const Json& value = Field(object, name);
    if (!value.is_string()) {
      return Unexpected(Join(where, name), value, "a string");
    }
    return value.get_ref<const std::string&>() == wanted
               ? Status()
               : Unsupported(Join(where, name), value, DumpJson(Json(wanted)));
  }

  Status CheckType(const Json& object, const std::string& where, std::string_view wanted) const {
    if (!object.is_object()) {
      return Unexpected(where, object, "an object");
    }
    return CheckText(object, where, "type", wanted);
  }

  Status CheckNormalizer(const Json& normalizer) const {
    if (normalizer.is_null()) {
      return {};
    }
    CACHALOT_RETURN_IF_ERROR(CheckType(normalizer, "normalizer", "Sequence"));
    const Json& steps = Field(normalizer, "normalizers");
    if (!steps.is_array()) {
      return Unexpected("normalizer.normalizers", steps, "an array");
    }
    return steps.empty() ? Status()
                         : Unsupported("normalizer.normalizers", steps, "an empty array");
  }

  Status ReadPreTokenizer(const Json& pre_tokenizer) {
    CACHALOT_RETURN_IF_ERROR(CheckType(pre_tokenizer, "pre_tokenizer", "Sequence"));
    const Json& steps = Field(pre_tokenizer, "pretokenizers");
    if (!steps.is_array() || steps.empty() || steps.size() > kMaxPatterns + 1) {
      return Unexpected("pre_tokenizer.pretokenizers", steps,
                        fmt::format("an array of 1 to {}", kMaxPatterns + 1));
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      const Json& step = steps[i];
      const std::string where = fmt::format("pre_tokenizer.pretokenizers[{}]", i);
      if (i + 1 == steps.size()) {
        CACHALOT_RETURN_IF_ERROR(CheckType(step, where, "ByteLevel"));
        CACHALOT_RETURN_IF_ERROR(CheckFlag(step, where, "add_prefix_space", false, true));
        return CheckFlag(step, where, "use_regex", false, true);
      }
      CACHALOT_RETURN_IF_ERROR(CheckType(step, where, "Split"));
      CACHALOT_RETURN_IF_ERROR(CheckText(step, where, "behavior", "Isolated"));
      CACHALOT_RETURN_IF_ERROR(CheckFlag(step, where, "invert", false, false));
      const Json& pattern = Field(Field(step, "pattern"), "Regex");
      if (!pattern.is_string() || pattern.get_ref<const std::string&>().empty()) {
        return Unexpected(where + ".pattern.Regex", pattern, "a non-empty string");
      }
      file_.patterns.push_back(pattern.get<std::string>());
    }
    return {};
  }

  Status CheckModel(const Json& model) const {
    CACHALOT_RETURN_IF_ERROR(CheckType(model, "model", "BPE"));
    CACHALOT_RETURN_IF_ERROR(CheckFields(
        model, "model",
        {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
         "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
    CACHALOT_RETURN_IF_ERROR(CheckAbsent(model, "model", "dropout"));
    CACHALOT_RETURN_IF_ERROR(CheckAbsent(model, "model", "unk_token"));
    for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (Field(model, name) != "") {
        CACHALOT_RETURN_IF_ERROR(CheckAbsent(model, "model", name));
      }
    }
    CACHALOT_RETURN_IF_ERROR(CheckFlag(model, "model", "byte_fallback", false, false));
    return CheckFlag(model, "model", "ignore_merges", false, false);
  }

  // `where` is a function: naming the place of every token of a file that is sound would cost more
  // than reading it.
  template <typename Where>
  Result<int32_t> ReadId(const Json& value, const Where& where) const {
    if (!value.is_number_integer() || value < 0 || value >= kMaxTokenIds) {
      return Unexpected(where(), value, fmt::format("an id from 0 to {}", kMaxTokenIds - 1));
    }
    return value.get<int32_t>();
  }

  Status ReadAddedTokens(const Json& added) {
    if (added.is_null()) {
      return {};
    }
    if (!added.is_array()) {
      return Unexpected("added_tokens", added, "an array");
    }
    for (size_t i = 0; i < added.size(); ++i) {
      const std::string where = fmt::format("added_tokens[{}]", i);
      CACHALOT_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(added[i], where));
      const auto [same_id, is_new_id] = added_by_id_.emplace(token.id, i);
      if (!is_new_id) {
        return Fault(StatusCode::kInvalidArgument, "{}.id is {}, which added_tokens[{}] has too",
                     where, token.id, same_id->second);
      }
      const auto [same_text, is_new_text] = added_by_content_.emplace(token.content, i);
      if (!is_new_text) {
        return Fault(StatusCode::kInvalidArgument,
                     "{}.content is {}, which added_tokens[{}] has too", where,
                     Show(Json(token.content)), same_text->second);
      }
      file_.added_tokens.push_back(std::move(token));
    }
    return {};
  }

  Result<AddedToken> ReadAddedToken(const Json& entry, const std::string& where) const {
    CACHALOT_RETURN_IF_ERROR(
        CheckFields(entry, where,
                    {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
    for (const std::string_view name : {"single_word", "lstrip", "rstrip"}) {
      CACHALOT_RETURN_IF_ERROR(CheckFlag(entry, where, name, false, false));
    }
    for (const std::string_view name : {"normalized", "special"}) {
      if (!Field(entry, name).is_boolean()) {
        return Unexpected(Join(where, name), Field(entry, name), "true or false");
      }
    }
    AddedToken token;
    CACHALOT_ASSIGN_OR_RETURN(token.id, ReadId(Field(entry, "id"), [&] { return where + ".id"; }));
    const Json& content = Field(entry, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty() ||
        content.get_ref<const std::string&>().size() > kMaxAddedTokenBytes) {
      return Unexpected(where + ".content", content,
                        fmt::format("a string of 1 to {} bytes", kMaxAddedTokenBytes));
    }
    token.content = content.get<std::string>();
    token.special = Field(entry, "special").get<bool>();
    token.normalized = Field(entry, "normalized").get<bool>();
    return token;
  }

  Status ReadVocabulary(const Json& vocabulary) {
    if (!vocabulary.is_object()) {
      return Unexpected("model.vocab", vocabulary, "an object");
    }
    std::vector<std::string> tokens;  // [id] → bytes, empty where none
    for (const auto& [written, value] : vocabulary.items()) {
      const auto where = [&, &written_here = written] {
        return "model.vocab." + Show(Json(written_here));
      };
      if (!value.is_number_integer() || written.empty()) {
        return Unexpected(where(), value, "a non-empty token with an id");
      }
      CACHALOT_ASSIGN_OR_RETURN(const int32_t id, ReadId(value, where));
      CACHALOT_RETURN_IF_ERROR(AddToken(written, id, where, tokens));
    }
    for (const auto& [id, index] : added_by_id_) {
      if (static_cast<size_t>(id) < tokens.size() && !tokens[id].empty()) {
        return Fault(StatusCode::kInvalidArgument,
                     "added_tokens[{}].id is {}, which model.vocab gives to another token", index,
                     id);
      }
    }
    file_.vocabulary = Vocabulary(std::move(tokens));
    for (int byte = 0; byte < 256; ++byte) {
      const std::string bytes(1, static_cast<char>(byte));
      if (file_.vocabulary.Find(bytes) == kNoToken) {
        return Fault(StatusCode::kInvalidArgument,
                     "model.vocab lacks {}, the token of byte 0x{:02X}",
                     DumpJson(Json(WriteBytes(bytes))), byte);
      }
    }
    return {};
  }

  template <typename Where>
  Status AddToken(const std::string& written, int32_t id, const Where& where,
                  std::vector<std::string>& tokens) const {
    if (const auto added = added_by_content_.find(written); added != added_by_content_.end()) {
      const int32_t added_id = file_.added_tokens[added->second].id;
      return id == added_id
                 ? Status()
                 : Fault(StatusCode::kInvalidArgument, "{} is {}, but added_tokens[{}].id is {}",
                         where(), id, added->second, added_id);
    }
    std::optional<std::string> bytes = BytesOfWritten(written);
    if (!bytes) {
      return Fault(StatusCode::kInvalidArgument,
                   "{} is neither written in the byte alphabet nor in added_tokens", where());
    }
    if (static_cast<size_t>(id) >= tokens.size()) {
      tokens.resize(id + 1);
    }
    if (!tokens[id].empty()) {
      return Fault(StatusCode::kInvalidArgument, "{} is {}, which {} has too", where(), id,
                   Show(Json(WriteBytes(tokens[id]))));
    }
    tokens[id] = *std::move(bytes);
    return {};
  }

  Status ReadMerges(const Json& merges) {
    if (!merges.is_array()) {
      return Unexpected("model.merges", merges, "an array");
    }
    file_.merges.reserve(merges.size());
    std::unordered_map<uint64_t, size_t> rank_of_pair;
    rank_of_pair.reserve(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      CACHALOT_ASSIGN_OR_RETURN(const Merge merge, ReadMerge(merges[rank], rank));
      const uint64_t pair =
          static_cast<uint64_t>(merge.left) << 32 | static_cast<uint32_t>(merge.right);
      const auto [same, is_new] = rank_of_pair.emplace(pair, rank);
      if (!is_new) {
        return Fault(StatusCode::kInvalidArgument, "model.merges[{}] repeats model.merges[{}]",
                     rank, same->second);
      }
      file_.merges.push_back(merge);
    }
    return {};
  }

  // Either "left right", as no token has a space in it, or ["left", "right"].
  Result<Merge> ReadMerge(const Json& entry, size_t rank) const {
    const auto where = [rank] { return fmt::format("model.merges[{}]", rank); };
    constexpr std::string_view kExpected = "\"left right\" or [\"left\", \"right\"]";
    std::string left;
    std::string right;
    if (entry.is_string()) {
      const std::string& both = entry.get_ref<const std::string&>();
      const size_t space = both.find(' ');
      if (space == both.npos || both.find(' ', space + 1) != both.npos) {
        return Unexpected(where(), entry, kExpected);
      }
      left = both.substr(0, space);
      right = both.substr(space + 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      left = entry[0].get<std::string>();
      right = entry[1].get<std::string>();
    } else {
      return Unexpected(where(), entry, kExpected);
    }
    Merge merge;
    CACHALOT_ASSIGN_OR_RETURN(merge.left, FindPart(left, where));
    CACHALOT_ASSIGN_OR_RETURN(merge.right, FindPart(right, where));
    CACHALOT_ASSIGN_OR_RETURN(merge.result, FindPart(left + right, where));
    return merge;
  }

  template <typename Where>
  Result<int32_t> FindPart(const std::string& written, const Where& where) const {
    const std::optional<std::string> bytes = BytesOfWritten(written);
    const int32_t id = bytes ? file_.vocabulary.Find(*bytes) : kNoToken;
    if (id == kNoToken) {
      return Fault(StatusCode::kInvalidArgument, "{} needs the token {}, which {}", where(),
                   Show(Json(written)),
                   added_by_content_.contains(written) ? "is an added token, never made from text"
                                                       : "is not in model.vocab");
    }
    return id;
  }

  const std::string& source_;
  TokenizerFile file_;
  std::unordered_map<int32_t, size_t> added_by_id_;           // → index in added_tokens
  std::unordered_map<std::string, size_t> added_by_content_;  // → index in added_tokens
};

}  // namespace

Result<TokenizerFile> ParseTokenizerFile(std::string_view text, const std::string& source) {
  CACHALOT_ASSIGN_OR_RETURN(const Json root, ParseJson(text, source));
  return Reader(source).Read(root);
}

}  // namespace cachalot
