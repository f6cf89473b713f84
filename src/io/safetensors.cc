#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "io/json.h"

namespace cachalot {
namespace {

struct DtypeBits {
  std::string_view name;
  int bits;
};

constexpr std::array<DtypeBits, 20> kDtypes = {
    {{"BOOL", 8},    {"U8", 8},   {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
     {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"I16", 16},
     {"U16", 16},    {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},
     {"F32", 32},    {"F64", 64}, {"I64", 64},    {"U64", 64},    {"C64", 64}}};

const DtypeBits* FindDtype(std::string_view name) {
  const auto found =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& d) { return d.name == name; });
  return found == kDtypes.end() ? nullptr : &*found;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Names come from a hostile file: an error line shows at most this much of one.
std::string Shown(const std::string& name) {
  constexpr size_t kShown = 120;
  const std::string text = DumpJson(Json(name.substr(0, kShown)));
  return name.size() > kShown ? text + "..." : text;
}

// Receives the header as a stream of events, so that a header of any content costs no more memory
// than its tensors do.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& source) : source_(source) {}

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a boolean"); }
  bool number_integer(int64_t value) { return Unexpected(fmt::format("{}", value)); }
  bool number_float(double, const std::string& text) { return Unexpected(text.substr(0, 40)); }
  bool number_unsigned(uint64_t value) {
    if (state_ != State::kShape && state_ != State::kOffsets) {
      return Unexpected(fmt::format("{}", value));
    }
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      return Fail("tensor {}: {} of {}, expected at most {}", Shown(entry_.name), Field(), value,
                  INT64_MAX);
    }
    auto& list = state_ == State::kShape ? entry_.shape : offsets_;
    const size_t most = state_ == State::kShape ? kMaxSafetensorsRank : 2;
    if (list.size() == most) {
      return Fail("tensor {}: {} has more than {} numbers", Shown(entry_.name), Field(), most);
    }
    list.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(std::string& text) {
    if (state_ == State::kMetadata) {
      return true;
    }
    if (state_ != State::kDtype) {
      return Unexpected("a string");
    }
    const DtypeBits* dtype = FindDtype(text);
    if (dtype == nullptr) {
      return Fail("tensor {}: dtype {} is unknown", Shown(entry_.name), Shown(text));
    }
    entry_.dtype = dtype->name;
    state_ = State::kTensor;
    return true;
  }
  bool binary(Json::binary_t&) { return Unexpected("binary"); }
  bool start_object(size_t) {
    if (state_ == State::kStart) {
      state_ = State::kNames;
    } else if (state_ == State::kName) {
      state_ = entry_.name == "__metadata__" ? State::kMetadata : State::kTensor;
    } else {
      return Unexpected("an object");
    }
    return true;
  }
  bool key(std::string& text) {
    if (state_ == State::kNames) {
      entry_ = {};
      entry_.name = std::move(text);
      has_shape_ = false;
      offsets_.clear();
      has_offsets_ = false;
      state_ = State::kName;
      return true;
    }
    if (state_ == State::kMetadata) {
      return true;
    }
    const bool twice = (text == "dtype" && !entry_.dtype.empty()) ||
                       (text == "shape" && has_shape_) || (text == "data_offsets" && has_offsets_);
    if (twice) {
      return Fail("tensor {}: {} is given twice", Shown(entry_.name), text);
    }
    if (text == "dtype") {
      state_ = State::kDtype;
    } else if (text == "shape") {
      has_shape_ = true;
      state_ = State::kBeforeShape;
    } else if (text == "data_offsets") {
      has_offsets_ = true;
      state_ = State::kBeforeOffsets;
    } else {
      return Fail("tensor {}: unknown field {}, expected dtype, shape and data_offsets",
                  Shown(entry_.name), Shown(text));
    }
    return true;
  }
  bool start_array(size_t) {
    if (state_ == State::kBeforeShape) {
      state_ = State::kShape;
    } else if (state_ == State::kBeforeOffsets) {
      state_ = State::kOffsets;
    } else {
      return Unexpected("an array");
    }
    return true;
  }
  bool end_array() {
    if (state_ == State::kOffsets && offsets_.size() != 2) {
      return Fail("tensor {}: data_offsets has {} numbers, expected 2", Shown(entry_.name),
                  offsets_.size());
    }
    state_ = State::kTensor;
    return true;
  }
  bool end_object() {
    if (state_ == State::kTensor) {
      state_ = State::kNames;
      return AddEntry();
    }
    state_ = state_ == State::kMetadata ? State::kNames : State::kDone;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return Fail("header JSON damaged at byte {}", position);
  }

