//! The order of the calls that an execution made to its model and to tools.

use toolwright_types::Timestamp;

/// Merges the calls to the model and the calls to tools in the order in which they were made. Each list must be in this
/// order, with the start time of each call.
///
/// A refused call has the same start time as the model call that follows it. So a tool call comes before a model call
/// with the same time. Only the first model call, which plans, comes before all tool calls.
pub fn merge_calls<T>(
    model: impl IntoIterator<Item = (Timestamp, T)>,
    tools: impl IntoIterator<Item = (Timestamp, T)>,
) -> Vec<T> {
    let (mut model, mut tools) = (model.into_iter(), tools.into_iter().peekable());
    let mut calls: Vec<T> = model.next().into_iter().map(|(_, call)| call).collect();
    for (at, call) in model {
        while let Some((_, earlier)) = tools.next_if(|(start, _)| *start <= at) {
            calls.push(earlier);
        }
        calls.push(call);
    }
    calls.extend(tools.map(|(_, call)| call));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(times: &[(i64, &'static str)]) -> Vec<(Timestamp, &'static str)> {
        times.iter().map(|(time, name)| (Timestamp::from_micros(*time), *name)).collect()
    }

    #[test]
    fn refused_call_comes_before_the_model_call_with_the_same_time() {
        let model = at(&[(1, "planning"), (5, "error_recovery"), (9, "result_review")]);
        let tools = at(&[(5, "refused"), (7, "first"), (8, "second")]);
        let expected = ["planning", "refused", "error_recovery", "first", "second", "result_review"];
        assert_eq!(merge_calls(model, tools), expected);
        assert_eq!(
            merge_calls(at(&[(1, "planning"), (1, "review")]), at(&[(1, "call")])),
            ["planning", "call", "review"]
        );
        assert_eq!(merge_calls(at(&[]), at(&[(1, "rerun"), (2, "again")])), ["rerun", "again"]);
    }
}
