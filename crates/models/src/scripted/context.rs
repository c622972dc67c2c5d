//! The parts of a request that the conditions and placeholders of a script refer to.

use toolwright_types::{Message, ModelRequest, ResponseFormat};

use super::rule::Condition;

/// A named group of a pattern, and the text that it matched.
pub(super) type Group = (String, String);

pub(super) struct RequestContext<'a> {
    request: &'a ModelRequest,
    /// The user messages, oldest first.
    users: Vec<&'a str>,
    turn: usize,
    /// The tool name, text and error flag of the last message, if that message is a tool result.
    last_result: Option<(&'a str, &'a str, bool)>,
    /// The texts of the results since the last user message.
    pub results: Vec<&'a str>,
    /// The number of calls in earlier replies.
    pub earlier_calls: usize,
}

impl<'a> RequestContext<'a> {
    pub(super) fn new(request: &'a ModelRequest) -> Self {
        let mut context = RequestContext {
            request,
            users: Vec::new(),
            turn: 0,
            last_result: None,
            results: Vec::new(),
            earlier_calls: 0,
        };
        for message in request.messages.iter() {
            context.last_result = None;
            match message {
                Message::System { .. } => {}
                Message::User { content } => {
                    context.users.push(content);
                    context.results.clear();
                    context.turn = 0;
                }
                Message::Assistant { tool_calls, .. } => {
                    context.turn += 1;
                    context.earlier_calls += tool_calls.len();
                }
                Message::Tool { name, content, is_error, .. } => {
                    context.results.push(content);
                    context.last_result = Some((name, content, *is_error));
                }
            }
        }
        context
    }

    /// The last user message.
    pub(super) fn user(&self) -> &'a str {
        self.users.last().copied().unwrap_or_default()
    }

    /// The text of the last message, if that message is a tool result.
    pub(super) fn result(&self) -> &'a str {
        self.last_result.map_or("", |(_, text, _)| text)
    }

    /// Returns the groups of the pattern if all conditions are met.
    pub(super) fn matches(&self, when: &Condition) -> Option<Vec<Group>> {
        let contains = |text: &str, expected: &Option<String>| {
            expected.as_ref().is_none_or(|expected| text.to_lowercase().contains(&expected.to_lowercase()))
        };
        let instructions = self.request.messages.iter().filter_map(|message| match message {
            Message::System { content } => Some(content.as_str()),
            _ => None,
        });
        let (tool, result, failed) = self.last_result.unwrap_or_default();
        let met = contains(self.user(), &when.user)
            && when.turn.is_none_or(|turn| turn == self.turn)
            && when.after_tool.as_ref().is_none_or(|name| name == tool)
            && contains(result, &when.result)
            && when.failed.is_none_or(|expected| self.last_result.is_some() && expected == failed)
            && when.offers.as_ref().is_none_or(|name| self.request.tools.iter().any(|tool| tool.name == *name))
            && when.wants.as_ref().is_none_or(|property| self.wants(property))
            && (when.system.is_none() || contains(&instructions.collect::<Vec<_>>().join("\n"), &when.system));
        if met { self.groups(when) } else { None }
    }

    /// Returns whether the reply must be JSON whose schema has a property.
    fn wants(&self, property: &str) -> bool {
        match &self.request.response_format {
            ResponseFormat::Structured(schema) => {
                schema.get("properties").is_some_and(|properties| properties.get(property).is_some())
            }
            ResponseFormat::Text | ResponseFormat::Json => false,
        }
    }

    fn groups(&self, when: &Condition) -> Option<Vec<Group>> {
        let Some(pattern) = &when.pattern else { return Some(Vec::new()) };
        let captures = self.users.iter().rev().find_map(|text| pattern.0.captures(text))?;
        let names = pattern.0.capture_names().flatten();
        let group = |name: &str| captures.name(name).map_or("", |found| found.as_str()).to_owned();
        Some(names.map(|name| (name.to_owned(), group(name))).collect())
    }
}
