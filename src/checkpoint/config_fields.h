// Reads the fields of a JSON object with their bounds and remembers the first fault, so that a
// reader is one line for each field. After a fault every read gives 0 or nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/json.h"

namespace cachalot {

class ConfigFields {
 public:
  // `where` begins each message: "DIR/config.json". Object and fault must outlive the reader.
  ConfigFields(const Json& object, std::string where, std::optional<Error>* fault);

  // Present and not null.
  bool Has(const std::string& name) const;
  int64_t Integer(const std::string& name, int64_t least, int64_t most);
  double Number(const std::string& name, double least, double most);
  // One of the allowed strings; another one is a fault of this code.
  std::string OneOf(const std::string& name, const std::vector<std::string>& allowed,
                    StatusCode code = StatusCode::kInvalidArgument);
  std::vector<int64_t> Integers(const std::string& name, int64_t least, int64_t most,
                                size_t most_entries);
  // Strings that are each one of the allowed.
  std::vector<std::string> Strings(const std::string& name, size_t most_entries,
                                   const std::vector<std::string>& allowed);
  // The field's object; where it is missing or something else, a reader of an empty object.
  ConfigFields Object(const std::string& name);
  std::vector<std::string> Names() const;

  // The field must be there and have this value.
  void Require(const std::string& name, const Json& value);
  // If the field is there and not null, it must have this value.
  void RequireIfPresent(const std::string& name, const Json& value);

  // Notes "where: message" unless there is a fault already.
  template <typename... Args>
  void Fail(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
    if (!*fault_) {
      *fault_ = Error{code, where_ + ": " + fmt::format(format, std::forward<Args>(args)...)};
    }
  }
  bool failed() const { return fault_->has_value(); }

 private:
  // Null, with the fault noted, where the field is missing.
  const Json* Find(const std::string& name, const std::string& expected);
  void FailValue(const std::string& name, const Json& found, const std::string& expected,
                 StatusCode code = StatusCode::kInvalidArgument);

  const Json& object_;
  std::string where_;
  std::optional<Error>* fault_;
};

}  // namespace cachalot
