// JSON schema → a grammar of JSON texts, each of which is valid by the schema. What the grammar
// cannot enforce is refused by name: docs/structured-output.md lists both.
#pragma once

#include "base/result.h"
#include "grammar/grammar.h"
#include "io/json.h"

namespace cachalot {

// `schema` is read as draft 2020-12. Errors (kInvalidArgument; kUnsupported for what JSON schema
// has and this has not) name the place as a JSON pointer: "#/properties/a/pattern: ...".
Result<Grammar> GrammarOfJsonSchema(const OrderedJson& schema);

// Any JSON object.
Grammar AnyJsonObject();

}  // namespace cachalot
