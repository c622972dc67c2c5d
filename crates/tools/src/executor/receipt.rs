//! The envelope under construction: what is known from the start, and how the call ends.

use std::collections::BTreeMap;

use serde_json::Value;
use toolwright_types::{
    CallId, CallMetadata, CallSource, Difference, ErrorCode, ExecutionSite, PartCall, ResolvedInput, Timestamp,
    ToolEnvelope, ToolError,
};

use super::CallRequest;
use super::cache::Hit;
use super::cap::Capped;
use super::redact::Redactor;
use super::references::Resolution;
use super::secrets::Identified;
use crate::{CallContext, CompiledTool};

/// A receipt whose outcome is still open.
#[derive(Debug)]
pub struct Receipt {
    envelope: ToolEnvelope,
    /// How the output differs from what the tool says.
    drift: Vec<Difference>,
}

impl Receipt {
    pub fn new(
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

    pub fn call_id(&self) -> &CallId {
        &self.envelope.call_id
    }

    pub fn begin(&mut self, at: Timestamp) {
        self.envelope.t_start = at;
    }

    pub fn number(&mut self, call_id: CallId) {
        self.envelope.call_id = call_id;
    }

    pub fn cost(&mut self, cost_usd: Option<f64>) {
        self.envelope.metadata.cost_usd = cost_usd;
    }

    pub fn policy(&mut self, policy: String) {
        self.envelope.metadata.policy_id = Some(policy);
    }

    pub fn secret_scope(&mut self, identified: &Identified) {
        self.envelope.metadata.secret_scope = identified.widest_scope().map(str::to_owned);
    }

    /// Which function of which library runs, so that a journal says what was bound. The built-in ones have one version, and
    /// code is part of its tool.
    pub(super) fn bound_to(&mut self, implementation: Option<&str>) {
        let bound = implementation.filter(|name| name.contains('@') && !name.starts_with(crate::builtin::LIBRARY));
        if self.envelope.metadata.implementation.is_none() {
            self.envelope.metadata.implementation = bound.map(str::to_owned);
        }
    }

    pub(super) fn drifted(&mut self, drift: Vec<Difference>) {
        self.drift = drift;
    }

    pub(super) fn take_drift(&mut self) -> Vec<Difference> {
        std::mem::take(&mut self.drift)
    }

    /// What names in the input were taken for.
    pub(super) fn resolved(&mut self, names: Resolution) {
        self.envelope.metadata.warnings.extend(names.warnings);
        self.envelope.metadata.resolved_inputs = names.inputs;
    }

    pub fn resolved_inputs(&self) -> &BTreeMap<String, ResolvedInput> {
        &self.envelope.metadata.resolved_inputs
    }

    pub fn attempts(&mut self, attempts: u32) {
        self.envelope.metadata.attempt = attempts;
    }

    pub fn warn(&mut self, warning: impl Into<String>) {
        self.envelope.metadata.warnings.push(warning.into());
    }

    pub fn http(&mut self, status: Option<u16>, headers: BTreeMap<String, String>) {
        self.envelope.metadata.http_status = status;
        self.envelope.metadata.headers = headers;
    }

    /// The receipt of a call whose outcome was found out afterwards.
    pub fn confirmed(mut self, output: Value, t_end: Timestamp) -> ToolEnvelope {
        self.envelope.output = output;
        self.envelope.t_end = t_end;
        self.envelope.metadata.attempt = 1;
        self.warn("the server stopped during this call; that it was made was found out afterwards");
        self.envelope
    }

    /// Another tool's name, whose place this one takes.
    pub fn stand_in_for(&mut self, name: &str) {
        let own = std::mem::replace(&mut self.envelope.name, name.to_owned());
        if own != self.envelope.name {
            self.envelope.metadata.implementation = Some(format!("{own}@{}", self.envelope.version));
        }
    }

    pub fn name(&self) -> &str {
        &self.envelope.name
    }

    /// The receipt as far as it goes.
    pub fn so_far(&self) -> &ToolEnvelope {
        &self.envelope
    }

    pub fn calls(&mut self, calls: Vec<PartCall>) {
        self.envelope.metadata.calls = calls;
    }

    pub fn source(&mut self, source: Option<CallSource>) {
        self.envelope.metadata.source = source;
    }

    /// The receipt of a call that was kept from being made.
    pub fn captured(mut self, t_end: Timestamp) -> ToolEnvelope {
        self.source(Some(CallSource::Captured));
        self.warn("this run is a trial: the call was captured, and nothing was sent");
        self.envelope.t_end = t_end;
        self.envelope
    }

    /// The receipt of a call that was refused or failed before the tool ran.
    pub fn failed(mut self, error: ToolError, t_end: Timestamp) -> ToolEnvelope {
        self.envelope.error = Some(error);
        self.envelope.t_end = t_end;
        self.envelope
    }

    /// The receipt of a call that was answered from the cache.
    pub fn cached(mut self, hit: Hit, t_end: Timestamp) -> ToolEnvelope {
        self.envelope.cached = true;
        self.envelope.output = hit.output;
        self.envelope.truncated = hit.truncated;
        self.envelope.attachments = hit.attachments;
        // The hit's warnings begin with those of the tool's lifecycle, which this receipt has already.
        let warnings = &mut self.envelope.metadata.warnings;
        warnings.extend(hit.warnings.into_iter().filter(|warning| !warnings.contains(warning)).collect::<Vec<_>>());
        self.envelope.metadata.http_status = hit.http_status;
        self.envelope.t_end = t_end;
        self.envelope
    }

    /// The receipt of a call that ran. Whatever it carries has gone through the redactor.
    pub fn finish(mut self, result: Result<Capped, ToolError>, redactor: &Redactor, t_end: Timestamp) -> ToolEnvelope {
        match result {
            Ok(capped) => {
                self.envelope.output = capped.output;
                self.envelope.truncated = capped.truncated;
                self.envelope.attachments = capped.attachments;
            }
            Err(error) => {
                let mut error = complete(error, self.envelope.metadata.http_status);
                redactor.error(&mut error);
                self.envelope.error = Some(error);
            }
        }
        redactor.value(&mut self.envelope.input);
        for names in self.envelope.metadata.resolved_inputs.values_mut() {
            redactor.value(&mut names.original);
            redactor.value(&mut names.resolved);
        }
        for warning in &mut self.envelope.metadata.warnings {
            redactor.text(warning);
        }
        for header in self.envelope.metadata.headers.values_mut() {
            redactor.text(header);
        }
        redact_calls(&mut self.envelope.metadata.calls, redactor);
        self.envelope.t_end = t_end;
        self.envelope
    }
}

fn redact_calls(calls: &mut [PartCall], redactor: &Redactor) {
    for call in calls {
        redactor.value(&mut call.input);
        if let Some(error) = &mut call.error {
            redactor.error(error);
        }
        redact_calls(&mut call.calls, redactor);
    }
}

/// What the contract promises of each code: the status of an answer that was no good, a time to wait at a limit.
fn complete(mut error: ToolError, http_status: Option<u16>) -> ToolError {
    match (error.code, http_status) {
        (ErrorCode::ProviderError, Some(status)) => error.detail("http_status", status),
        (ErrorCode::RateLimit, _) => {
            error.retry_after_s = error.retry_after_s.or(Some(1.0));
            error
        }
        _ => error,
    }
}
