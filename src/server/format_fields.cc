#include "server/format_fields.h"

#include <string>
#include <utility>

namespace cachalot {
namespace {

Result<OrderedJson> ReadSchema(const JsonFields& format) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* within, format.Object("json_schema"));
  const JsonFields described = within == nullptr ? format : format.Within("json_schema", *within);
  if (within == nullptr && format.Find("schema") == nullptr) {
    return format.Fault(fmt::format("{} is missing, expected an object with a schema",
                                    format.PathOf("json_schema")),
                        format.PathOf("json_schema"));
  }
  CACHALOT_RETURN_IF_ERROR(described.Text("name"));
  CACHALOT_RETURN_IF_ERROR(described.Text("description"));
  CACHALOT_RETURN_IF_ERROR(described.Flag("strict"));
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* schema, described.Object("schema"));
  return schema == nullptr ? OrderedJson::object() : *schema;
}

}  // namespace

Result<FormatFields> ReadResponseFormat(const JsonFields& fields, const char* name) {
  FormatFields read;
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* object, fields.Object(name));
  if (object == nullptr) {
    return read;
  }
  const JsonFields format = fields.Within(name, *object);
  CACHALOT_ASSIGN_OR_RETURN(const std::string type, format.RequiredText("type"));
  if (type == "text") {
    return read;
  }
  if (type == "json_object") {
    read.format.kind = AnswerFormat::Kind::kJsonObject;
  } else if (type == "json_schema") {
    read.format.kind = AnswerFormat::Kind::kJsonSchema;
    CACHALOT_ASSIGN_OR_RETURN(read.format.schema, ReadSchema(format));
  } else {
    return format.Wrong("type", OrderedJson(type), "text, json_object or json_schema");
  }
  read.prompt = *object;
  return read;
}

}  // namespace cachalot
