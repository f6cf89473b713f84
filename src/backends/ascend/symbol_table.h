// The functions of symbols.def as pointers with their types, and what the loader has to know of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/ascend/acl.h"

namespace cachalot::ascend {

// Both phases of an operator. A call is written Call(stream, symbols.RmsNorm, x, ...): op_call.h.
template <typename Signature>
struct Operator;
template <typename... Parameters>
struct Operator<void(Parameters...)> {
  const char* name;
  aclnnStatus (*prepare)(Parameters..., uint64_t* workspace_bytes,
                         aclOpExecutor** executor) = nullptr;
  aclnnStatus (*launch)(void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                        aclrtStream stream) = nullptr;

  // Whether the machine has it.
  explicit operator bool() const { return prepare != nullptr; }
};

// A function that no library has is null.
struct SymbolTable {
#define CACHALOT_ACL_FUNCTION(library, feature, returns, name, parameters) \
  returns(*name) parameters = nullptr;
#define CACHALOT_ACLNN_OPERATOR(source, feature, member, symbol, parameters) \
  Operator<void parameters> member{#symbol};
#include "backends/ascend/symbols.def"
#undef CACHALOT_ACL_FUNCTION
#undef CACHALOT_ACLNN_OPERATOR
};

enum class Source { kRuntime, kMeta, kStandard, kCustom, kOfficial };
enum class Feature {
#define CACHALOT_ASCEND_FEATURE(name, text) name,
#include "backends/ascend/features.def"
#undef CACHALOT_ASCEND_FEATURE
};

const char* NameOf(Source source);
const char* NameOf(Feature feature);

// One line of symbols.def.
struct SymbolInfo {
  const char* symbol;
  Source source;
  Feature feature;
  const char* prepare;  // the first phase's symbol; null for what is no operator
  // Puts what was looked up into the table: `prepared` is the first phase's.
  void (*bind)(SymbolTable& table, void* function, void* prepared);
};

std::span<const SymbolInfo> AllSymbols();

}  // namespace cachalot::ascend
