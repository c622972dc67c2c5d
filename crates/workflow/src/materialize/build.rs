//! Builds the steps, the inputs and the output of the workflow.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolwright_types::{CallSource, RefName, SideEffects, WorkflowDefinition, WorkflowStep, step_handlers};

use super::inputs::{InputPlace, Inputs};
use super::names::{Names, last_part};
use super::paths::{self, Segment};
use super::source::{RESPONSE, Selected, SourceAgent, SourceCall, SourceRun, USER_MESSAGE};
use super::values::{Found, Piece, Producer, ValueIndex};
use super::{AgentStep, CallStep, LiftedInput, Link, Report, dependencies, texts};

/// A workflow with what its verification needs.
pub(super) struct Built {
    pub definition: WorkflowDefinition,
    pub report: Report,
    /// The recording of each step, in the order of the steps.
    pub recorded: Vec<RecordedStep>,
    /// The recorded output of the run; `None` if only some calls were selected.
    pub output: Option<Value>,
}

/// What a step did in the recorded run.
pub(super) struct RecordedStep {
    /// The recorded input; `None` for a step that calls the agent to write a text.
    pub input: Option<Value>,
    /// The recorded output.
    pub output: Value,
}

/// A call that becomes a step.
struct Call<'a> {
    source: &'a SourceCall,
    name: String,
    handler_ref: String,
    /// The recorded input, as the handler takes it.
    input: Value,
    /// The recorded output, as the handler returns it.
    output: Value,
}

/// Makes a workflow from the selected calls.
pub(super) fn build(source: &SourceRun, selected: Selected<'_>, name: RefName) -> Built {
    let Selected { calls, left_out, whole_run } = selected;
    let mut names = Names::default();
    let mut warnings = Vec::new();
    let calls = calls_of(&calls, &mut names, &mut warnings);
    let input = Value::Object(source.input.clone());
    let mut producers = vec![Producer { root: "input", value: &input, batch: None }];
    producers.extend(calls.iter().map(|call| Producer {
        root: &call.name,
        value: &call.output,
        batch: Some(call.source.batch),
    }));
    let index = ValueIndex::new(producers);
    if !index.is_complete() {
        warnings.push("the outputs have too many values, so references to some of them are missing".to_owned());
    }
    let report = Report { left_out, warnings, ..Report::default() };
    let mut builder = Builder {
        source,
        // Selected calls keep their exact inputs.
        agent: source.agent.as_ref().filter(|_| whole_run),
        calls: &calls,
        index: &index,
        inputs: Inputs::new(&source.input),
        names,
        drafts: Vec::new(),
        drafts_of_calls: Vec::new(),
        report,
    };
    for at in 0..calls.len() {
        builder.add_call(at);
    }
    let output = whole_run.then(|| source.output.clone());
    builder.finish(name, output)
}

fn calls_of<'a>(calls: &[&'a SourceCall], names: &mut Names, warnings: &mut Vec<String>) -> Vec<Call<'a>> {
    calls
        .iter()
        .copied()
        .map(|source| {
            let envelope = &source.envelope;
            let name = names.add(last_part(&envelope.name));
            let (input, output) = (envelope.input.clone(), envelope.output.clone());
            if source.is_agent {
                let handler_ref = step_handlers::INVOKE_AGENT.to_owned();
                let agent = exact_ref(&envelope.name, &envelope.version);
                let (input, output) = (delegate_input(agent, input), delegate_output(output));
                return Call { source, name, handler_ref, input, output };
            }
            let handler_ref = match envelope.name.starts_with(step_handlers::PREFIX) {
                true => envelope.name.clone(),
                false => exact_ref(&envelope.name, version_of_step(calls, source, warnings)),
            };
            Call { source, name, handler_ref, input, output }
        })
        .collect()
}

fn exact_ref(name: &str, version: &str) -> String {
    if version.is_empty() { name.to_owned() } else { format!("{name}@={version}") }
}

