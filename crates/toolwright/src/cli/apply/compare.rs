//! Compares a definition in a file with the stored one. Fields that the server manages or derives are ignored.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolwright_types::{
    AgentDefinition, ConditionBinding, PromptFragment, SideEffects, StepRegistration, ToolDefinition,
    ToolProviderConfig, TriggerDefinition, TypeDefinition, WebhookDefinition, WorkflowDefinition,
};

use crate::cli::definitions::ResourceKind;

impl ResourceKind {
    /// Returns whether writing `sent` would leave the definition in `view` unchanged. An absent field counts as its
    /// default value, so removing a field from a file can be a change.
    pub(in crate::cli) fn is_unchanged(self, sent: &Value, view: &Value) -> bool {
        match self {
            ResourceKind::Tool => equal_when_parsed(normalized_tool, sent, view),
            ResourceKind::Provider => equal_when_parsed(parse_authored::<ToolProviderConfig>, sent, view),
            ResourceKind::Fragment => equal_when_parsed(parse_authored::<PromptFragment>, sent, view),
            ResourceKind::Type => equal_when_parsed(normalized_type, sent, view),
            ResourceKind::Agent => equal_when_parsed(parse_authored::<AgentDefinition>, sent, view),
            ResourceKind::Workflow => equal_when_parsed(normalized_workflow, sent, view),
            ResourceKind::StepRegistration => equal_when_parsed(parse_named::<StepRegistration>, sent, view),
            ResourceKind::ConditionBinding => equal_when_parsed(parse_named::<ConditionBinding>, sent, view),
            ResourceKind::Trigger => equal_when_parsed(parse_authored::<TriggerDefinition>, sent, view),
            ResourceKind::Webhook => equal_when_parsed(parse_authored::<WebhookDefinition>, sent, view),
        }
    }

    /// Returns the fields of a definition with all defaults, for a diff. A definition that does not parse is returned
    /// with the fields that its author wrote.
    pub(in crate::cli) fn normalized(self, body: &Value) -> Value {
        let normalized = match self {
            ResourceKind::Tool => normalized_tool(body).and_then(to_value),
            ResourceKind::Provider => parse_authored::<ToolProviderConfig>(body).and_then(to_value),
            ResourceKind::Fragment => parse_authored::<PromptFragment>(body).and_then(to_value),
            ResourceKind::Type => normalized_type(body).and_then(to_value),
            ResourceKind::Agent => parse_authored::<AgentDefinition>(body).and_then(to_value),
            ResourceKind::Workflow => normalized_workflow(body).and_then(to_value),
            ResourceKind::StepRegistration => parse_named::<StepRegistration>(body).and_then(to_value),
            ResourceKind::ConditionBinding => parse_named::<ConditionBinding>(body).and_then(to_value),
            ResourceKind::Trigger => parse_authored::<TriggerDefinition>(body).and_then(to_value),
            ResourceKind::Webhook => parse_authored::<WebhookDefinition>(body).and_then(to_value),
        };
        normalized.or_else(|| authored_fields(body)).unwrap_or_default()
    }
}

fn to_value(definition: impl Serialize) -> Option<Value> {
    serde_json::to_value(definition).ok()
}

fn equal_when_parsed<T: PartialEq>(read: impl Fn(&Value) -> Option<T>, sent: &Value, view: &Value) -> bool {
    read(sent).is_some_and(|sent| read(view) == Some(sent))
}

/// Parses a tool and fills in derived fields, as the server does in its views.
fn normalized_tool(body: &Value) -> Option<ToolDefinition> {
    let mut tool: ToolDefinition = parse_authored(body)?;
    let effects = tool.effects();
    tool.name.get_or_insert_with(|| tool.ref_name.to_string());
    tool.side_effects = Some(effects);
    tool.has_side_effects = Some(effects == SideEffects::Writes);
    Some(tool)
}

/// Parses an entity type and fills in its name, as the server does in its views.
fn normalized_type(body: &Value) -> Option<TypeDefinition> {
    let mut definition: TypeDefinition = parse_authored(body)?;
    definition.name.get_or_insert_with(|| definition.ref_name.to_string());
    Some(definition)
}

/// Parses a workflow and fills in its name, as the server does in its views.
fn normalized_workflow(body: &Value) -> Option<WorkflowDefinition> {
    let mut workflow: WorkflowDefinition = parse_authored(body)?;
    workflow.name.get_or_insert_with(|| workflow.ref_name.to_string());
    Some(workflow)
}

/// Parses a definition whose reference name is stored in the field `name`.
fn parse_named<T: DeserializeOwned>(body: &Value) -> Option<T> {
    let mut fields = authored_fields(body)?;
    let fields_by_name = fields.as_object_mut()?;
    if let Some(ref_name) = fields_by_name.shift_remove("refName") {
        fields_by_name.insert("name".into(), ref_name);
    }
    serde_json::from_value(fields).ok()
}

/// Parses only those fields of a definition that its author writes.
fn parse_authored<T: DeserializeOwned>(body: &Value) -> Option<T> {
    serde_json::from_value(authored_fields(body)?).ok()
}

