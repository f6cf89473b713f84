// The text that a custom tool is called with, out of the arguments that the model wrote for it,
// {"input": "text"}, while they are being written.
#pragma once

#include <string>
#include <string_view>

namespace cachalot {

// Arguments may come split anywhere between characters. All that Push and Finish return, put
// together, is: the string "input" where it is the first member; otherwise a member of that name,
// or the only member, if it is a string; otherwise the arguments as they are. Nothing where they were
// cut off before the text began.
class CustomToolInput {
 public:
  std::string Push(std::string_view arguments);
  // Once, at the end of the arguments or where they were cut off.
  std::string Finish();

 private:
  enum class State { kOpening, kText, kEscape, kUnicode, kRest, kOther };

  void PushByte(char byte, std::string& text);
  void EndUnicode(std::string& text);
  void EndSurrogate(std::string& text);

  State state_ = State::kOpening;
  std::string arguments_;   // of kOpening and kOther: all so far
  std::string opening_;     // the same without blanks
  std::string digits_;      // of \uXXXX
  char32_t surrogate_ = 0;  // the first half of a pair whose second one is to come; 0: none
};

}  // namespace cachalot
