//! Requests of MCP clients, one method each. What only the conformance suite asks for is asked of the fixtures first.

#![expect(deprecated, reason = "older clients may set a log level")]

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

use super::news::{self, News};
use super::{Server, resources, session, unread, visitor};

/// How many sessions of older clients there may be at once: some two hundred megabytes.
const MOST_SESSIONS: usize = 1_500;

const INSTRUCTIONS: &str = "Tools of one realm of a Toolwright server, as far as your key may call them. Each result has \
    its receipt in `_meta`. Payloads are resources.";

/// What takes long is boxed: the library moves the future of a request several times, and it is as large as its largest part.
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
        if self.0.sessions.sessions.read().await.len() > MOST_SESSIONS {
            return Err(ErrorData::internal_error(
                "as many sessions are open as this server allows; try again later",
                None,
            ));
        }
        self.promise_news();
        cx.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        let server = self.clone();
        let visitor = visitor(&cx.extensions);
        self.engine().in_background(async move { news::tell(News::of(server, visitor).await, cx.peer).await });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.promise_news();
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, listener: SubscriptionContext) -> Result<(), ErrorData> {
        let visitor = visitor(&listener.request_context().extensions);
        Box::pin(news::tell_listener(News::of(self.clone(), visitor).await, &listener)).await;
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let (mut tools, next) = match visitor(&cx.extensions) {
            Some(session) => Box::pin(self.offer(&session)).await?.page(cursor.as_deref())?,
            None => Default::default(),
        };
        if let (Some(fixtures), None) = (&self.0.fixtures, &cursor) {
            tools.splice(0..0, fixtures.tools().iter().cloned());
        }
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        Ok(result)
    }

    /// Only where it can be known without knowing who asks.
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
        if self.0.fixtures.is_some() && visitor(&cx.extensions).is_none() {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        }
        Box::pin(self.call(&session(&cx)?, request, &cx)).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let (mut prompts, next) = match visitor(&cx.extensions) {
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
        let (mut resources, next) = match visitor(&cx.extensions) {
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
        match visitor(&cx.extensions) {
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
        let values = match visitor(&cx.extensions) {
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
        Err(unread::misread(&request))
    }
}

impl Server {
    /// Takes note of what has an effect on fixtures alone, which never change.
    fn only_fixtures(&self, otherwise: impl FnOnce() -> ErrorData) -> Result<(), ErrorData> {
        if self.0.fixtures.is_some() { Ok(()) } else { Err(otherwise()) }
    }
}
