//! The JSON Schema of a message, by the JSON form of protocol buffers.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// The schema of a message. One that holds itself is named, and referred to.
pub fn schema(message: &MessageDescriptor) -> Value {
    let mut writer = Writer::default();
    let mut root = writer.message(message);
    if !writer.named.is_empty()
        && let Some(fields) = root.as_object_mut()
    {
        fields.insert("$defs".into(), Value::Object(writer.named));
    }
    root
}

/// The schema of a list of such messages.
pub(crate) fn list_of(message: &MessageDescriptor) -> Value {
    let mut item = schema(message);
    // Names are looked up from the root.
    let named = item.as_object_mut().and_then(|fields| fields.shift_remove("$defs"));
    let mut list = json!({ "type": "array", "items": item });
    if let (Some(named), Some(fields)) = (named, list.as_object_mut()) {
        fields.insert("$defs".into(), named);
    }
    list
}

#[derive(Default)]
struct Writer {
    /// The messages that are being written, the outermost first.
    open: Vec<String>,
    /// Those that hold themselves, once they are written.
    named: Map<String, Value>,
}

impl Writer {
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.full_name();
        if let Some(known) = well_known(name) {
            return known;
        }
        let reference = || json!({ "$ref": format!("#/$defs/{name}") });
        if self.named.contains_key(name) {
            return reference();
        }
        if self.open.iter().any(|open| open == name) {
            self.named.insert(name.to_owned(), Value::Null);
            return reference();
        }
        self.open.push(name.to_owned());
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in message.fields() {
            if field.is_required() {
                required.push(json!(field.json_name()));
            }
            properties.insert(field.json_name().to_owned(), self.field(&field));
        }
        self.open.pop();
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        describe(&mut schema, comment(message.parent_file_descriptor_proto(), message.path()));
        schema.insert("properties".into(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".into(), Value::Array(required));
        }
        schema.insert("additionalProperties".into(), json!(false));
        let schema = Value::Object(schema);
        match self.named.get_mut(name) {
            Some(place) => {
                *place = schema;
                reference()
            }
            None => schema,
        }
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let mut schema = if field.is_map() {
            let value = match field.kind() {
                Kind::Message(entry) => self.kind(&entry.map_entry_value_field()),
                _ => json!({}),
            };
            json!({ "type": "object", "additionalProperties": value })
        } else if field.is_list() {
            json!({ "type": "array", "items": self.kind(field) })
        } else {
            self.kind(field)
        };
        let mut said = comment(field.parent_message().parent_file_descriptor_proto(), field.path());
        if let Some(oneof) = field.containing_oneof().filter(|oneof| oneof.fields().len() > 1) {
            let note = format!("At most one of the fields of `{}` is set.", oneof.name());
            said = Some(said.map_or_else(|| note.clone(), |said| format!("{said} {note}")));
        }
        if let Some(fields) = schema.as_object_mut() {
            describe(fields, said);
        }
        schema
    }

    fn kind(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Double | Kind::Float => json!({ "type": ["number", "string"] }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer" }),
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0 }),
            // 64 bits are written as text: most readers of JSON have no such numbers.
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

/// The messages that have a JSON form of their own.
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

fn describe(schema: &mut Map<String, Value>, said: Option<String>) {
    if let Some(said) = said {
        schema.entry("description").or_insert(Value::String(said));
    }
}

/// What the author wrote before a declaration, where descriptors hold it.
pub(crate) fn comment(file: &prost_types::FileDescriptorProto, path: &[i32]) -> Option<String> {
    let places = &file.source_code_info.as_ref()?.location;
    let written = places.iter().find(|place| place.path == path)?.leading_comments.as_deref()?;
    let lines: Vec<&str> = written.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}
