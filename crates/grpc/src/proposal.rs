//! Proposes tools for the methods of services.

use prost_reflect::{DescriptorPool, MethodDescriptor};
use prost_types::method_options::IdempotencyLevel;
use toolwright_types::{JsonSchema, RefName, SideEffects, ToolDefinition, ToolType};

use crate::schema::{leading_comment, list_schema, message_schema};

/// The options of an import.
#[derive(Debug, Clone, Default)]
pub struct GrpcImportOptions {
    /// The provider of the tools.
    pub provider: String,
    /// The full names of the services to import. All services if empty.
    pub services: Vec<String>,
    /// The prefix of tool names. `None` uses the provider's name, an empty string uses no prefix.
    pub prefix: Option<String>,
}

/// The tools for the methods of services.
#[derive(Debug, Default)]
pub struct GrpcProposal {
    /// One tool for each supported method.
    pub tools: Vec<ToolDefinition>,
    /// The methods that cannot become tools.
    pub skipped: Vec<SkippedMethod>,
}

/// A method that cannot become a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedMethod {
    /// The full name, as `package.Service/Method`.
    pub method: String,
    /// The reason.
    pub reason: String,
}

/// Proposes one tool for each method. A tool has the name of its method. If two methods have the same name, the names
/// of their tools also contain the service.
pub fn propose_tools(pool: &DescriptorPool, options: &GrpcImportOptions) -> GrpcProposal {
    let mut proposal = GrpcProposal::default();
    let selected = |name: &str| options.services.is_empty() || options.services.iter().any(|service| service == name);
    let services = pool.services().filter(|service| selected(service.full_name()));
    let methods: Vec<MethodDescriptor> = services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    for method in &methods {
        let full_name = format!("{}/{}", method.parent_service().full_name(), method.name());
        if method.is_client_streaming() {
            let reason = "client streaming is not supported: a tool sends one message".to_owned();
            proposal.skipped.push(SkippedMethod { method: full_name, reason });
            continue;
        }
        let ambiguous = methods.iter().filter(|other| other.name() == method.name()).count() > 1;
        match build_tool(method, ambiguous, options) {
            Ok(tool) => proposal.tools.push(tool),
            Err(reason) => proposal.skipped.push(SkippedMethod { method: full_name, reason }),
        }
    }
    proposal
}

/// Builds the tool of a method. Returns an error if the method is not supported.
fn build_tool(
    method: &MethodDescriptor,
    ambiguous: bool,
    options: &GrpcImportOptions,
) -> Result<ToolDefinition, String> {
    let service = method.parent_service();
    let prefix = options.prefix.as_deref().unwrap_or(&options.provider);
    let own = match ambiguous {
        true => format!("{}.{}", service.full_name(), method.name()),
        false => method.name().to_owned(),
    };
    let name = if prefix.is_empty() { own } else { format!("{prefix}/{own}") };
    let name: RefName = name.parse().map_err(|error| format!("`{name}` is not a valid tool name: {error}"))?;
    let mut tool = ToolDefinition::new(name, ToolType::Grpc);
    let comment = leading_comment(service.parent_file().file_descriptor_proto(), method.path());
    let fallback = || format!("Calls `{}` of `{}`.", method.name(), service.full_name());
    tool.description = Some(comment.unwrap_or_else(fallback));
    tool.provider_ref = Some(options.provider.clone());
    tool.category = Some(service.full_name().to_owned());
    tool.invocation.path = Some(format!("{}/{}", service.full_name(), method.name()));
    tool.input_json_schema = Some(JsonSchema(message_schema(&method.input())));
    let output = method.output();
    let output = if method.is_server_streaming() { list_schema(&output) } else { message_schema(&output) };
    tool.output_json_schema = Some(JsonSchema(output));
    let level = method.method_descriptor_proto().options.as_ref().map(|options| options.idempotency_level());
    (tool.side_effects, tool.idempotent) = match level {
        Some(IdempotencyLevel::NoSideEffects) => (Some(SideEffects::Reads), true),
        Some(IdempotencyLevel::Idempotent) => (Some(SideEffects::Writes), true),
        // The descriptor does not declare the side effects. Without a declaration, the method is assumed to write.
        _ => (Some(SideEffects::Writes), false),
    };
    Ok(tool)
}
