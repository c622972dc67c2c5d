//! Builds the envelope of a call while the call is prepared and performed.

use std::collections::BTreeMap;

use serde_json::Value;
use toolwright_types::{
    CallId, CallMetadata, CallSource, ChildRun, ErrorCode, ExecutionSite, NestedCall, ResolvedInput, SchemaDifference,
    Timestamp, ToolEnvelope, ToolError, round_usd,
};

use super::CallRequest;
use super::cache::CachedResult;
use super::call_messages;
use super::redact::Redactor;
use super::references::Resolution;
use super::secrets::IdentifiedSecrets;
use super::truncate::BoundedOutput;
use crate::{CallContext, CompiledTool};

/// The name of the library of built-in functions.
pub(crate) const BUILTIN_LIBRARY: &str = "builtin";

/// The envelope of a call whose outcome is not known yet.
#[derive(Debug)]
pub(super) struct EnvelopeBuilder {
    envelope: ToolEnvelope,
    /// The differences between the output and its schema.
    drift: Vec<SchemaDifference>,
    /// Messages about names in the input that do not occur in the reference data.
    unknown_names: Vec<String>,
}

impl EnvelopeBuilder {
    pub(super) fn new(
        cx: &CallContext,
        request: &CallRequest,
        tool: Option<&CompiledTool>,
        call_id: CallId,
        t_start: Timestamp,
    ) -> Self {
        let metadata = CallMetadata {
            principal: Some(cx.principal.name.to_string()),
            execution_site: Some(ExecutionSite::Server),
            warnings: tool.map(CompiledTool::lifecycle_warnings).unwrap_or_default(),
            ..CallMetadata::default()
        };
        Self {
            drift: Vec::new(),
            unknown_names: Vec::new(),
            envelope: ToolEnvelope {
                call_id,
                name: request.tool_name(tool),
                version: tool.map(|tool| tool.definition.version.to_string()).unwrap_or_default(),
                input: request.input.clone(),
                output: Value::Null,
                error: None,
                t_start,
                t_end: t_start,
                cached: false,
                truncated: false,
                attachments: Vec::new(),
                metadata,
            },
        }
    }

    pub(super) fn call_id(&self) -> &CallId {
        &self.envelope.call_id
    }

    pub(super) fn set_start(&mut self, at: Timestamp) {
        self.envelope.t_start = at;
    }

    pub(super) fn set_call_id(&mut self, call_id: CallId) {
        self.envelope.call_id = call_id;
    }

    pub(super) fn set_child_run(&mut self, child_run: Option<Box<ChildRun>>) {
        self.envelope.metadata.child_run = child_run;
    }

    pub(super) fn set_cost(&mut self, cost_usd: Option<f64>) {
        self.envelope.metadata.cost_usd = cost_usd;
    }

    pub(super) fn add_cost(&mut self, usd: f64) {
        let cost = &mut self.envelope.metadata.cost_usd;
        *cost = Some(round_usd(cost.unwrap_or(0.0) + usd));
    }

    pub(super) fn set_policy(&mut self, policy: String) {
        self.envelope.metadata.policy_id = Some(policy);
    }

    pub(super) fn set_secret_scope(&mut self, identified: &IdentifiedSecrets) {
        self.envelope.metadata.secret_scope = identified.widest_scope().map(str::to_owned);
    }

    /// Records which function of which library runs, for the journal. Built-in functions are not recorded, because they
    /// have only one version. Tools with code are not recorded either, because their definition contains the code.
    pub(super) fn set_implementation(&mut self, implementation: Option<&str>) {
        let implementation_name =
            implementation.filter(|name| name.contains('@') && !name.starts_with(BUILTIN_LIBRARY));
        if self.envelope.metadata.implementation.is_none() {
            self.envelope.metadata.implementation = implementation_name.map(str::to_owned);
        }
    }

    pub(super) fn set_drift(&mut self, drift: Vec<SchemaDifference>) {
        self.drift = drift;
    }

    pub(super) fn take_drift(&mut self) -> Vec<SchemaDifference> {
        std::mem::take(&mut self.drift)
    }

    /// Records the names that were resolved to ids, and the warnings about names that were not resolved.
    pub(super) fn set_resolved_inputs(&mut self, names: Resolution) {
        self.envelope.metadata.warnings.extend(names.warnings);
        self.unknown_names = names.unknown_names;
        self.envelope.metadata.resolved_inputs = names.inputs;
    }

    pub(super) fn resolved_inputs(&self) -> &BTreeMap<String, ResolvedInput> {
        &self.envelope.metadata.resolved_inputs
    }

    pub(super) fn set_attempts(&mut self, attempts: u32) {
        self.envelope.metadata.attempt = attempts;
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.envelope.metadata.warnings.push(warning.into());
    }

    pub(super) fn add_messages(&mut self, messages: impl IntoIterator<Item = String>) {
        self.envelope.metadata.messages.extend(messages);
    }

    pub(super) fn set_http(&mut self, status: Option<u16>, headers: BTreeMap<String, String>) {
        self.envelope.metadata.http_status = status;
        self.envelope.metadata.headers = headers;
    }

