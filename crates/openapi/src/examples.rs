//! Example calls, where a document has enough of them to make a whole one.

use serde_json::{Map, Value};
use toolwright_types::ToolExample;

use crate::body::Body;
use crate::parameters::Parameter;
use crate::schema::is_small;

const MOST: usize = 2;
const LARGEST: usize = 4 << 10;

/// Calls made of the examples of the parameters and of the body. One that lacks something required is none.
pub(crate) fn of(
    parameters: &[Parameter<'_>],
    body: Option<&Body<'_>>,
    apart: Option<&str>,
    schema: &Value,
) -> Vec<ToolExample> {
    let given = parameters.iter().filter_map(|parameter| Some((parameter.name.clone(), parameter.example?.clone())));
    let given: Map<String, Value> = given.collect();
    let bodies = body.map(|body| body.examples.as_slice()).unwrap_or_default();
    let calls: Vec<(Option<&str>, Map<String, Value>)> = match (bodies, apart) {
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
    let whole = calls.into_iter().filter(|(_, input)| !input.is_empty() && is_whole(input, schema));
    let scenario =
        |text: Option<&str>| text.map(|text| crate::text::shortened(text, 120)).filter(|text| !text.is_empty());
    whole.map(|(text, input)| ToolExample { scenario: scenario(text), input, output: None }).take(MOST).collect()
}

/// Whether everything required is there, and nothing that is not known.
fn is_whole(input: &Map<String, Value>, schema: &Value) -> bool {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = input.keys().all(|name| properties.is_some_and(|properties| properties.contains_key(name)));
    known
        && required.into_iter().all(|name| input.contains_key(name))
        && is_small(&Value::Object(input.clone()), LARGEST)
}
