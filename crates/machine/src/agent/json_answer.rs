//! Reads JSON from the answer of a model.

/// Returns the JSON text of an answer: without the reasoning between `<think>` and `</think>` before it, and without the
/// Markdown code fence around it, which models often add.
pub fn json_answer(text: &str) -> &str {
    let trimmed = text.trim();
    let thought = trimmed.strip_prefix("<think>").and_then(|rest| rest.split_once("</think>"));
    let answer = thought.map_or(trimmed, |(_, answer)| answer.trim());
    let inner = answer.strip_prefix("```json").or_else(|| answer.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).map_or(answer, str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_fence_around_json_and_reasoning_before_it_are_removed() {
        for text in [
            "{\"a\":1}",
            " {\"a\":1}\n",
            "```json\n{\"a\":1}\n```",
            "```\n{\"a\":1}\n```\n",
            "<think>maybe {} or ```</think>\n{\"a\":1}",
            "<think>\nso\n</think>\n\n```json\n{\"a\":1}\n```",
        ] {
            assert_eq!(json_answer(text), "{\"a\":1}", "{text}");
        }
        for text in ["no ``` fence", "```json\n{\"a\":1}", "<think>{\"a\":1}"] {
            assert_eq!(json_answer(text), text);
        }
    }
}
