//! Offers prompt fragments as MCP prompts. The variables of a fragment are the arguments of the prompt.

use rmcp::ErrorData;
use rmcp::model::{GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Map, Value};
use toolwright_catalog::Session;
use toolwright_catalog::registry::{DefinitionPage, DefinitionQuery, DocumentCursor, RegistryError};
use toolwright_types::PromptFragment;

use super::{Server, unavailable};

/// The page size.
const PAGE_SIZE: u32 = 100;

impl Server {
    /// Returns a page of prompts, and the next cursor.
    pub(super) async fn prompts(
        &self,
        session: &Session,
        cursor: Option<&str>,
    ) -> Result<(Vec<Prompt>, Option<String>), ErrorData> {
        let invalid_cursor = |_| ErrorData::invalid_params("`cursor` must be a cursor that this server returned", None);
        let cursor = cursor.map(str::parse::<DocumentCursor>).transpose().map_err(invalid_cursor)?;
        let query = DefinitionQuery { limit: PAGE_SIZE, cursor, ..DefinitionQuery::default() };
        let page: DefinitionPage<PromptFragment> =
            self.engine().registry.list(session, query).await.map_err(registry_error)?;
        let prompts = page.items.into_iter().map(|document| to_prompt(&document.body)).collect();
        Ok((prompts, page.next.map(|next| next.to_string())))
    }

    /// Renders a prompt with its arguments.
    pub(super) async fn prompt(
        &self,
        session: &Session,
        request: &GetPromptRequestParams,
    ) -> Result<GetPromptResult, ErrorData> {
        let found = self.engine().registry.get::<PromptFragment>(session, &request.name, None).await;
        let fragment = found.map_err(registry_error)?.body;
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

fn to_prompt(fragment: &PromptFragment) -> Prompt {
    let compiled = toolwright_expr::prompt::Prompt::compile([fragment.content.as_str()]).ok();
    let variables = compiled.and_then(|prompt| prompt.render(&Map::new()).ok()).map(|rendered| rendered.missing);
    // A missing variable is rendered as empty text, as in the prompts of agents.
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

/// Converts arguments with dotted names, such as `user.name`, to the nested objects that are used to render prompts.
fn context(arguments: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut context = Map::new();
    for (path, value) in arguments.into_iter().flatten() {
        insert_at_path(&mut context, path, value);
    }
    context
}

fn insert_at_path(object: &mut Map<String, Value>, path: &str, value: &Value) {
    let Some((key, rest)) = path.split_once('.') else {
        object.insert(path.to_owned(), value.clone());
        return;
    };
    let mut inner = match object.remove(key) {
        Some(Value::Object(inner)) => inner,
        _ => Map::new(),
    };
    insert_at_path(&mut inner, rest, value);
    object.insert(key.to_owned(), Value::Object(inner));
}

fn registry_error(error: RegistryError) -> ErrorData {
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
    fn prompt_arguments_with_dotted_names_become_nested_objects() {
        let arguments = json!({ "data.stages": "won", "data.size": "3", "user": "Ada", "user.name": "Ada L." });
        let arguments: Map<String, Value> = serde_json::from_value(arguments).unwrap();
        let expected = json!({ "data": { "stages": "won", "size": "3" }, "user": { "name": "Ada L." } });
        assert_eq!(Value::Object(context(Some(&arguments))), expected);
    }

    #[test]
    fn prompt_has_one_argument_per_variable_of_the_fragment() {
        let fragment = json!({ "refName": "greeting", "content": "Hello {{user.name}}, {{ tone }} {{tone}}" });
        let prompt = to_prompt(&serde_json::from_value(fragment).unwrap());
        let names: Vec<String> = prompt.arguments.unwrap().into_iter().map(|argument| argument.name).collect();
        assert_eq!(names, ["user.name", "tone"]);
    }
}