/// Returns the fields that authors write, without those that the server manages.
pub(in crate::cli) fn authored_fields(body: &Value) -> Option<Value> {
    let mut fields = body.as_object()?.clone();
    fields.retain(|name, value| !toolwright_types::MANAGED_FIELDS.contains(&name.as_str()) && !value.is_null());
    if let (None, Some(name)) = (fields.get("refName"), fields.get("name").cloned()) {
        fields.insert("refName".into(), name);
    }
    Some(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view() -> Value {
        json!({
            "id": "tool_01", "source": "manual", "revision": 3, "contentHash": "h", "createdBy": "admin", "updatedBy": "admin",
            "refName": "t", "name": "t", "description": "d", "version": "1.0.0", "status": "active",
            "inputJsonSchema": { "type": "object", "properties": { "a": { "type": "string", "minLength": 1 } } },
            "toolType": "FUNCTION", "invocation": { "path": "echo" }, "hasSideEffects": false, "sideEffects": "reads",
            "idempotent": false, "enabled": true,
        })
    }

    fn sent() -> Value {
        json!({
            "refName": "t", "description": "d", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "category": null,
            "inputJsonSchema": "{\"type\":\"object\",\"properties\":{\"a\":{\"minLength\":1,\"type\":\"string\"}}}",
        })
    }

    #[test]
    fn tool_that_differs_only_in_defaults_and_field_order_counts_as_unchanged() {
        assert!(normalized_tool(&view()).is_some(), "the view must parse");
        assert!(ResourceKind::Tool.is_unchanged(&sent(), &view()));
    }

    #[test]
    fn tool_with_a_different_or_removed_field_is_changed() {
        for (pointer, value) in [
            ("/description", json!("other")),
            ("/description", Value::Null),
            ("/inputJsonSchema", json!({ "type": "object", "properties": { "a": { "type": "string" } } })),
            ("/invocation", json!({ "path": "sayHello" })),
            ("/toolType", json!("NONSENSE")),
        ] {
            let mut body = sent();
            *body.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!ResourceKind::Tool.is_unchanged(&body, &view()), "{pointer} = {value}");
        }
    }

    #[test]
    fn provider_that_differs_only_in_defaults_counts_as_unchanged() {
        let view = json!({ "id": "p", "refName": "p", "providerType": "REST", "baseUrl": "http://h", "auth": { "authType": "none" },
            "enabled": true, "autoDiscoverTools": false });
        assert!(parse_authored::<ToolProviderConfig>(&view).is_some(), "the view must parse");
        assert!(ResourceKind::Provider.is_unchanged(&json!({ "refName": "p", "baseUrl": "http://h" }), &view));
        assert!(
            !ResourceKind::Provider
                .is_unchanged(&json!({ "refName": "p", "baseUrl": "http://h", "maxRetries": 1 }), &view)
        );
    }

    #[test]
    fn agent_type_or_fragment_that_differs_only_in_defaults_counts_as_unchanged() {
        let view = json!({ "id": "agt_1", "source": "manual", "revision": 1, "refName": "a", "systemPrompt": "help",
            "llmConfig": {}, "responseFormat": "text", "requiresApproval": false, "enabled": true });
        assert!(ResourceKind::Agent.is_unchanged(&json!({ "refName": "a", "systemPrompt": "help" }), &view));
        assert!(
            !ResourceKind::Agent
                .is_unchanged(&json!({ "refName": "a", "systemPrompt": "help", "requiresApproval": true }), &view)
        );
        let view =
            json!({ "id": "type_1", "refName": "T", "name": "T", "excludeOperations": ["delete"], "jsonSchema": {} });
        assert!(
            ResourceKind::Type
                .is_unchanged(&json!({ "name": "T", "excludeOperations": ["DELETE"], "jsonSchema": "{}" }), &view)
        );
        assert!(!ResourceKind::Type.is_unchanged(&json!({ "name": "T", "jsonSchema": {} }), &view));
        let view = json!({ "id": "frg_1", "refName": "f", "content": "text" });
        assert!(ResourceKind::Fragment.is_unchanged(&json!({ "refName": "f", "content": "text" }), &view));
        assert!(!ResourceKind::Fragment.is_unchanged(&json!({ "refName": "f", "content": "other" }), &view));
    }

    #[test]
    fn workflow_or_its_parts_that_differ_only_in_defaults_count_as_unchanged() {
        let view = json!({ "id": "wf_1", "source": "manual", "revision": 1, "refName": "w", "name": "w", "version": "1.0.0",
            "status": "active", "steps": [{ "name": "a", "handlerRef": "echo", "timeout": "1m" }], "durable": true, "enabled": true });
        let steps = json!([{ "handlerRef": "echo", "name": "a", "timeout": "60s", "onError": "fail" }]);
        assert!(ResourceKind::Workflow.is_unchanged(&json!({ "name": "w", "steps": steps }), &view));
        assert!(!ResourceKind::Workflow.is_unchanged(&json!({ "name": "w", "steps": steps, "durable": false }), &view));
        let view =
            json!({ "id": "step_1", "refName": "s", "name": "s", "toolRef": "echo", "enabled": true, "revision": 1 });
        for sent in [json!({ "name": "s", "toolRef": "echo" }), json!({ "refName": "s", "toolRef": "echo" })] {
            assert!(ResourceKind::StepRegistration.is_unchanged(&sent, &view), "{sent}");
        }
        assert!(!ResourceKind::StepRegistration.is_unchanged(&json!({ "name": "s", "toolRef": "other" }), &view));
        let view = json!({ "id": "cond_1", "refName": "c", "name": "c", "condition": "${input.ok}", "revision": 1 });
        assert!(
            ResourceKind::ConditionBinding.is_unchanged(&json!({ "name": "c", "condition": "${input.ok}" }), &view)
        );
        assert!(
            !ResourceKind::ConditionBinding.is_unchanged(&json!({ "name": "c", "condition": "${input.no}" }), &view)
        );
    }
}