  std::optional<tl::unexpected<Error>> error;
  std::vector<SafetensorsEntry> entries;

 private:
  // Where the reader stands: kName follows a name, kDtype and kBefore... follow the key of a
  // field.
  enum class State {
    kStart,
    kNames,
    kName,
    kMetadata,
    kTensor,
    kDtype,
    kBeforeShape,
    kShape,
    kBeforeOffsets,
    kOffsets,
    kDone
  };

  template <typename... Args>
  bool Fail(fmt::format_string<Args...> format, Args&&... args) {
    if (!error) {
      error = MakeError(StatusCode::kDataLoss, "{}: {}", source_,
                        fmt::format(format, std::forward<Args>(args)...));
    }
    return false;
  }
  const char* Field() const {
    switch (state_) {
      case State::kDtype:
        return "dtype";
      case State::kBeforeShape:
      case State::kShape:
        return "shape";
      case State::kBeforeOffsets:
      case State::kOffsets:
        return "data_offsets";
      default:
        return "description";
    }
  }
  const char* Expected() const {
    switch (state_) {
      case State::kDtype:
        return "a string";
      case State::kBeforeShape:
      case State::kBeforeOffsets:
        return "an array";
      case State::kShape:
      case State::kOffsets:
        return "integers from 0 on";
      case State::kMetadata:
        return "strings";
      default:
        return "an object";
    }
  }
  bool Unexpected(const std::string& what) {
    if (state_ == State::kStart) {
      return Fail("header is {}, expected {}", what, Expected());
    }
    if (state_ == State::kMetadata) {
      return Fail("__metadata__ holds {}, expected {}", what, Expected());
    }
    return Fail("tensor {}: {} is {}, expected {}", Shown(entry_.name), Field(), what, Expected());
  }

  bool AddEntry() {
    const std::string name = Shown(entry_.name);
    if (entry_.dtype.empty() || !has_shape_ || !has_offsets_) {
      return Fail("tensor {}: {} is missing", name,
                  entry_.dtype.empty() ? "dtype" : (has_shape_ ? "data_offsets" : "shape"));
    }
    int64_t bits = FindDtype(entry_.dtype)->bits;
    for (const int64_t dim : entry_.shape) {
      if (__builtin_mul_overflow(bits, dim, &bits)) {
        return Fail("tensor {}: shape {} overflows", name, ShapeText(entry_.shape));
      }
    }
    if (bits % 8 != 0) {
      return Fail("tensor {}: {} {} is not a whole number of bytes", name, entry_.dtype,
                  ShapeText(entry_.shape));
    }
    if (offsets_[0] > offsets_[1]) {
      return Fail("tensor {}: data_offsets {} end before they begin", name, ShapeText(offsets_));
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.end - entry_.begin != bits / 8) {
      return Fail("tensor {}: data_offsets span {} bytes, expected {} for {} {}", name,
                  entry_.end - entry_.begin, bits / 8, entry_.dtype, ShapeText(entry_.shape));
    }
    entries.push_back(std::move(entry_));
    entry_ = {};
    return true;
  }

  const std::string& source_;
  State state_ = State::kStart;
  SafetensorsEntry entry_;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<int64_t> offsets_;
};

Status CheckNamesOnce(const std::vector<SafetensorsEntry>& entries, const std::string& source) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const auto& entry : entries) {
    names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return MakeError(StatusCode::kDataLoss, "{}: tensor {} is there twice", source,
                     Shown(std::string(*twice)));
  }
  return {};
}

