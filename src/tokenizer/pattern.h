// One pre-tokeniser pattern, compiled by PCRE2. The only file that knows PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace cachalot {

// What one matching thread needs beside the pattern; serves any number of patterns, one after
// another.
class PatternScratch {
 public:
  PatternScratch();

 private:
  friend class Pattern;
  struct Free {
    void operator()(pcre2_real_match_data_8* data) const;
    void operator()(pcre2_real_match_context_8* context) const;
    void operator()(pcre2_real_jit_stack_8* stack) const;
  };
  std::unique_ptr<pcre2_real_match_data_8, Free> data_;
  // Made only once a match overflows the 32 KiB of the machine stack that PCRE2 takes unasked.
  std::unique_ptr<pcre2_real_jit_stack_8, Free> stack_;
  std::unique_ptr<pcre2_real_match_context_8, Free> context_;
};

// Immutable once compiled; may be used by any number of threads, each with its own scratch.
class Pattern {
 public:
  // `pattern` in the syntax of pattern_syntax.h; one that can match nothing at all is refused.
  static Result<Pattern> Compile(std::string_view pattern);

  struct Match {
    size_t begin;
    size_t end;  // > begin, or both text.size() where nothing matches
  };
  // The first match in `text` at or after `from`. `text` is valid UTF-8, `from` <= text.size() the
  // end of a character. An error where matching takes more steps or stack than PCRE2 is allowed.
  Result<Match> FindNext(std::string_view text, size_t from, PatternScratch& scratch) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool is_native_ = false;  // compiled to machine code
};

}  // namespace cachalot
