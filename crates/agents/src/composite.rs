//! Calls to composite tools. A call starts a run that makes one call: to the tool of the selected operation. Approvals,
//! guardrails, limits and recovery work as in any run, and the result of the operation is the result of the call.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_catalog::{Session, Toolset, ToolsetMember, Unavailable, select_version};
use toolwright_machine::Limits;
use toolwright_machine::agent::PredefinedCall;
use toolwright_machine::journal::{CompositeCall, RunStart};
use toolwright_runs::{AnswerSchemas, PredefinedRun, RunSnapshot};
use toolwright_tools::executor::{Attempt, BackendReply};
use toolwright_tools::{CompiledOperation, CompiledTool, MappedParameters, ToolFailure, ToolReference};
use toolwright_types::{CallSource, ChildRun, ErrorCode, RealmScope, RunStatus, Surface, ToolEnvelope, ToolError};

use super::Agents;
use super::spec::{RunDraft, RunOrigin};

/// The reason code of an operation that is itself a composite tool.
const NESTED_COMPOSITE: &str = "nested_composite";

/// The call to an operation's tool that results from routing a call to a composite tool.
#[derive(Debug, Clone)]
pub struct RoutedCall {
    /// The slug of the operation.
    pub operation: String,
    /// The tool of the operation.
    pub tool: Arc<CompiledTool>,
    /// The reference to the tool in the definition of the composite tool.
    pub reference: ToolReference,
    /// The input of the tool.
    pub input: Value,
    /// Problems that did not stop the mapping of the parameters.
    pub warnings: Vec<String>,
}

impl Agents {
    /// Drafts the run of a call to a composite tool: routes the call and maps its parameters.
    pub(super) async fn draft_composite(
        &self,
        attempt: &Attempt<'_>,
        origin: RunOrigin,
    ) -> Result<Box<RunDraft>, ToolFailure> {
        let composite = attempt.tool;
        let routed = self.route_composite(&origin.realm, composite, attempt.input.clone()).await;
        // A retry would fail in the same way.
        let routed = routed.map_err(|error| ToolFailure { retryable: false, ..ToolFailure::from(error) })?;
        let RoutedCall { operation, tool, reference: ToolReference { version, .. }, input, warnings } = routed;
        let name = tool.definition.ref_name.to_string();
        let mut start = self.composite_start(composite, &origin, PredefinedCall { tool: name.clone(), input });
        start.composite = Some(Box::new(CompositeCall { tool_id: composite.id.clone(), operation }));
        start.warnings = warnings;
        if tool.starts_run() {
            start.agentic_tools.insert(name.clone());
        }
        start.version_requirements.extend(version.as_ref().map(|requirement| (name, requirement.to_string())));
        let tools = Arc::new(Toolset::new([ToolsetMember::from_catalog(tool, version)], None));
        let executor = self.0.runs.new_executor(&start, origin.scope(), tools, AnswerSchemas::default()).await;
        Ok(Box::new(RunDraft { origin, executor, start, at: self.0.runs.now(), message: String::new() }))
    }

    /// Selects the operation for an input of a composite tool and maps the parameters. Makes no call. The caller has
    /// applied the defaults of the input and validated it against the schema of the composite tool.
    pub async fn route_composite(
        &self,
        realm: &RealmScope,
        composite: &Arc<CompiledTool>,
        input: Value,
    ) -> Result<RoutedCall, ToolError> {
        let (input, position) = composite.route(input).await?;
        let operations = composite.composite().map(|config| config.operations()).unwrap_or_default();
        let operation = position.and_then(|position| operations.get(position));
        let not_composite = || denied("no_operation", "the tool has no operations".to_owned());
        let operation = operation.ok_or_else(not_composite)?;
        let tool = self.operation_tool(realm, operation).await?;
        let MappedParameters { input, warnings } = operation.parameters(&input, tool.input.source())?;
        let (operation, reference) = (operation.slug.clone(), operation.tool.clone());
        Ok(RoutedCall { operation, tool, reference, input, warnings })
    }

