// The page at "/": a chat with the model. page/index.html is the source; the program has a copy.
#pragma once

#include <string_view>

namespace cachalot {

// text/html; charset=utf-8.
std::string_view IndexPage();

// Its Content-Security-Policy: it reaches its own server alone, and nothing embeds it.
inline constexpr std::string_view kIndexPagePolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace cachalot