/// The version of a call's tool. A workflow uses one version of each tool, so the last recorded version is used.
fn version_of_step<'a>(calls: &[&'a SourceCall], call: &'a SourceCall, warnings: &mut Vec<String>) -> &'a str {
    let of_tool = calls.iter().rev().find(|other| other.envelope.name == call.envelope.name);
    let version = of_tool.map_or(call.envelope.version.as_str(), |last| last.envelope.version.as_str());
    if version != call.envelope.version {
        let (tool, used) = (&call.envelope.name, &call.envelope.version);
        let warning = format!("call `{}` used {tool}@{used}, its step uses version {version}", call.envelope.call_id);
        warnings.push(warning);
    }
    version
}

/// The input of a step that calls an agent. As a tool, an agent takes its message as `task`.
fn delegate_input(agent: String, input: Value) -> Value {
    let mut fields = Map::from_iter([("agentRef".to_owned(), Value::String(agent))]);
    if let Value::Object(recorded) = input {
        let renamed = |name: String| if name == "task" { "prompt".to_owned() } else { name };
        fields.extend(recorded.into_iter().map(|(name, value)| (renamed(name), value)));
    }
    Value::Object(fields)
}

/// The output of a step that calls an agent. As a tool, an agent returns its answer as `responseText`.
fn delegate_output(output: Value) -> Value {
    let Value::Object(recorded) = output else { return output };
    let renamed = |name: String| if name == "responseText" { RESPONSE.to_owned() } else { name };
    Value::Object(recorded.into_iter().map(|(name, value)| (renamed(name), value)).collect())
}

struct Builder<'a> {
    source: &'a SourceRun,
    /// The agent that can write texts.
    agent: Option<&'a SourceAgent>,
    calls: &'a [Call<'a>],
    index: &'a ValueIndex<'a>,
    inputs: Inputs,
    names: Names,
    drafts: Vec<Draft>,
    /// The position of the step of each call.
    drafts_of_calls: Vec<usize>,
    report: Report,
}

struct Draft {
    step: WorkflowStep,
    needs: BTreeSet<usize>,
    recorded: RecordedStep,
}

/// The step whose input is converted.
struct Target<'a> {
    step: &'a str,
    tool: &'a str,
    batch: u32,
    needs: BTreeSet<usize>,
}

