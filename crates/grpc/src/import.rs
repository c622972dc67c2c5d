//! Tools for the methods of services.

use prost_reflect::{DescriptorPool, MethodDescriptor};
use prost_types::method_options::IdempotencyLevel;
use toolwright_types::{JsonSchema, RefName, SideEffects, ToolDefinition, ToolType};

use crate::schema::{comment, list_of, schema};

/// Which methods, and under which names.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The provider that the tools live in.
    pub provider: String,
    /// Services by their full names; all when empty.
    pub services: Vec<String>,
    /// What stands before the `/` of the names of tools; the provider when absent.
    pub prefix: Option<String>,
}

/// What became of the methods.
#[derive(Debug, Default)]
pub struct Imported {
    /// A tool for each method that one can be made of.
    pub tools: Vec<ToolDefinition>,
    /// The others, and why.
    pub skipped: Vec<(String, String)>,
}

/// Makes a tool of each method. Names are those of the method, with the service's where two would be the same.
pub fn tools(pool: &DescriptorPool, options: &ImportOptions) -> Imported {
    let mut imported = Imported::default();
    let wanted = |name: &str| options.services.is_empty() || options.services.iter().any(|service| service == name);
    let services = pool.services().filter(|service| wanted(service.full_name()));
    let methods: Vec<MethodDescriptor> = services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    for method in &methods {
        let full = format!("{}/{}", method.parent_service().full_name(), method.name());
        if method.is_client_streaming() {
            imported.skipped.push((full, "it wants a stream of messages, and a tool sends one".to_owned()));
            continue;
        }
        let shared = methods.iter().filter(|other| other.name() == method.name()).count() > 1;
        match definition(method, shared, options) {
            Ok(tool) => imported.tools.push(tool),
            Err(why) => imported.skipped.push((full, why)),
        }
    }
    imported
}

fn definition(method: &MethodDescriptor, shared: bool, options: &ImportOptions) -> Result<ToolDefinition, String> {
    let service = method.parent_service();
    let prefix = options.prefix.as_deref().unwrap_or(&options.provider);
    let own = match shared {
        true => format!("{}.{}", service.full_name(), method.name()),
        false => method.name().to_owned(),
    };
    let name = if prefix.is_empty() { own } else { format!("{prefix}/{own}") };
    let name: RefName = name.parse().map_err(|error| format!("`{name}` cannot be the name of a tool: {error}"))?;
    let mut tool = ToolDefinition::new(name, ToolType::Grpc);
    let said = comment(service.parent_file().file_descriptor_proto(), method.path());
    tool.description = Some(said.unwrap_or_else(|| format!("Calls `{}` of `{}`.", method.name(), service.full_name())));
    tool.provider_ref = Some(options.provider.clone());
    tool.category = Some(service.full_name().to_owned());
    tool.invocation.path = Some(format!("{}/{}", service.full_name(), method.name()));
    tool.input_json_schema = Some(JsonSchema(schema(&method.input())));
    let output = if method.is_server_streaming() { list_of(&method.output()) } else { schema(&method.output()) };
    tool.output_json_schema = Some(JsonSchema(output));
    let level = method.method_descriptor_proto().options.as_ref().map(|options| options.idempotency_level());
    (tool.side_effects, tool.idempotent) = match level {
        Some(IdempotencyLevel::NoSideEffects) => (Some(SideEffects::Reads), true),
        Some(IdempotencyLevel::Idempotent) => (Some(SideEffects::Writes), true),
        // What a method does is not in its description; to take it for harmless would be a guess.
        _ => (Some(SideEffects::Writes), false),
    };
    Ok(tool)
}
