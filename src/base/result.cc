#include "base/result.h"

namespace cachalot {

const char* StatusCodeText(StatusCode code) {
  switch (code) {
#define CACHALOT_STATUS_CODE(name, text, exit_code) \
  case StatusCode::name:                            \
    return text;
#include "base/status_codes.def"
#undef CACHALOT_STATUS_CODE
  }
  return "unknown status";
}

int ExitCode(StatusCode code) {
  switch (code) {
#define CACHALOT_STATUS_CODE(name, text, exit_code) \
  case StatusCode::name:                            \
    return exit_code;
#include "base/status_codes.def"
#undef CACHALOT_STATUS_CODE
  }
  return 1;
}

}  // namespace cachalot
