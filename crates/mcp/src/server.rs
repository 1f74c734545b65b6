//! The protocol's side: what is asked for, and what it is answered with.

use super::{
    interface::{Here, Interface, Way},
    prompts,
    renewals::Renewals,
    resources,
    tools::{self, TOOLS},
};
use rmcp::{
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
        GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, ResourceContents, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    ErrorData, RoleServer, ServerHandler,
};
use std::sync::Arc;

/// What every agent is told first.
const INSTRUCTIONS: &str = "\
Duramen leases branches: disposable, writable copies of PostgreSQL databases. Make one with branch_create, work in it with describe, \
query and explain, and give it back with branch_destroy. Nothing that you do in a branch reaches its source. A branch that is not used \
for a while ends by itself.";

/// Serves agents, all by the same way.
#[derive(Debug, Clone)]
pub struct Server {
    way: Way,
    renewals: Arc<Renewals>,
}

impl Server {
    pub(super) fn new(way: Way) -> Server {
        Server { way, renewals: Arc::default() }
    }

    /// One in the daemon itself.
    #[must_use]
    pub fn here(here: Arc<dyn Here>) -> Server {
        Server::new(Way::Here(here))
    }
}

/// Waits for work until the agent takes its request back, or its connection ends: then the work is dropped, and with it the
/// statement that runs for it (M6).
async fn until_taken_back<T>(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = T>,
) -> Result<T, ErrorData> {
    tokio::select! {
        result = work => Ok(result),
        () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was taken back", None)),
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("duramen", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let interface = self.way.for_request(&context)?;
        let work = tools::call(&interface, &self.renewals, &request.name, request.arguments);
        let result = match until_taken_back(&context, work).await? {
            Some(Ok(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Some(Err(failure)) => CallToolResult::error(vec![ContentBlock::text(failure.to_string())]),
            None => {
                let message = format!("there is no tool {:?}; tools/list has all", request.name);
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let interface: Interface = self.way.for_request(&context)?;
        let found = until_taken_back(&context, resources::list(&interface)).await?;
        found
            .map(ListResourcesResult::with_all_items)
            .map_err(|error| ErrorData::internal_error(tools::Failure::from(error).to_string(), None))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let interface = self.way.for_request(&context)?;
        match until_taken_back(&context, resources::read(&interface, &request.uri)).await? {
            Some(Ok((text, media))) => {
                let contents = ResourceContents::text(text, request.uri).with_mime_type(media);
                Ok(ReadResourceResult::new(vec![contents]).into())
            }
            Some(Err(failure)) => Err(ErrorData::resource_not_found(failure.to_string(), None)),
            None => Err(ErrorData::resource_not_found("there is no such resource", None)),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request.name, request.arguments.as_ref())
            .map(Into::into)
            .map_err(|what| ErrorData::invalid_params(what, None))
    }
}
