//! Prompt fragments as MCP prompts: their variables are the arguments.

use rmcp::ErrorData;
use rmcp::model::{GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Map, Value};
use toolwright_engine::Session;
use toolwright_engine::registry::{Cursor, Listed, RegistryError, Wanted};
use toolwright_types::PromptFragment;

use super::{Server, unavailable};

/// How many prompts are on a page.
const PAGE: u32 = 100;

impl Server {
    /// A page of prompts, and where the next begins.
    pub(super) async fn prompts(
        &self,
        session: &Session,
        cursor: Option<&str>,
    ) -> Result<(Vec<Prompt>, Option<String>), ErrorData> {
        let wrong = |_| ErrorData::invalid_params("`cursor` is none that this server gave", None);
        let cursor = cursor.map(str::parse::<Cursor>).transpose().map_err(wrong)?;
        let wanted = Wanted { limit: PAGE, cursor, ..Wanted::default() };
        let listed: Listed<PromptFragment> = self.engine().registry.list(session, wanted).await.map_err(refused)?;
        let prompts = listed.items.into_iter().map(|document| shown(&document.body)).collect();
        Ok((prompts, listed.next.map(|next| next.to_string())))
    }

    /// A prompt with its arguments filled in.
    pub(super) async fn prompt(
        &self,
        session: &Session,
        request: &GetPromptRequestParams,
    ) -> Result<GetPromptResult, ErrorData> {
        let found = self.engine().registry.get::<PromptFragment>(session, &request.name, None).await;
        let fragment = found.map_err(refused)?.body;
        let context = context(request.arguments.as_ref());
        let compiled = toolwright_expr::prompt::Prompt::compile([fragment.content.as_str()]);
        let compiled = compiled.map_err(|(_, error)| ErrorData::internal_error(error.to_string(), None))?;
        let rendered = compiled.render(&context);
        let rendered = rendered.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let mut result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, rendered.text)]);
        result.description = fragment.description;
        Ok(result)
    }
}

fn shown(fragment: &PromptFragment) -> Prompt {
    let compiled = toolwright_expr::prompt::Prompt::compile([fragment.content.as_str()]).ok();
    let variables = compiled.and_then(|prompt| prompt.render(&Map::new()).ok()).map(|rendered| rendered.missing);
    // One that is left out is empty in the text, as it is for agents.
    let arguments =
        variables.unwrap_or_default().into_iter().map(|name| PromptArgument::new(name).with_required(false));
    let arguments: Vec<PromptArgument> = arguments.collect();
    let mut prompt = Prompt::new(
        fragment.ref_name.as_str(),
        fragment.description.as_deref(),
        (!arguments.is_empty()).then_some(arguments),
    );
    prompt.title.clone_from(&fragment.name);
    prompt
}

/// Arguments by dotted path as the nested context that prompts are rendered with.
fn context(arguments: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut context = Map::new();
    for (path, value) in arguments.into_iter().flatten() {
        put(&mut context, path, value);
    }
    context
}

fn put(place: &mut Map<String, Value>, path: &str, value: &Value) {
    let Some((step, rest)) = path.split_once('.') else {
        place.insert(path.to_owned(), value.clone());
        return;
    };
    let mut inner = match place.remove(step) {
        Some(Value::Object(inner)) => inner,
        _ => Map::new(),
    };
    put(&mut inner, rest, value);
    place.insert(step.to_owned(), Value::Object(inner));
}

fn refused(error: RegistryError) -> ErrorData {
    match error {
        RegistryError::Unavailable(error) => unavailable(error),
        error => ErrorData::invalid_params(error.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dotted_arguments_are_nested() {
        let arguments = json!({ "data.stages": "won", "data.size": "3", "user": "Ada", "user.name": "Ada L." });
        let arguments: Map<String, Value> = serde_json::from_value(arguments).unwrap();
        let expected = json!({ "data": { "stages": "won", "size": "3" }, "user": { "name": "Ada L." } });
        assert_eq!(Value::Object(context(Some(&arguments))), expected);
    }

    #[test]
    fn variables_are_the_arguments() {
        let fragment = json!({ "refName": "greeting", "content": "Hello {{user.name}}, {{ tone }} {{tone}}" });
        let prompt = shown(&serde_json::from_value(fragment).unwrap());
        let names: Vec<String> = prompt.arguments.unwrap().into_iter().map(|argument| argument.name).collect();
        assert_eq!(names, ["user.name", "tone"]);
    }
}
