// Members of a JSON object that came from outside, by type and range: of a request's body, of a line
// of a file of requests, of an object within one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/json.h"

namespace cachalot {

// A member that is missing or null is absent. An error names the place, the member, at most
// kMaxShownBytes of what was found, and what was expected; the member is its subject.
class JsonFields {
 public:
  static constexpr size_t kMaxShownBytes = 100;

  // `object` is one, read by ParsePythonJson, and outlives this. `place` stands before errors, empty
  // for none: "requests.jsonl: line 7". `path` stands before members: "tools[2].function".
  explicit JsonFields(const OrderedJson& object, std::string place = {}, std::string path = {});

  // Null where absent.
  const OrderedJson* Find(std::string_view name) const;

  Result<std::optional<bool>> Flag(std::string_view name) const;
  Result<std::optional<double>> Number(std::string_view name) const;
  Result<std::optional<int64_t>> Integer(std::string_view name, int64_t low, int64_t high) const;
  Result<std::optional<std::string>> Text(std::string_view name) const;
  // Null where absent.
  Result<const OrderedJson*> Object(std::string_view name) const;
  Result<const OrderedJson*> List(std::string_view name) const;
  // The fields of an object within: of the member `name`, or of an element of it.
  JsonFields Within(std::string_view name, const OrderedJson& object) const;
  Result<std::string> RequiredText(std::string_view name) const;

  // The same of one value, a list's for example, that `name` names in errors.
  Result<double> NumberOf(std::string_view name, const OrderedJson& value) const;
  Result<int64_t> IntegerOf(std::string_view name, const OrderedJson& value, int64_t low,
                            int64_t high) const;

  tl::unexpected<Error> Wrong(std::string_view name, const OrderedJson& found,
                              std::string_view expected) const;
  // Of several members, or of none.
  tl::unexpected<Error> Fault(std::string_view message, std::string_view subject = {}) const;
  std::string PathOf(std::string_view name) const;
  const OrderedJson& object() const { return *object_; }

 private:
  const OrderedJson* object_;
  std::string place_;
  std::string path_;
};

// Sets `target` where there is a value.
template <typename T, typename Target>
Status SetIfPresent(Result<std::optional<T>> found, Target* target) {
  CACHALOT_ASSIGN_OR_RETURN(std::optional<T> value, std::move(found));
  if (value) {
    *target = *std::move(value);
  }
  return {};
}

}  // namespace cachalot