impl Builder<'_> {
    fn add_call(&mut self, at: usize) {
        let calls = self.calls;
        let Some(call) = calls.get(at) else { return };
        let envelope = &call.source.envelope;
        let mut target = Target {
            step: &call.name,
            tool: &envelope.name,
            batch: call.source.batch,
            needs: self.earlier_calls_to_wait_for(at),
        };
        let input = match (&call.input, call.source.is_agent) {
            (Value::Object(fields), true) => self.agent_input(fields, &mut target),
            (input, _) => self.convert(input, &mut Vec::new(), &mut target),
        };
        let step = step(call.name.clone(), &call.handler_ref, input);
        let recorded = RecordedStep { input: Some(call.input.clone()), output: call.output.clone() };
        self.drafts_of_calls.push(self.drafts.len());
        self.drafts.push(Draft { step, needs: target.needs, recorded });
        if envelope.truncated {
            self.report.truncated.push(call.name.clone());
        }
        if envelope.metadata.source == Some(CallSource::Captured) {
            let warning = format!("call `{}` was captured, so its output is not from the tool", envelope.call_id);
            self.report.warnings.push(warning);
        }
        self.report.steps.push(CallStep {
            step: call.name.clone(),
            call_id: envelope.call_id.clone(),
            tool: envelope.name.clone(),
            version: envelope.version.clone(),
            side_effects: call.source.side_effects,
            secret_scope: envelope.metadata.secret_scope.clone(),
        });
    }

    /// The steps that must end before a call for the sake of its side effects. Writes keep their order. A write also waits
    /// for all calls that had ended when the agent decided to make it, because a failure of one of them must prevent the
    /// write. A read waits for the writes whose effects it may have seen.
    fn earlier_calls_to_wait_for(&self, at: usize) -> BTreeSet<usize> {
        let Some(call) = self.calls.get(at).map(|call| call.source) else { return BTreeSet::new() };
        let waits_for = |earlier: &SourceCall| {
            let has_ended = earlier.batch < call.batch;
            let writes = earlier.side_effects == SideEffects::Writes;
            match call.side_effects {
                SideEffects::Writes => has_ended || writes,
                SideEffects::Reads => has_ended && writes,
                SideEffects::None => false,
            }
        };
        let earlier = self.calls.iter().zip(&self.drafts_of_calls).take(at);
        earlier.filter(|(earlier, _)| waits_for(earlier.source)).map(|(_, draft)| *draft).collect()
    }

    /// Converts the input of a step that calls an agent. The agent itself is not an input of the workflow.
    fn agent_input(&mut self, fields: &Map<String, Value>, target: &mut Target<'_>) -> Value {
        let convert = |(name, value): (&String, &Value)| {
            let value = match name.as_str() {
                "agentRef" => value.clone(),
                _ => self.convert(value, &mut vec![Segment::Field(name)], target),
            };
            (texts::escape(name), value)
        };
        Value::Object(fields.iter().map(convert).collect())
    }

    /// Converts a recorded value to JSON with expressions.
    fn convert<'v>(&mut self, value: &'v Value, path: &mut Vec<Segment<'v>>, target: &mut Target<'_>) -> Value {
        // The fields of an input are converted one by one, so that an author can change each of them.
        let is_input = path.is_empty() && value.is_object();
        if !is_input && let Some(found) = self.index.find(value, path, Some(target.batch)) {
            return Value::String(self.link(found, path, target));
        }
        match value {
            Value::Null => Value::Null,
            Value::Array(items) if items.is_empty() => value.clone(),
            Value::Array(items) => {
                if items.iter().enumerate().all(|(at, item)| self.is_constant(item, path, Segment::Index(at), target)) {
                    return self.lift(value, path, target);
                }
                let mut converted = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    path.push(Segment::Index(at));
                    converted.push(self.convert(item, path, target));
                    path.pop();
                }
                Value::Array(converted)
            }
            Value::Object(fields) if fields.keys().any(|name| texts::is_redacted(name)) => self.require(path, target),
            Value::Object(fields) => {
                let mut converted = Map::new();
                for (name, field) in fields {
                    path.push(Segment::Field(name));
                    converted.insert(texts::escape(name), self.convert(field, path, target));
                    path.pop();
                }
                Value::Object(converted)
            }
            Value::String(text) if texts::is_redacted(text) => self.require(path, target),
            Value::String(text) => self.text(value, text, path, target),
            Value::Bool(_) | Value::Number(_) => self.lift(value, path, target),
        }
    }

    /// Whether a value has no references, no redacted texts and no texts that a model wrote.
    fn is_constant<'v>(
        &self,
        value: &'v Value,
        path: &mut Vec<Segment<'v>>,
        segment: Segment<'v>,
        target: &Target<'_>,
    ) -> bool {
        path.push(segment);
        let is_constant = self.index.find(value, path, Some(target.batch)).is_none()
            && match value {
                Value::Array(items) => {
                    items.iter().enumerate().all(|(at, item)| self.is_constant(item, path, Segment::Index(at), target))
                }
                Value::Object(fields) => fields.iter().all(|(name, field)| {
                    !texts::is_redacted(name) && self.is_constant(field, path, Segment::Field(name), target)
                }),
                Value::String(text) => {
                    let pieces = self.index.pieces(text, Some(target.batch));
                    let has_link = pieces.iter().any(|piece| matches!(piece, Piece::Link(_)));
                    !has_link && !texts::is_redacted(text) && !self.is_written(text, &pieces)
                }
                _ => true,
            };
        path.pop();
        is_constant
    }

    /// Converts a text that no output contains as a whole.
    fn text(&mut self, value: &Value, text: &str, path: &[Segment<'_>], target: &mut Target<'_>) -> Value {
        let pieces = self.index.pieces(text, Some(target.batch));
        if self.is_written(text, &pieces) {
            return self.write(text, path, target);
        }
        if pieces.iter().all(|piece| matches!(piece, Piece::Literal(_))) {
            return self.lift(value, path, target);
        }
        let template = texts::template(&pieces);
        for piece in pieces {
            if let Piece::Link(found) = piece {
                self.link(found, path, target);
            }
        }
        Value::String(template)
    }

    /// Whether the agent wrote this text. The user's own words are an input of the workflow.
    fn is_written(&self, text: &str, pieces: &[Piece<'_>]) -> bool {
        let Some(agent) = self.agent else { return false };
        texts::is_written(pieces) && !agent.message.contains(text)
    }

    /// Records a reference to an earlier output or an input. Returns the text of the template.
    fn link(&mut self, found: Found, path: &[Segment<'_>], target: &mut Target<'_>) -> String {
        self.use_producer(&found, &mut target.needs);
        let expression = texts::reference(&found.expression);
        let link = Link { step: Some(target.step.to_owned()), path: paths::pointer(path), expression };
        self.report.links.push(link.clone());
        link.expression
    }

    fn use_producer(&mut self, found: &Found, needs: &mut BTreeSet<usize>) {
        // The first producer is the input of the run.
        match (found.producer.checked_sub(1), &found.field) {
            (Some(call), _) => needs.extend(self.drafts_of_calls.get(call).copied()),
            (None, Some(field)) => self.inputs.use_recorded(field),
            (None, None) => self.inputs.use_all_recorded(),
        }
    }

    fn lift(&mut self, value: &Value, path: &[Segment<'_>], target: &Target<'_>) -> Value {
        let name = self.inputs.lift(InputPlace { step: target.step, field: paths::last_field(path) }, value);
        self.input_reference(name, path, target, false)
    }

    /// Adds a required input in place of a redacted value.
    fn require(&mut self, path: &[Segment<'_>], target: &Target<'_>) -> Value {
        let name = self.inputs.require(InputPlace { step: target.step, field: paths::last_field(path) });
        self.input_reference(name, path, target, true)
    }

    fn input_reference(&mut self, name: String, path: &[Segment<'_>], target: &Target<'_>, redacted: bool) -> Value {
        let reference = texts::reference(&format!("input.{name}"));
        let (step, path) = (target.step.to_owned(), paths::pointer(path));
        self.report.inputs.push(LiftedInput { name, step, path, redacted });
        Value::String(reference)
    }

    /// Adds a step in which the agent writes a text. Returns the reference to the text.
    fn write(&mut self, text: &str, path: &[Segment<'_>], target: &mut Target<'_>) -> Value {
        let Some(agent) = self.agent else { return Value::String(texts::escape(text)) };
        let field = paths::last_field(path).unwrap_or("input");
        let name = self.names.add(&format!("write_{field}"));
        let calls = self.calls.iter().zip(&self.drafts_of_calls);
        let seen: Vec<(&str, usize)> = calls
            .filter(|(call, _)| call.source.batch < target.batch)
            .map(|(call, draft)| (call.name.as_str(), *draft))
            .collect();
        let results: Map<String, Value> =
            seen.iter().map(|(step, _)| ((*step).to_owned(), texts::reference(step).into())).collect();
        let prompt = format!(
            "Write the text of the field `{}` for a call to the tool `{}`. The request of the user and the results of the \
             earlier calls are in the context. Reply with this text only, and call no tools.",
            texts::escape(field),
            target.tool,
        );
        let mut context = Map::from_iter([("results".to_owned(), Value::Object(results))]);
        if !agent.message.is_empty() {
            self.inputs.use_recorded(USER_MESSAGE);
            context.insert("request".to_owned(), texts::reference(&format!("input.{USER_MESSAGE}")).into());
        }
        let input = json!({ "agentRef": agent.agent_ref, "prompt": prompt, "context": context });
        self.report.warnings.push(format!(
            "step `{name}` runs agent `{}`, which may call its tools although the prompt forbids it; use an agent without \
             tools to prevent this",
            agent.agent_ref
        ));
        let (used_by, path) = (target.step.to_owned(), paths::pointer(path));
        self.report.agent_steps.push(AgentStep { step: name.clone(), used_by, path });
        target.needs.insert(self.drafts.len());
        let reference = texts::reference(&format!("{name}.{RESPONSE}"));
        self.drafts.push(Draft {
            needs: seen.into_iter().map(|(_, draft)| draft).collect(),
            recorded: RecordedStep { input: None, output: json!({ RESPONSE: text }) },
            step: step(name, step_handlers::INVOKE_AGENT, input),
        });
        Value::String(reference)
    }

    /// The template of the output, if every value of it is found in the outputs of the calls.
    fn output_template(&mut self, recorded: &Value) -> Option<Value> {
        // The output of a direct call is the output of its tool, whatever that is.
        if let Some(call) = self.calls.last().filter(|call| call.output == *recorded) {
            let expression = texts::reference(&call.name);
            self.report.links.push(Link { step: None, path: String::new(), expression: expression.clone() });
            return Some(expression.into());
        }
        let mut found = Vec::new();
        let template = self.linked(recorded, &mut Vec::new(), &mut found)?;
        for (found, path) in &found {
            self.use_producer(found, &mut BTreeSet::new());
            let expression = texts::reference(&found.expression);
            self.report.links.push(Link { step: None, path: path.clone(), expression });
        }
        (!found.is_empty()).then_some(template)
    }

    /// Converts a part of the output. Returns `None` if no output contains it.
    fn linked<'v>(
        &self,
        value: &'v Value,
        path: &mut Vec<Segment<'v>>,
        links: &mut Vec<(Found, String)>,
    ) -> Option<Value> {
        if let Some(found) = self.index.find(value, path, None) {
            let expression = texts::reference(&found.expression);
            links.push((found, paths::pointer(path)));
            return Some(Value::String(expression));
        }
        match value {
            Value::Null => Some(Value::Null),
            Value::Array(items) => {
                let mut linked = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    path.push(Segment::Index(at));
                    linked.push(self.linked(item, path, links)?);
                    path.pop();
                }
                Some(Value::Array(linked))
            }
            Value::Object(fields) => {
                let mut linked = Map::new();
                for (name, field) in fields {
                    path.push(Segment::Field(name));
                    linked.insert(texts::escape(name), self.linked(field, path, links)?);
                    path.pop();
                }
                Some(Value::Object(linked))
            }
            Value::String(text) if !texts::is_redacted(text) => {
                let pieces = self.index.pieces(text, None);
                let has_link = pieces.iter().any(|piece| matches!(piece, Piece::Link(_)));
                if !has_link || texts::is_written(&pieces) || texts::has_literal_digit(&pieces) {
                    return None;
                }
                let template = texts::template(&pieces);
                links.extend(pieces.into_iter().filter_map(|piece| match piece {
                    Piece::Link(found) => Some((found, paths::pointer(path))),
                    Piece::Literal(_) => None,
                }));
                Some(Value::String(template))
            }
            Value::String(_) | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn finish(mut self, name: RefName, output: Option<Value>) -> Built {
        let mut definition = WorkflowDefinition::new(name);
        let template = output.as_ref().and_then(|recorded| self.output_template(recorded));
        definition.output = match (template, self.calls) {
            (None, [call]) => Some(texts::reference(&call.name).into()),
            (template, _) => template,
        };
        let subject = &self.source.subject;
        definition.description = Some(format!("Made from run {} of `{subject}`.", self.source.run));
        definition.input_schema = self.inputs.schema();
        let strongest = self.calls.iter().map(|call| call.source.side_effects).max();
        // An agent may call any of its tools.
        definition.side_effects = strongest.filter(|_| self.report.agent_steps.is_empty());
        let needs: Vec<BTreeSet<usize>> = self.drafts.iter().map(|draft| draft.needs.clone()).collect();
        let step_names: Vec<String> = self.drafts.iter().map(|draft| draft.step.name.clone()).collect();
        let mut recorded = Vec::with_capacity(self.drafts.len());
        for (mut draft, direct) in self.drafts.into_iter().zip(dependencies::reduced(&needs)) {
            draft.step.depends_on = direct.into_iter().filter_map(|at| step_names.get(at).cloned()).collect();
            definition.steps.push(draft.step);
            recorded.push(draft.recorded);
        }
        Built { definition, report: self.report, recorded, output }
    }
}

fn step(name: String, handler: &str, input: Value) -> WorkflowStep {
    WorkflowStep {
        name,
        description: None,
        handler_ref: handler.to_owned(),
        input: Some(input),
        depends_on: Vec::new(),
        condition: None,
        condition_ref: None,
        retry: None,
        timeout: None,
        on_error: toolwright_types::OnError::Fail,
        for_each: None,
        output_as: None,
    }
}
