// JSON schemas as what they demand of a value: references resolved, allOf joined, keywords checked.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/schema_values.h"
#include "io/json.h"

namespace cachalot {

// A schema, or a value in one, in the document.
struct SchemaAt {
  const OrderedJson* json = nullptr;
  std::string pointer;  // "#/properties/a"
};

std::string PointerTo(std::string_view pointer, std::string_view key);
// A member, or one without json where there is none; an element.
SchemaAt MemberOf(const SchemaAt& at, std::string_view key);
SchemaAt ElementOf(const SchemaAt& at, size_t index);
// What `properties` has by name, which OrderedJson finds one by one.
using PropertyIndex = std::unordered_map<std::string_view, const OrderedJson*>;
PropertyIndex PropertiesOf(const SchemaAt& part);

// What a value must be, all of it.
struct Conjunction {
  std::vector<SchemaAt> parts;    // schemas with keywords of their own, $ref and allOf followed
  std::vector<SchemaAt> choices;  // lists of anyOf and oneOf
  std::optional<SchemaAt> never;  // a schema `false`
};

// Sets of types as bits. A number is an integer or has a fraction.
using JsonTypes = uint32_t;
inline constexpr JsonTypes kNullType = 1;
inline constexpr JsonTypes kBooleanType = 2;
inline constexpr JsonTypes kIntegerType = 4;
inline constexpr JsonTypes kFractionType = 8;
inline constexpr JsonTypes kStringType = 16;
inline constexpr JsonTypes kArrayType = 32;
inline constexpr JsonTypes kObjectType = 64;
inline constexpr JsonTypes kNumberType = kIntegerType | kFractionType;
inline constexpr JsonTypes kAllTypes = 127;

JsonTypes TypeOf(const OrderedJson& value);

// The keywords of a conjunction's parts, but for the schemas in them, which its parts are asked
// for.
struct Keywords {
  JsonTypes types = kAllTypes;                     // as `type` says
  JsonTypes applies_to = 0;                        // types that some keyword speaks of
  std::optional<std::vector<OrderedJson>> values;  // that enum and const leave
  Limits length, items, members;
  std::vector<SchemaAt> patterns;
  std::vector<SchemaAt> formats;  // known ones
  NumericBounds bounds;
  std::vector<std::string> required;  // may have a name twice
};

// Whether two limits, `type` and `enum`, or bounds of a number in `keywords` leave nothing: what it
// is.
std::optional<std::string_view> FindContradiction(const Keywords& keywords);
// Reads one document, which must outlive it.
class SchemaReader {
 public:
  explicit SchemaReader(const OrderedJson& document) : document_(document) {}

  // Joins a schema to what is demanded already. Errors: what is no schema or not understood; a
  // schema that refers to itself.
  Status Join(const SchemaAt& schema, Conjunction& conjunction);
  Result<Keywords> Read(const Conjunction& conjunction) const;

 private:
  Result<SchemaAt> Resolve(const SchemaAt& reference) const;
  Status ReadPart(const SchemaAt& part, Keywords& keywords) const;

  const OrderedJson& document_;
  std::vector<const OrderedJson*> joining_;  // schemas whose references are being followed
};

// A pointer's last 100 bytes.
std::string ShortPointer(std::string_view pointer);

// "POINTER: MESSAGE".
template <typename... Args>
tl::unexpected<Error> SchemaError(const SchemaAt& at, StatusCode code,
                                  fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(code, "{}: {}", ShortPointer(at.pointer),
                   fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace cachalot
