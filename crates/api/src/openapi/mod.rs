//! The OpenAPI document, generated from the handlers.

mod complete;

use toolwright_types::{AgentDefinition, PromptFragment, ToolDefinition, ToolProviderConfig, TypeDefinition};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::collection;
use crate::revisions;
use crate::routes::{
    agentic_tools, agents, ai_tools, approvals, blobs, composite_tools, conversations, costs, drift, effects, events,
    expressions, generated, gram, health, imports, inspection, journals, keys, materialize, mcp_imports, models,
    principals, providers, query, reach, readiness, realms, runs, secrets, server, tables, tool_exports, tools, trials,
    triggers, type_imports, undo, webhooks, workflow_runs, workflows,
};
use crate::state::AppState;

#[derive(OpenApi)]
#[openapi(
    info(title = "Toolwright", description = "A self-hosted runtime for agent tools."),
    modifiers(&ApiKey),
    security(("key" = [])),
    components(schemas(crate::problem::Problem)),
)]
struct Document;

struct ApiKey;

impl utoipa::Modify for ApiKey {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API key.")).build();
        let components = openapi.components.get_or_insert_with(Default::default);
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// Returns all routes with their OpenAPI descriptions.
pub(crate) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(collection::routes::<ToolDefinition>())
        .routes(routes!(generated::generate))
        .routes(routes!(generated::list))
        .routes(routes!(tools::execute))
        .routes(routes!(tools::validate))
        .routes(routes!(tools::export))
        .routes(routes!(ai_tools::list))
        .routes(routes!(ai_tools::get))
        .routes(routes!(tool_exports::tool))
        .routes(routes!(tool_exports::agentic_tool))
        .routes(routes!(tool_exports::composite_tool))
        .routes(routes!(tool_exports::all))
        .routes(routes!(tool_exports::invoke))
        .routes(routes!(readiness::tool))
        .routes(routes!(readiness::tool_uses))
        .merge(revisions::routes::<ToolDefinition>())
        .merge(imports::routes())
        .merge(type_imports::routes())
        .merge(agentic_tools::routes())
        .merge(composite_tools::routes())
        .merge(collection::routes::<AgentDefinition>())
        .routes(routes!(agents::execute))
        .routes(routes!(agents::execute_stream))
        .routes(routes!(agents::execute_durable))
        .routes(routes!(agents::tools))
        .routes(routes!(costs::get))
        .merge(revisions::routes::<AgentDefinition>())
        .merge(collection::routes::<PromptFragment>())
        .merge(revisions::routes::<PromptFragment>())
        .routes(routes!(runs::list))
        .routes(routes!(runs::query))
        .routes(routes!(runs::count))
        .routes(routes!(runs::get, runs::delete))
        .routes(routes!(runs::events))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::decide))
        .routes(routes!(runs::tool_results))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::decide_many))
        .routes(routes!(inspection::journal))
        .routes(routes!(inspection::state))
        .routes(routes!(inspection::tree))
        .routes(routes!(journals::verify))
        .routes(routes!(journals::export))
        .routes(routes!(journals::replay))
        .routes(routes!(journals::diff))
        .routes(routes!(journals::fork))
        .routes(routes!(trials::list, trials::start))
        .routes(routes!(trials::get))
        .routes(routes!(trials::report))
        .routes(routes!(undo::undo))
        .routes(routes!(materialize::materialize_run))
        .routes(routes!(effects::list))
        .routes(routes!(effects::get))
        .routes(routes!(effects::resolve))
        .routes(routes!(effects::undo))
        .routes(routes!(conversations::list))
        .routes(routes!(conversations::query))
        .routes(routes!(conversations::count))
        .routes(routes!(conversations::get, conversations::update, conversations::delete))
        .routes(routes!(conversations::continue_conversation))
        .merge(collection::routes::<ToolProviderConfig>())
        .routes(routes!(providers::test))
        .routes(routes!(readiness::provider))
        .routes(routes!(readiness::provider_uses))
        .merge(revisions::routes::<ToolProviderConfig>())
        .merge(collection::routes::<TypeDefinition>())
        .merge(revisions::routes::<TypeDefinition>())
        .merge(workflows::routes())
        .merge(workflow_runs::routes())
        .merge(triggers::routes())
        .merge(webhooks::routes())
        .routes(routes!(query::root_types))
        .routes(routes!(query::plan))
        .routes(routes!(query::find))
        .routes(routes!(query::count))
        .routes(routes!(query::save))
        .routes(routes!(query::delete))
        .routes(routes!(query::delete_many))
        .routes(routes!(tables::import))
        .routes(routes!(tables::export, tables::export_by_link))
        .routes(routes!(providers::sync))
        .routes(routes!(providers::reference_data))
        .routes(routes!(mcp_imports::import))
        .routes(routes!(mcp_imports::discover))
        .routes(routes!(mcp_imports::accept))
        .routes(routes!(drift::list))
        .routes(routes!(drift::accept))
        .routes(routes!(events::listen))
        .routes(routes!(secrets::list, secrets::put))
        .routes(routes!(secrets::remove))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(realms::list, realms::create))
        .routes(routes!(realms::whoami))
        .routes(routes!(principals::list))
        .routes(routes!(models::list))
        .routes(routes!(server::get))
        .routes(routes!(reach::get))
        .routes(routes!(expressions::jsonpath))
        .routes(routes!(expressions::evaluate))
        .routes(routes!(gram::parse))
        .routes(routes!(gram::apply))
        .routes(routes!(gram::schema))
        .routes(routes!(gram::query))
        .routes(routes!(blobs::get))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::error_page))
}

/// The document as JSON, identical on every machine.
pub(crate) fn text(document: &utoipa::openapi::OpenApi) -> String {
    // Serialization of an OpenAPI document cannot fail.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    complete::complete(&mut document);
    format!("{document:#}\n")
}
