//! Builds the JSON Schema of a message, according to the JSON mapping of protocol buffers.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// Returns the schema of a message. Recursive messages are defined under `$defs`.
pub fn message_schema(message: &MessageDescriptor) -> Value {
    let mut builder = SchemaBuilder::default();
    let mut root = builder.message(message);
    if !builder.definitions.is_empty()
        && let Some(fields) = root.as_object_mut()
    {
        fields.insert("$defs".into(), Value::Object(builder.definitions));
    }
    root
}

pub(crate) fn list_schema(message: &MessageDescriptor) -> Value {
    let mut item = message_schema(message);
    // References are resolved from the root of the schema, so `$defs` moves to the new root.
    let definitions = item.as_object_mut().and_then(|fields| fields.shift_remove("$defs"));
    let mut list = json!({ "type": "array", "items": item });
    if let (Some(definitions), Some(fields)) = (definitions, list.as_object_mut()) {
        fields.insert("$defs".into(), definitions);
    }
    list
}

#[derive(Default)]
struct SchemaBuilder {
    /// The messages that are being expanded, outermost first.
    expanding: Vec<String>,
    /// The schemas of recursive messages, by full name. Null until the schema is complete.
    definitions: Map<String, Value>,
}

impl SchemaBuilder {
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.full_name();
        if let Some(schema) = well_known(name) {
            return schema;
        }
        let reference = || json!({ "$ref": format!("#/$defs/{name}") });
        if self.definitions.contains_key(name) {
            return reference();
        }
        if self.expanding.iter().any(|outer| outer == name) {
            self.definitions.insert(name.to_owned(), Value::Null);
            return reference();
        }
        self.expanding.push(name.to_owned());
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in message.fields() {
            if field.is_required() {
                required.push(json!(field.json_name()));
            }
            properties.insert(field.json_name().to_owned(), self.field(&field));
        }
        self.expanding.pop();
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        add_description(&mut schema, leading_comment(message.parent_file_descriptor_proto(), message.path()));
        schema.insert("properties".into(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".into(), Value::Array(required));
        }
        schema.insert("additionalProperties".into(), json!(false));
        let schema = Value::Object(schema);
        match self.definitions.get_mut(name) {
            Some(definition) => {
                *definition = schema;
                reference()
            }
            None => schema,
        }
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let mut schema = if field.is_map() {
            let value = match field.kind() {
                Kind::Message(entry) => self.field_type(&entry.map_entry_value_field()),
                _ => json!({}),
            };
            json!({ "type": "object", "additionalProperties": value })
        } else if field.is_list() {
            json!({ "type": "array", "items": self.field_type(field) })
        } else {
            self.field_type(field)
        };
        let mut description = leading_comment(field.parent_message().parent_file_descriptor_proto(), field.path());
        if let Some(oneof) = field.containing_oneof().filter(|oneof| oneof.fields().len() > 1) {
            let note = format!("At most one of the fields of `{}` is set.", oneof.name());
            description = Some(description.map_or_else(|| note.clone(), |text| format!("{text} {note}")));
        }
        if let Some(fields) = schema.as_object_mut() {
            add_description(fields, description);
        }
        schema
    }

    /// Returns the schema of one value of a field. For a repeated field, that is the schema of an item.
    fn field_type(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Double | Kind::Float => json!({ "type": ["number", "string"] }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer" }),
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0 }),
            // The JSON mapping writes 64-bit integers as strings, because many JSON parsers cannot represent them
            // exactly.
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => {
                json!({ "type": ["string", "integer"] })
            }
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Enum(values) => enumeration(&values),
            Kind::Message(message) => self.message(&message),
        }
    }
}

fn enumeration(values: &EnumDescriptor) -> Value {
    if values.full_name() == "google.protobuf.NullValue" {
        return json!({ "type": "null" });
    }
    let names: Vec<String> = values.values().map(|value| value.name().to_owned()).collect();
    json!({ "type": "string", "enum": names })
}

/// Returns the schema of a well-known message type with a special JSON mapping, such as a timestamp.
fn well_known(name: &str) -> Option<Value> {
    let short = name.strip_prefix("google.protobuf.")?;
    Some(match short {
        "Timestamp" => json!({ "type": "string", "format": "date-time" }),
        "Duration" => json!({ "type": "string", "description": "A duration in seconds, such as `1.5s`." }),
        "FieldMask" => json!({ "type": "string", "description": "Names of fields with commas between." }),
        "Empty" => json!({ "type": "object" }),
        "Struct" => json!({ "type": "object" }),
        "Any" => json!({ "type": "object", "properties": { "@type": { "type": "string" } }, "required": ["@type"] }),
        "Value" => json!({}),
        "ListValue" => json!({ "type": "array" }),
        "StringValue" => json!({ "type": ["string", "null"] }),
        "BytesValue" => json!({ "type": ["string", "null"], "contentEncoding": "base64" }),
        "BoolValue" => json!({ "type": ["boolean", "null"] }),
        "Int32Value" | "UInt32Value" => json!({ "type": ["integer", "null"] }),
        "Int64Value" | "UInt64Value" => json!({ "type": ["string", "integer", "null"] }),
        "DoubleValue" | "FloatValue" => json!({ "type": ["number", "string", "null"] }),
        _ => return None,
    })
}

fn add_description(schema: &mut Map<String, Value>, description: Option<String>) {
    if let Some(description) = description {
        schema.entry("description").or_insert(Value::String(description));
    }
}

/// Returns the comment before a declaration, if the descriptors contain source info.
pub(crate) fn leading_comment(file: &prost_types::FileDescriptorProto, path: &[i32]) -> Option<String> {
    let locations = &file.source_code_info.as_ref()?.location;
    let comment = locations.iter().find(|location| location.path == path)?.leading_comments.as_deref()?;
    let lines: Vec<&str> = comment.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}
