#include "tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "base/check.h"
#include "tokenizer/pattern_syntax.h"

namespace cachalot {
namespace {

constexpr size_t kMaxPatternBytes =
    4096;  // compiling takes time and memory by the size of the pattern
constexpr size_t kFirstStackBytes = size_t{256} << 10;
constexpr size_t kMaxStackBytes = size_t{64} << 20;

PCRE2_SPTR Units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string MessageOf(int code) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(code, message, sizeof(message));
  return reinterpret_cast<const char*>(message);
}

}  // namespace

void PatternScratch::Free::operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
void PatternScratch::Free::operator()(pcre2_match_context* context) const {
  pcre2_match_context_free(context);
}
void PatternScratch::Free::operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
void Pattern::Free::operator()(pcre2_code* code) const { pcre2_code_free(code); }

PatternScratch::PatternScratch() : data_(pcre2_match_data_create(1, nullptr)) {
  CACHALOT_CHECK(data_ != nullptr, "out of memory");
}

Result<Pattern> Pattern::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return MakeError(StatusCode::kUnsupported, "pattern of {} bytes, expected at most {}",
                     pattern.size(), kMaxPatternBytes);
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::string translated, TranslatePattern(pattern));
  struct FreeContext {
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  };
  const std::unique_ptr<pcre2_compile_context, FreeContext> context(
      pcre2_compile_context_create(nullptr));
  CACHALOT_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(),
                    PCRE2_NEWLINE_LF);  // what '.' leaves out, whatever PCRE2 was built with
  int code = 0;
  PCRE2_SIZE offset = 0;
  Pattern compiled;
  compiled.code_.reset(pcre2_compile(Units(translated), translated.size(), PCRE2_UTF | PCRE2_UCP,
                                     &code, &offset, context.get()));
  if (compiled.code_ == nullptr) {
    return MakeError(StatusCode::kInvalidArgument, "invalid pattern: {}", MessageOf(code));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(compiled.code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    return MakeError(StatusCode::kUnsupported, "pattern that can match the empty string");
  }
  // Where there is no JIT (a system that forbids writable code), PCRE2 interprets: the same
  // matches, slower.
  compiled.is_native_ = pcre2_jit_compile(compiled.code_.get(), PCRE2_JIT_COMPLETE) == 0;
  return compiled;
}

Result<Pattern::Match> Pattern::FindNext(std::string_view text, size_t from,
                                         PatternScratch& scratch) const {
  const auto match = [&] {
    if (is_native_) {
      return pcre2_jit_match(code_.get(), Units(text), text.size(), from, PCRE2_NOTEMPTY,
                             scratch.data_.get(), scratch.context_.get());
    }
    return pcre2_match(code_.get(), Units(text), text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, scratch.data_.get(),
                       scratch.context_.get());
  };
  int code = match();
  if (code == PCRE2_ERROR_JIT_STACKLIMIT && scratch.stack_ == nullptr) {
    scratch.stack_.reset(pcre2_jit_stack_create(kFirstStackBytes, kMaxStackBytes, nullptr));
    scratch.context_.reset(pcre2_match_context_create(nullptr));
    CACHALOT_CHECK(scratch.stack_ != nullptr && scratch.context_ != nullptr, "out of memory");
    pcre2_jit_stack_assign(scratch.context_.get(), nullptr, scratch.stack_.get());
    code = match();
  }
  if (code == PCRE2_ERROR_NOMATCH) {
    return Match{text.size(), text.size()};
  }
  if (code < 0) {
    return MakeError(StatusCode::kResourceExhausted, "pattern gives up on this text: {}",
                     MessageOf(code));
  }
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(scratch.data_.get());
  CACHALOT_CHECK(from <= place[0] && place[0] < place[1] && place[1] <= text.size(),
                 "match {}..{} from {}", place[0], place[1], from);
  return Match{place[0], place[1]};
}

}  // namespace cachalot
