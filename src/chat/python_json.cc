#include "chat/python_json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr int kMaxDepth = 512;
// Python refuses to read a longer integer (sys.get_int_max_str_digits).
constexpr size_t kMaxIntegerDigits = 4300;
constexpr std::uint8_t kBigIntegerSubtype = 1;

// The shortest digits that read back, laid out as Python's float_repr does: exponents below -4 and
// from 16 on with e.
std::string LayOutFloat(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), std::fabs(value),
                                 std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) {
    digits += text.substr(2, e - 2);
  }
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}{}{}e{}{:02}", digits.substr(0, 1), count > 1 ? "." : "",
                       digits.substr(1), exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    return "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  if (exponent + 1 >= count) {
    return digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<size_t>(exponent + 1);
  return digits.substr(0, whole) + "." + digits.substr(whole);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  Result<OrderedJson> ReadAll() {
    if (FindInvalidUtf8(text_)) {
      return MakeError(StatusCode::kInvalidArgument, "{}: JSON is not valid UTF-8", source_);
    }
    CACHALOT_ASSIGN_OR_RETURN(OrderedJson value, ReadValue(0));
    SkipBlanks();
    if (at_ != text_.size()) {
      return Damaged("text after the value");
    }
    return value;
  }

 private:
  tl::unexpected<Error> Damaged(const char* reason) const {
    return MakeError(StatusCode::kInvalidArgument, "{}: JSON damaged at byte {} of {}: {}", source_,
                     at_, text_.size(), reason);
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipBlanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != text_.npos) {
      ++at_;
    }
  }

  bool Take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) {
      return false;
    }
    at_ += expected.size();
    return true;
  }

  Result<OrderedJson> ReadValue(int depth) {
    if (depth > kMaxDepth) {
      return Damaged("nested deeper than 512");
    }
    SkipBlanks();
    switch (Peek()) {
      case '{':
        return ReadObject(depth);
      case '[':
        return ReadArray(depth);
      case '"':
        return ReadString();
      default:
        return ReadWordOrNumber();
    }
  }

  Result<OrderedJson> ReadObject(int depth) {
    ++at_;
    OrderedJson object = OrderedJson::object();
    // The object is a vector of pairs; finding a key in it would make a long object quadratic.
    auto& members = object.get_ref<OrderedJson::object_t&>();
    std::unordered_map<std::string, size_t> places;
    SkipBlanks();
    if (Take("}")) {
      return object;
    }
    while (true) {
      SkipBlanks();
      if (Peek() != '"') {
        return Damaged("expected a key in quotes");
      }
      CACHALOT_ASSIGN_OR_RETURN(const OrderedJson key, ReadString());
      SkipBlanks();
      if (!Take(":")) {
        return Damaged("expected ':'");
      }
      CACHALOT_ASSIGN_OR_RETURN(OrderedJson value, ReadValue(depth + 1));
      const auto& name = key.get_ref<const std::string&>();
      const auto [place, is_new] = places.emplace(name, members.size());
      if (is_new) {
        members.emplace_back(name, std::move(value));
      } else {
        (members.begin() + static_cast<std::ptrdiff_t>(place->second))->second = std::move(value);
      }
      SkipBlanks();
      if (Take("}")) {
        return object;
      }
      if (!Take(",")) {
        return Damaged("expected ',' or '}'");
      }
    }
  }

  Result<OrderedJson> ReadArray(int depth) {
    ++at_;
    OrderedJson array = OrderedJson::array();
    SkipBlanks();
    if (Take("]")) {
      return array;
    }
    while (true) {
      CACHALOT_ASSIGN_OR_RETURN(OrderedJson value, ReadValue(depth + 1));
      array.push_back(std::move(value));
      SkipBlanks();
      if (Take("]")) {
        return array;
      }
      if (!Take(",")) {
        return Damaged("expected ',' or ']'");
      }
    }
  }

  Result<OrderedJson> ReadString() {
    ++at_;
    std::string out;
    while (true) {
      const size_t plain = text_.find_first_of("\"\\", at_);
      const std::string_view run = text_.substr(at_, plain == text_.npos ? plain : plain - at_);
      for (const char c : run) {
        if (static_cast<unsigned char>(c) < 0x20) {
          return Damaged("control character in a string");
        }
      }
      out += run;
      at_ += run.size();
      if (plain == text_.npos) {
        return Damaged("string without an end");
      }
      if (Take("\"")) {
        return OrderedJson(std::move(out));
      }
      ++at_;
      CACHALOT_RETURN_IF_ERROR(ReadEscape(out));
    }
  }

  Status ReadEscape(std::string& out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = Peek();
    if (const size_t known = kLetters.find(letter); at_ < text_.size() && known != kLetters.npos) {
      out += kMeanings[known];
      ++at_;
      return {};
    }
    if (letter != 'u') {
      return Damaged("unknown escape");
    }
    ++at_;
    CACHALOT_ASSIGN_OR_RETURN(char32_t unit, ReadHex4());
    if (unit >= 0xD800 && unit < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      const size_t before = at_;
      at_ += 2;
      CACHALOT_ASSIGN_OR_RETURN(const char32_t second, ReadHex4());
      if (second >= 0xDC00 && second < 0xE000) {
        unit = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
      } else {
        at_ = before;
      }
    }
    AppendCodePoint(out, unit);
    return {};
  }

  Result<char32_t> ReadHex4() {
    std::uint32_t value = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) {
      return Damaged("expected four hexadecimal digits");
    }
    at_ += 4;
    return static_cast<char32_t>(value);
  }

  size_t DigitsFrom(size_t at) const {
    size_t end = at;
    while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') {
      ++end;
    }
    return end - at;
  }

  Result<OrderedJson> ReadWordOrNumber() {
    if (Take("true")) {
      return OrderedJson(true);
    }
    if (Take("false")) {
      return OrderedJson(false);
    }
    if (Take("null")) {
      return OrderedJson(nullptr);
    }
    if (Take("NaN")) {
      return OrderedJson(std::nan(""));
    }
    if (Take("Infinity")) {
      return OrderedJson(HUGE_VAL);
    }
    if (Take("-Infinity")) {
      return OrderedJson(-HUGE_VAL);
    }
    return ReadNumber();
  }

  Result<OrderedJson> ReadNumber() {
    const size_t start = at_;
    size_t end = at_ + (Peek() == '-' ? 1 : 0);
    const size_t whole = DigitsFrom(end);
    if (whole == 0) {
      return Damaged("expected a value");
    }
    end += text_[end] == '0' ? 1 : whole;
    bool is_float = false;
    if (end < text_.size() && text_[end] == '.' && DigitsFrom(end + 1) > 0) {
      end += 1 + DigitsFrom(end + 1);
      is_float = true;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const size_t sign =
          end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
      if (const size_t digits = DigitsFrom(end + 1 + sign); digits > 0) {
        end += 1 + sign + digits;
        is_float = true;
      }
    }
    const std::string number(text_.substr(start, end - start));
    if (!is_float && whole > kMaxIntegerDigits) {
      return Damaged("integer of more than 4300 digits");
    }
    at_ = end;
    return is_float ? OrderedJson(std::strtod(number.c_str(), nullptr)) : Integer(number);
  }

  static OrderedJson Integer(const std::string& digits) {
    std::int64_t small = 0;
    const char* end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, small).ec == std::errc()) {
      return OrderedJson(small);
    }
    return OrderedJson::binary({digits.begin(), digits.end()}, kBigIntegerSubtype);
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
};