// The data of the entries, sorted, must cover [0, size) without a gap.
Status CheckTiling(const std::vector<SafetensorsEntry>& entries, int64_t size,
                   const std::string& source) {
  int64_t covered = 0;
  const SafetensorsEntry* previous = nullptr;
  for (const auto& entry : entries) {
    if (entry.end > size) {
      return MakeError(
          StatusCode::kDataLoss,
          "{}: tensor {} ends at byte {} of the data, which has {}: truncated or lying", source,
          Shown(entry.name), entry.end, size);
    }
    if (entry.begin < covered) {
      return MakeError(StatusCode::kDataLoss,
                       "{}: tensor {} begins at byte {} of the data, inside {}, which ends at {}",
                       source, Shown(entry.name), entry.begin, Shown(previous->name), covered);
    }
    if (entry.begin > covered) {
      return MakeError(
          StatusCode::kDataLoss,
          "{}: tensor {} begins at byte {} of the data, expected {}: bytes of no tensor", source,
          Shown(entry.name), entry.begin, covered);
    }
    covered = entry.end;
    previous = &entry;
  }
  if (covered != size) {
    return MakeError(StatusCode::kDataLoss,
                     "{}: the tensors end at byte {} of the data, which has {}", source, covered,
                     size);
  }
  return {};
}

}  // namespace

int BitsOfSafetensorsDtype(std::string_view dtype) {
  const DtypeBits* found = FindDtype(dtype);
  return found == nullptr ? 0 : found->bits;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::span<const std::byte> head, int64_t file_size,
                                                 const std::string& source) {
  CACHALOT_CHECK_LE(static_cast<int64_t>(head.size()), file_size);
  uint64_t length = 0;
  if (head.size() < sizeof(length)) {
    return MakeError(StatusCode::kDataLoss, "{}: {} bytes, too short for a safetensors file",
                     source, file_size);
  }
  std::memcpy(&length, head.data(), sizeof(length));
  const uint64_t most = std::min<uint64_t>(kMaxSafetensorsHeaderBytes,
                                           static_cast<uint64_t>(file_size) - sizeof(length));
  if (length > most) {
    return MakeError(StatusCode::kDataLoss,
                     "{}: header length is {}, expected at most {} (the file has {} bytes)", source,
                     length, most, file_size);
  }
  if (head.size() - sizeof(length) < length) {
    return MakeError(StatusCode::kDataLoss, "{}: header of {} bytes is cut short", source, length);
  }
  const auto* text = reinterpret_cast<const char*>(head.data()) + sizeof(length);
  if (length == 0 || text[0] != '{') {
    return MakeError(StatusCode::kDataLoss, "{}: header does not begin with '{{'", source);
  }
  HeaderReader reader(source);
  if (!Json::sax_parse(text, text + length, &reader)) {
    return *reader.error;
  }
  SafetensorsHeader header;
  header.entries = std::move(reader.entries);
  header.data_begin = static_cast<int64_t>(sizeof(length) + length);
  CACHALOT_RETURN_IF_ERROR(CheckNamesOnce(header.entries, source));
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  CACHALOT_RETURN_IF_ERROR(CheckTiling(header.entries, file_size - header.data_begin, source));
  return header;
}

std::string FormatSafetensorsHeader(std::span<const SafetensorsEntry> entries) {
  std::string text = "{";
  for (const auto& entry : entries) {
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        text.size() > 1 ? "," : "", DumpJson(Json(entry.name)), entry.dtype,
                        fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile file;
  CACHALOT_ASSIGN_OR_RETURN(file.file_, MappedFile::Open(path));
  CACHALOT_ASSIGN_OR_RETURN(file.header_,
                            ParseSafetensorsHeader(file.file_.bytes(), file.size(), path));
  return file;
}

std::span<const std::byte> SafetensorsFile::data(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(static_cast<size_t>(header_.data_begin + entry.begin),
                               static_cast<size_t>(entry.end - entry.begin));
}

}  // namespace cachalot
