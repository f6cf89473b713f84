// A library for loader_test.cc: exports the functions of symbols.def whose source is named by a FAKE_
// definition, none of which does anything. A function that is defined as another name is missing.
#define FAKE_NOTHING(name)
#define FAKE_FUNCTION(name) \
  extern "C" __attribute__((visibility("default"))) void name() {}

#ifdef FAKE_RUNTIME
#define FAKE_kRuntime FAKE_FUNCTION
#else
#define FAKE_kRuntime FAKE_NOTHING
#endif
#ifdef FAKE_META
#define FAKE_kMeta FAKE_FUNCTION
#else
#define FAKE_kMeta FAKE_NOTHING
#endif
#ifdef FAKE_STANDARD
#define FAKE_kStandard FAKE_FUNCTION
#else
#define FAKE_kStandard FAKE_NOTHING
#endif
#ifdef FAKE_CUSTOM
#define FAKE_kCustom FAKE_FUNCTION
#else
#define FAKE_kCustom FAKE_NOTHING
#endif
#ifdef FAKE_OFFICIAL
#define FAKE_kOfficial FAKE_FUNCTION
#else
#define FAKE_kOfficial FAKE_NOTHING
#endif

#define CACHALOT_ACL_FUNCTION(library, feature, returns, name, parameters) FAKE_##library(name)
#define CACHALOT_ACLNN_OPERATOR(source, feature, member, symbol, parameters) \
  FAKE_##source(symbol) FAKE_##source(symbol##GetWorkspaceSize)
#include "../symbols.def"