void Dump(std::string& out, const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::object: {
      out += '{';
      const char* between = "";
      for (const auto& [key, member] : value.get_ref<const OrderedJson::object_t&>()) {
        out += between;
        out += '"';
        AppendJsonEscaped(out, key);
        out += "\": ";
        Dump(out, member);
        between = ", ";
      }
      out += '}';
      return;
    }
    case OrderedJson::value_t::array: {
      out += '[';
      const char* between = "";
      for (const OrderedJson& element : value) {
        out += between;
        Dump(out, element);
        between = ", ";
      }
      out += ']';
      return;
    }
    case OrderedJson::value_t::string:
      out += '"';
      AppendJsonEscaped(out, value.get_ref<const std::string&>());
      out += '"';
      return;
    case OrderedJson::value_t::number_float:
      out += PythonFloat(value.get<double>());
      return;
    case OrderedJson::value_t::binary: {
      const auto& digits = value.get_binary();
      out.append(digits.begin(), digits.end());
      return;
    }
    default:
      out += value.dump();  // true, false, null and integers, which Python writes alike
  }
}

}  // namespace

Result<OrderedJson> ParsePythonJson(std::string_view text, const std::string& source) {
  return Reader(text, source).ReadAll();
}

std::string DumpPythonJson(const OrderedJson& value) {
  std::string out;
  Dump(out, value);
  return out;
}

void AppendJsonEscaped(std::string& out, std::string_view text) {
  constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  for (const char c : text) {
    if (const size_t known = kSpecial.find(c); known != kSpecial.npos) {
      out += '\\';
      out += kLetters[known];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
}

std::string PythonFloat(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  const std::string sign = std::signbit(value) ? "-" : "";
  return sign + (std::isinf(value) ? "Infinity" : LayOutFloat(value));
}

}  // namespace cachalot
