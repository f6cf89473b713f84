// The head of an answer.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "http/http.h"

namespace cachalot {

std::string_view HttpStatusText(int status);

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string HttpDate(std::time_t time);

// "name: value" and the end of the line. Control characters in a value become spaces: a value can add
// no line.
void AppendField(std::string& head, std::string_view name, std::string_view value);

}  // namespace cachalot