    /// Completes the envelope of an interrupted write that a later check confirmed.
    pub(super) fn confirmed(mut self, output: Value, t_end: Timestamp) -> ToolEnvelope {
        self.envelope.output = output;
        self.envelope.t_end = t_end;
        self.envelope.metadata.attempt = 1;
        self.warn("the server stopped during this call; a later check confirmed that it took effect");
        self.envelope
    }

    /// Sets the name in the envelope, if the called tool replaces another tool. `name` is the name of the replaced
    /// tool, and the called tool is recorded as the implementation.
    pub(super) fn set_name(&mut self, name: &str) {
        let own = std::mem::replace(&mut self.envelope.name, name.to_owned());
        if own != self.envelope.name {
            self.envelope.metadata.implementation = Some(format!("{own}@{}", self.envelope.version));
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.envelope.name
    }

    /// Returns the envelope in its current state.
    pub(super) fn envelope(&self) -> &ToolEnvelope {
        &self.envelope
    }

    /// Records the nested calls and adds their cost.
    pub(super) fn set_nested_calls(&mut self, calls: Vec<NestedCall>) {
        calls.iter().filter_map(|call| call.cost_usd).for_each(|usd| self.add_cost(usd));
        self.envelope.metadata.calls = calls;
    }

    pub(super) fn set_source(&mut self, source: Option<CallSource>) {
        self.envelope.metadata.source = source;
    }

    /// Completes the envelope of a call that was not performed, because its run captures calls.
    pub(super) fn captured(mut self, t_end: Timestamp) -> ToolEnvelope {
        self.set_source(Some(CallSource::Captured));
        self.warn("this run captures its calls: nothing was sent");
        self.envelope.t_end = t_end;
        self.envelope
    }

    /// Completes the envelope of a call that was refused, or that failed before the tool ran.
    pub(super) fn failed(mut self, error: ToolError, t_end: Timestamp) -> ToolEnvelope {
        self.envelope.error = Some(self.with_unknown_names(error));
        self.envelope.t_end = t_end;
        self.envelope
    }

    /// Adds the messages about unknown names to an error, because an unknown name is a likely cause. The messages list
    /// valid names, so that a model can correct the call.
    fn with_unknown_names(&self, mut error: ToolError) -> ToolError {
        if self.unknown_names.is_empty() {
            return error;
        }
        error.message = format!("{}; {}", error.message, self.unknown_names.join("; "));
        error.detail("unknownNames", self.unknown_names.clone())
    }

    /// Completes the envelope of a call that was answered from the cache.
    pub(super) fn cached(mut self, hit: CachedResult, t_end: Timestamp) -> ToolEnvelope {
        self.envelope.cached = true;
        self.envelope.output = hit.output;
        self.envelope.truncated = hit.truncated;
        self.envelope.attachments = hit.attachments;
        // The cached warnings include warnings about the tool's life cycle. This envelope already has them, so they are
        // not added again.
        let warnings = &mut self.envelope.metadata.warnings;
        warnings.extend(hit.warnings.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
        self.envelope.metadata.messages = hit.messages;
        self.envelope.metadata.http_status = hit.http_status;
        self.envelope.t_end = t_end;
        self.envelope
    }

    /// Completes the envelope of a call that ran, and redacts all of it.
    pub(super) fn finish(
        mut self,
        result: Result<BoundedOutput, ToolError>,
        redactor: &Redactor,
        t_end: Timestamp,
    ) -> ToolEnvelope {
        match result {
            Ok(capped) => {
                self.envelope.output = capped.output;
                self.envelope.truncated = capped.truncated;
                self.envelope.attachments = capped.attachments;
            }
            Err(error) => {
                let error = self.with_unknown_names(error);
                let mut error = add_required_details(error, self.envelope.metadata.http_status);
                redactor.error(&mut error);
                self.envelope.error = Some(error);
            }
        }
        self.redact(redactor);
        self.envelope.t_end = t_end;
        self.envelope
    }

    /// Redacts everything except the output and the error. Limits the messages after that, because a shortened text
    /// could hide a secret from the redactor.
    pub(super) fn redact(&mut self, redactor: &Redactor) {
        redactor.value(&mut self.envelope.input);
        for names in self.envelope.metadata.resolved_inputs.values_mut() {
            redactor.value(&mut names.original);
            redactor.value(&mut names.resolved);
        }
        for warning in &mut self.envelope.metadata.warnings {
            redactor.text(warning);
        }
        for message in &mut self.envelope.metadata.messages {
            redactor.text(message);
        }
        call_messages::limit(&mut self.envelope.metadata.messages);
        for header in self.envelope.metadata.headers.values_mut() {
            redactor.text(header);
        }
        redact_calls(&mut self.envelope.metadata.calls, redactor);
    }
}

fn redact_calls(calls: &mut [NestedCall], redactor: &Redactor) {
    for call in calls {
        redactor.value(&mut call.input);
        if let Some(error) = &mut call.error {
            redactor.error(error);
        }
        redact_calls(&mut call.calls, redactor);
    }
}

/// Adds the details that clients can rely on: the HTTP status of a provider error and the delay of a rate limit.
fn add_required_details(mut error: ToolError, http_status: Option<u16>) -> ToolError {
    match (error.code, http_status) {
        (ErrorCode::ProviderError, Some(status)) => error.detail("http_status", status),
        (ErrorCode::RateLimit, _) => {
            error.retry_after_s = error.retry_after_s.or(Some(1.0));
            error
        }
        _ => error,
    }
}