    /// Returns the tool of an operation, if it can be called.
    async fn operation_tool(
        &self,
        realm: &RealmScope,
        operation: &CompiledOperation,
    ) -> Result<Arc<CompiledTool>, ToolError> {
        let CompiledOperation { slug, tool: reference @ ToolReference { name, version }, .. } = operation;
        let versions = self.0.resolver.catalog.versions(realm, name).await.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "the tool of an operation cannot be read");
            ToolError::new(ErrorCode::Unknown, "the tool of the operation cannot be read")
        })?;
        let refused = |reason: &str, message: String| denied(reason, message).detail("operation", slug.as_str());
        let Some(tool) = select_version(&versions, version.as_ref()) else {
            return Err(refused("unknown_tool", format!("no tool `{reference}`, which operation `{slug}` calls")));
        };
        let definition = &tool.definition;
        if tool.composite().is_some() {
            let message =
                format!("operation `{slug}` is the composite tool `{name}`; an operation must be another tool");
            return Err(refused(NESTED_COMPOSITE, message));
        }
        if !definition.available_as.contains(&Surface::Tool) {
            let message = format!("tool `{}` is not available as `tool`", definition.ref_name);
            return Err(refused("not_available", message));
        }
        Ok(Arc::clone(tool))
    }

    /// Returns the highest price of one call in US dollars. For a composite tool, this is its own price plus the price
    /// of its most expensive operation. Returns `None` if a price depends on the response.
    pub(super) async fn highest_price_usd(
        &self,
        realm: &RealmScope,
        tool: &CompiledTool,
    ) -> Result<Option<f64>, Unavailable> {
        let mut highest = Some(0.0);
        for operation in tool.composite().map(|config| config.operations()).unwrap_or_default() {
            let versions = self.0.resolver.catalog.versions(realm, &operation.tool.name).await?;
            let found = select_version(&versions, operation.tool.version.as_ref());
            let price = found.map_or(Some(0.0), |tool| tool.highest_cost_usd());
            highest = highest.zip(price).map(|(most, price): (f64, f64)| most.max(price));
        }
        Ok(tool.highest_cost_usd().zip(highest).map(|(own, operation)| own + operation))
    }

    /// Returns the first entry of the run that calls the tool of the operation. The policy and the budget of the parent
    /// run also limit this run.
    fn composite_start(&self, composite: &CompiledTool, origin: &RunOrigin, call: PredefinedCall) -> RunStart {
        let session = Session {
            hops: origin.hops,
            correlation: origin.correlation.clone(),
            ..Session::new(Arc::clone(&origin.principal), Arc::clone(&origin.realm))
        };
        let parent = origin.parent.as_ref();
        let mut start = PredefinedRun {
            run: origin.run,
            subject: composite.definition.ref_name.to_string(),
            definition_hash: composite.content_hash.clone(),
            task: None,
            plan: vec![call],
            // A child run continues after a crash only if its parent does.
            durable: parent.is_some_and(|parent| parent.start.durable),
        }
        .begin(&session);
        let spec = &mut start.spec;
        spec.policy.side_effects = composite.effects;
        origin.restrict(&mut spec.policy);
        spec.limits = self.composite_limits(composite, origin, spec.limits);
        spec.approval_wait_ms = u64::try_from(self.0.settings.approval_wait.as_millis()).ok();
        spec.client_wait_ms = u64::try_from(self.0.settings.client_wait.as_millis()).ok();
        RunStart {
            owner: origin.owner.1.clone(),
            depth: parent.map_or(0, |parent| parent.start.depth.saturating_add(1)),
            parent: parent.map(|parent| parent.start.spec.run),
            parent_call: parent.map(|parent| parent.call.clone()),
            session: origin.session.clone(),
            ..start
        }
    }

    /// Returns the limits of the run, which include the budget of the parent run. The call to the operation's tool does
    /// not count as a tool call, because no model chose it.
    fn composite_limits(&self, composite: &CompiledTool, origin: &RunOrigin, limits: Limits) -> Limits {
        let platform = self.0.settings.platform;
        let timeout = Limits { timeout_ms: composite.definition.timeout_ms, ..limits };
        let limits = limits.tightest(timeout).tightest(Limits { max_iterations: u32::MAX, ..platform });
        let limits = Limits { max_tool_calls: limits.max_tool_calls.saturating_add(1), ..limits };
        match origin.parent.as_ref().and_then(|parent| parent.allowance) {
            None => limits,
            Some(allowance) => limits.tightest(Limits {
                max_iterations: u32::MAX,
                max_tool_calls: allowance.tool_calls.saturating_add(1),
                timeout_ms: allowance.time_ms,
                max_tokens: allowance.tokens,
                max_cost_usd: allowance.cost_usd,
            }),
        }
    }
}

