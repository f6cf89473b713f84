// JSON schema → a grammar of JSON texts, each of which is valid by the schema. What the grammar
// cannot enforce is refused by name: docs/structured-output.md lists both.
#pragma once

#include <functional>

#include "base/result.h"
#include "grammar/grammar.h"
#include "io/json.h"

namespace cachalot {

// `schema` is read as draft 2020-12. Errors (kInvalidArgument; kUnsupported for what JSON schema
// has and this has not) name the place as a JSON pointer: "#/properties/a/pattern: ...".
Result<Grammar> GrammarOfJsonSchema(const OrderedJson& schema);

// What may stand in place of the JSON text: adds it to the grammar and gives the node where it begins.
using InsteadOfJson = std::function<Result<NodeId>(GrammarBuilder& builder)>;
Result<Grammar> GrammarOfJsonSchemaOr(const OrderedJson& schema, const InsteadOfJson& instead);

}  // namespace cachalot
