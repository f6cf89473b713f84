#include "backends/ascend/symbol_table.h"

namespace cachalot::ascend {
namespace {

template <typename Function>
void Set(Function*& pointer, void* address) {
  pointer = reinterpret_cast<Function*>(address);
}

constexpr SymbolInfo kSymbols[] = {
#define CACHALOT_ACL_FUNCTION(library, feature, returns, name, parameters) \
  {#name, Source::library, Feature::feature, nullptr,                      \
   [](SymbolTable& table, void* function, void*) { Set(table.name, function); }},
#define CACHALOT_ACLNN_OPERATOR(source, feature, member, symbol, parameters) \
  {#symbol, Source::source, Feature::feature, #symbol "GetWorkspaceSize",    \
   [](SymbolTable& table, void* function, void* prepared) {                  \
     Set(table.member.launch, function);                                     \
     Set(table.member.prepare, prepared);                                    \
   }},
#include "backends/ascend/symbols.def"
#undef CACHALOT_ACL_FUNCTION
#undef CACHALOT_ACLNN_OPERATOR
};

}  // namespace

const char* NameOf(Source source) {
  switch (source) {
    case Source::kRuntime:
      return "runtime";
    case Source::kMeta:
      return "meta";
    case Source::kStandard:
      return "standard";
    case Source::kCustom:
      return "custom";
    case Source::kOfficial:
      return "official";
  }
  return "?";
}

const char* NameOf(Feature feature) {
  switch (feature) {
#define CACHALOT_ASCEND_FEATURE(name, text) \
  case Feature::name:                       \
    return text;
#include "backends/ascend/features.def"
#undef CACHALOT_ASCEND_FEATURE
  }
  return "?";
}

std::span<const SymbolInfo> AllSymbols() { return kSymbols; }

}  // namespace cachalot::ascend
