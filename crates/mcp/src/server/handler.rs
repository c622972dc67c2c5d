//! Implements rmcp's server handler, with one method per type of request. If fixtures are enabled, they are checked
//! first.

#![expect(deprecated, reason = "clients of older revisions may set a log level")]

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo, CustomRequest,
    CustomResult, GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams, InitializeResult,
    JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, Reference, ServerCapabilities,
    ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestMethod, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::list_changes::{self, ListWatcher};
use super::{Server, invalid_message, optional_session, resources, session};

/// The maximum number of open MCP sessions. Together they use about 200 MB.
const MAX_SESSIONS: usize = 1_500;

const INSTRUCTIONS: &str = "The tools of one realm of a Toolwright server that your API key may call. Each result has \
    its envelope in `_meta`. Payloads are resources.";

/// Large futures are boxed, because rmcp moves the future of a request several times, and that future is as large as
/// its largest branch.
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_completions()
            .build();
        if self.0.fixtures.is_some() {
            capabilities.logging = Some(JsonObject::new());
            if let Some(resources) = &mut capabilities.resources {
                resources.subscribe = Some(true);
            }
        }
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolwright", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if self.0.sessions.sessions.read().await.len() > MAX_SESSIONS {
            return Err(ErrorData::internal_error("too many sessions are open; retry later", None));
        }
        self.watch_generations();
        cx.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        let server = self.clone();
        let optional_session = optional_session(&cx.extensions);
        self.engine().spawn_background(async move {
            list_changes::notify_session(ListWatcher::new(server, optional_session).await, cx.peer).await
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.watch_generations();
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, subscriber: SubscriptionContext) -> Result<(), ErrorData> {
        let optional_session = optional_session(&subscriber.request_context().extensions);
        Box::pin(list_changes::notify_subscriber(ListWatcher::new(self.clone(), optional_session).await, &subscriber))
            .await;
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let (mut tools, next) = match optional_session(&cx.extensions) {
            Some(session) => Box::pin(self.tool_listing(&session)).await?.page(cursor.as_deref())?,
            None => Default::default(),
        };
        if let (Some(fixtures), None) = (&self.0.fixtures, &cursor) {
            tools.splice(0..0, fixtures.tools().iter().cloned());
        }
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        result.meta = Some(self.deployment_meta());
        Ok(result)
    }

    /// Only fixture tools can be returned, because this method does not receive the session.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.fixtures.as_ref()?.tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(fixtures) = self.0.fixtures.as_ref().filter(|fixtures| fixtures.has_tool(&request.name)) {
            return Box::pin(fixtures.call(request, &cx)).await;
        }
        if self.0.fixtures.is_some() && optional_session(&cx.extensions).is_none() {
            return Err(ErrorData::invalid_params(format!("tool `{}` does not exist", request.name), None));
        }
        Box::pin(self.call(&session(&cx)?, request, &cx)).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let (mut prompts, next) = match optional_session(&cx.extensions) {
            Some(session) => Box::pin(self.prompts(&session, cursor.as_deref())).await?,
            None => Default::default(),
        };
        if let (Some(fixtures), None) = (&self.0.fixtures, &cursor) {
            prompts.splice(0..0, fixtures.prompts());
        }
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(prompt) = self.0.fixtures.as_ref().and_then(|fixtures| fixtures.prompt(&request)) {
            return prompt;
        }
        Ok(Box::pin(self.prompt(&session(&cx)?, &request)).await?.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let (mut resources, next) = match optional_session(&cx.extensions) {
            Some(session) => Box::pin(self.resources(&session, cursor.as_deref())).await?,
            None => Default::default(),
        };
        if let (Some(fixtures), None) = (&self.0.fixtures, &cursor) {
            resources.splice(0..0, fixtures.resources());
        }
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut templates = resources::templates();
        templates.extend(self.0.fixtures.as_ref().map(|fixtures| fixtures.template()));
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if let Some(contents) = self.0.fixtures.as_ref().and_then(|fixtures| fixtures.resource(&request.uri)) {
            return Ok(contents.into());
        }
        match optional_session(&cx.extensions) {
            Some(session) => Ok(Box::pin(self.resource(&session, &request.uri)).await?.into()),
            None => Err(resources::not_found(&request.uri)),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let about_runs = matches!(&request.r#ref, Reference::Resource(resource) if resource.uri.contains("/runs/"));
        let values = match optional_session(&cx.extensions) {
            Some(session) if about_runs => Box::pin(self.run_ids(&session, &request.argument.value)).await?,
            _ => Vec::new(),
        };
        let values = CompletionInfo::with_all_values(values);
        Ok(CompleteResult::new(values.map_err(|error| ErrorData::internal_error(error, None))?))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.only_fixtures(ErrorData::method_not_found::<SetLevelRequestMethod>)
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.only_fixtures(ErrorData::method_not_found::<SubscribeRequestMethod>)
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.only_fixtures(ErrorData::method_not_found::<UnsubscribeRequestMethod>)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(invalid_message::unknown_request_error(&request))
    }
}

impl Server {
    /// Accepts a request that has an effect only on fixtures, such as a resource subscription. Nothing has to be done,
    /// because fixture resources never change. If fixtures are disabled, returns the error of `otherwise`.
    fn only_fixtures(&self, otherwise: impl FnOnce() -> ErrorData) -> Result<(), ErrorData> {
        if self.0.fixtures.is_some() { Ok(()) } else { Err(otherwise()) }
    }
}
