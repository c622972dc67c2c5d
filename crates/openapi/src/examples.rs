//! Builds example calls from the examples of parameters and request bodies.

use serde_json::{Map, Value};
use toolwright_types::ToolExample;

use crate::body::RequestBody;
use crate::parameters::Parameter;
use crate::schema::is_small;

const MAX_EXAMPLES: usize = 2;
const MAX_INPUT_BYTES: usize = 4 << 10;

/// Combines the examples of the parameters with those of the body. `body_property` is the input property that contains
/// the whole body, if there is one. Drops examples that lack a required property, have an unknown property or are too
/// large.
pub(crate) fn example_calls(
    parameters: &[Parameter<'_>],
    body: Option<&RequestBody<'_>>,
    body_property: Option<&str>,
    schema: &Value,
) -> Vec<ToolExample> {
    let given = parameters.iter().filter_map(|parameter| Some((parameter.name.clone(), parameter.example?.clone())));
    let given: Map<String, Value> = given.collect();
    let bodies = body.map(|body| body.examples.as_slice()).unwrap_or_default();
    let calls: Vec<(Option<&str>, Map<String, Value>)> = match (bodies, body_property) {
        ([], _) => vec![(None, given)],
        (bodies, Some(name)) => bodies
            .iter()
            .map(|(scenario, value)| {
                let mut input = given.clone();
                input.insert(name.to_owned(), (*value).clone());
                (*scenario, input)
            })
            .collect(),
        (bodies, None) => bodies
            .iter()
            .filter_map(|(scenario, value)| {
                let mut input = given.clone();
                input.extend(value.as_object()?.clone());
                Some((*scenario, input))
            })
            .collect(),
    };
    let complete = calls.into_iter().filter(|(_, input)| !input.is_empty() && is_complete(input, schema));
    let scenario =
        |text: Option<&str>| text.map(|text| crate::text::truncate(text, 120)).filter(|text| !text.is_empty());
    complete
        .map(|(text, input)| ToolExample { scenario: scenario(text), input, output: None })
        .take(MAX_EXAMPLES)
        .collect()
}

/// Returns whether the input has all required properties, no unknown properties, and at most [`MAX_INPUT_BYTES`] bytes.
fn is_complete(input: &Map<String, Value>, schema: &Value) -> bool {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = input.keys().all(|name| properties.is_some_and(|properties| properties.contains_key(name)));
    known
        && required.into_iter().all(|name| input.contains_key(name))
        && is_small(&Value::Object(input.clone()), MAX_INPUT_BYTES)
}
