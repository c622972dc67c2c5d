//! The values of a workflow that contain expressions, and the names that these expressions read.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use toolwright_expr::{Expression, ParseError, Reference, Scope, ValueTemplate};

/// A JSON value whose strings may contain expressions, with the steps that it reads.
#[derive(Debug, Clone)]
pub(crate) struct CompiledValue {
    /// `None` stands for null.
    pub template: Option<ValueTemplate>,
    /// The steps whose outputs the value reads, each with the name that it uses.
    pub outputs: Vec<(String, u32)>,
    /// The steps whose states the value reads through `steps`.
    pub states: StatesRead,
}

/// The steps whose states a value reads through `steps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatesRead {
    /// The value does not use `steps`, or only with fixed names.
    Only(BTreeSet<u32>),
    /// The value computes the name of a step, so it may read every step on which its step depends.
    Any,
}

/// A name that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReference {
    /// What the name refers to.
    pub value: ReferencedValue,
    /// The fields that follow the name.
    pub fields: Vec<String>,
}

/// What a name in an expression refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferencedValue {
    /// The input of the workflow.
    Input,
    /// The output of a step.
    Output(u32),
    /// The state of a step: `steps.NAME`.
    State(u32),
    /// The states of all steps: `steps`, without the name of a step.
    AnyState,
    /// `steps.NAME` with a name that no step has.
    UnknownStep(String),
    /// The item or the index of a `forEach`.
    Local(String),
}

impl CompiledValue {
    /// The value null.
    pub(crate) fn null() -> Self {
        Self { template: None, outputs: Vec::new(), states: StatesRead::Only(BTreeSet::new()) }
    }

    /// Parses a value. `names` finds what a name refers to.
    pub(crate) fn parse(value: &Value, names: &StepNames, locals: &[&str]) -> Result<Self, ParseError> {
        let template = ValueTemplate::compile(value)?;
        let mut parsed = Self::null();
        let references = template.expressions().into_iter().flat_map(Expression::references);
        for reference in references {
            let StepReference { value, .. } = names.resolve(&reference, locals);
            parsed.add(reference.root, &value);
        }
        parsed.template = Some(template);
        Ok(parsed)
    }

    /// The value, if it has no expressions that read names.
    pub(crate) fn constant(&self) -> Option<Value> {
        let reads_nothing = self.expressions().iter().all(|expression| expression.references().is_empty());
        let template = self.template.as_ref().filter(|_| reads_nothing)?;
        template.render(&Scope::new(&Value::Null)).ok().map(|rendered| rendered.value)
    }

    /// The expressions of the value.
    pub(crate) fn expressions(&self) -> Vec<&Expression> {
        self.template.as_ref().map(ValueTemplate::expressions).unwrap_or_default()
    }

    fn add(&mut self, root: &str, value: &ReferencedValue) {
        match (value, &mut self.states) {
            (ReferencedValue::Output(step), _) if self.outputs.iter().all(|(known, _)| known != root) => {
                self.outputs.push((root.to_owned(), *step));
            }
            (ReferencedValue::State(step), StatesRead::Only(states)) => drop(states.insert(*step)),
            (ReferencedValue::AnyState, states) => *states = StatesRead::Any,
            _ => {}
        }
    }
}

/// The names of the steps of a workflow.
#[derive(Debug, Clone, Default)]
pub struct StepNames {
    /// The positions of the steps by name.
    pub(super) steps: HashMap<String, u32>,
    /// The positions of the steps by `outputAs`.
    pub(super) outputs: HashMap<String, u32>,
}

impl StepNames {
    /// Finds what a reference in an expression refers to. `locals` are the names that only some fields of a step can
    /// use: `item`, `index` and `output`.
    pub fn resolve(&self, reference: &Reference<'_>, locals: &[&str]) -> StepReference {
        let owned = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect();
        let Reference { root, fields } = reference;
        let whole = |value| StepReference { value, fields: owned(fields) };
        if locals.contains(root) {
            return whole(ReferencedValue::Local((*root).to_owned()));
        }
        match (*root, fields.split_first()) {
            ("input" | "param", _) => whole(ReferencedValue::Input),
            ("steps", None) => whole(ReferencedValue::AnyState),
            ("steps", Some((name, rest))) => {
                let step = self.steps.get(*name);
                let value = step.map_or_else(
                    || ReferencedValue::UnknownStep((*name).to_owned()),
                    |step| ReferencedValue::State(*step),
                );
                StepReference { value, fields: owned(rest) }
            }
            _ => match self.outputs.get(*root).or_else(|| self.steps.get(*root)) {
                Some(step) => whole(ReferencedValue::Output(*step)),
                // Every other name is a field of the input.
                None => {
                    let fields = std::iter::once(*root).chain(fields.iter().copied());
                    let fields = fields.map(str::to_owned).collect();
                    StepReference { value: ReferencedValue::Input, fields }
                }
            },
        }
    }
}