fn denied(reason: &str, message: String) -> ToolError {
    ToolError::new(ErrorCode::PolicyDenied, message).reason(reason)
}

/// Returns the result of the call to the composite tool: the result of the operation.
pub(super) fn outcome(attempt: &Attempt<'_>, snapshot: &RunSnapshot) -> Result<BackendReply, ToolFailure> {
    let (run, start) = (&snapshot.run, &snapshot.start);
    let operation = start.composite.as_ref().map(|call| call.operation.clone());
    let usage = run.resource_usage();
    let child_run = Some(Box::new(ChildRun {
        run_id: run.id(),
        usage: usage.usage,
        tool_calls: usage.tool_calls.saturating_sub(1),
        operation: operation.clone(),
    }));
    let cost_usd = Some(usage.cost_usd);
    let envelope = run.envelopes_after(0).last().cloned();
    for message in envelope.iter().flat_map(|envelope| &envelope.metadata.messages) {
        attempt.messages.add(message);
    }
    match envelope {
        Some(envelope) if envelope.is_success() => {
            let warnings = warnings(snapshot, &envelope);
            let ToolEnvelope { output, truncated, attachments, metadata, .. } = envelope;
            let (http_status, headers) = (metadata.http_status, metadata.headers);
            Ok(BackendReply {
                output,
                truncated,
                attachments,
                http_status,
                headers,
                warnings,
                cost_usd,
                child_run,
                ..BackendReply::default()
            })
        }
        failed => {
            let http_status = failed.as_ref().and_then(|envelope| envelope.metadata.http_status);
            let error = failed.and_then(|envelope| envelope.error).unwrap_or_else(|| ended_without_call(snapshot));
            let error = error.detail("operation", operation).detail("runId", json!(run.id()));
            Err(ToolFailure { error, retryable: false, http_status, cost_usd, child_run })
        }
    }
}

/// Returns the warnings of the run and of its call.
fn warnings(snapshot: &RunSnapshot, envelope: &ToolEnvelope) -> Vec<String> {
    let own = snapshot.start.warnings.iter().chain(snapshot.run.warnings());
    let mut warnings: Vec<String> = own.chain(&envelope.metadata.warnings).cloned().collect();
    if envelope.metadata.source == Some(CallSource::Captured) {
        warnings.push("the operation was not executed, because this run captures its calls".to_owned());
    }
    warnings
}

/// The error of a run that ended before it called the operation.
fn ended_without_call(snapshot: &RunSnapshot) -> ToolError {
    let ending = snapshot.run.ending();
    let code = match ending.map(|ending| ending.status) {
        Some(RunStatus::Timeout) => ErrorCode::Timeout,
        Some(RunStatus::BudgetExceeded | RunStatus::MaxIterations) => ErrorCode::PolicyDenied,
        _ => ErrorCode::Unknown,
    };
    let message = ending.and_then(|ending| ending.message.clone());
    let reason = ending.and_then(|ending| ending.reason.as_deref()).unwrap_or("ended");
    ToolError::new(code, message.unwrap_or_else(|| "the run ended before the operation was called".to_owned()))
        .reason(reason)
}
