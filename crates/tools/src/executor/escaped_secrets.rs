//! Finds secrets whose characters are escaped, in any mixture of the escapes of JSON, HTML and URLs.

use std::fmt::Write;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use regex::bytes::Regex;
use secrecy::{ExposeSecret, SecretString};

/// The maximum size of the compiled regular expression. A secret of 3 KB needs far less.
const MAX_REGEX_BYTES: usize = 16 << 20;

/// Secrets with characters that can be escaped. Letters and digits are never escaped. So a text is searched only if it
/// contains the longest sequence of letters and digits of at least one secret.
#[derive(Debug)]
pub(super) struct EscapedSecrets {
    sequences: AhoCorasick,
    secrets: Vec<SecretString>,
    /// The expression for all forms of the secrets. It is compiled on first use, because few texts contain the longest
    /// sequence of a secret.
    expression: OnceLock<Option<Regex>>,
}

impl EscapedSecrets {
    /// Prepares the search for these secrets. Returns `None` if no secret has a character that can be escaped.
    pub(super) fn new(secrets: &[&str]) -> Option<Self> {
        let mut secrets: Vec<&str> = secrets.iter().copied().filter(|secret| !is_plain(secret)).collect();
        // The regular expression prefers the first alternative. Longer secrets come first, so if one secret starts with
        // another one, the longer one matches.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let sequences = AhoCorasick::new(secrets.iter().map(|secret| longest_sequence(secret))).ok()?;
        let secrets: Vec<SecretString> = secrets.into_iter().map(SecretString::from).collect();
        (!secrets.is_empty()).then(|| Self { sequences, secrets, expression: OnceLock::new() })
    }

    pub(super) fn is_match(&self, text: &[u8]) -> bool {
        self.expression_for(text).is_some_and(|expression| expression.is_match(text))
    }

    /// Returns the text with a placeholder for each secret; `None` if it contains no secret.
    pub(super) fn replace(&self, text: &[u8], placeholder: &str) -> Option<Vec<u8>> {
        match self.expression_for(text)?.replace_all(text, regex::bytes::NoExpand(placeholder.as_bytes())) {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(replaced) => Some(replaced),
        }
    }

    /// Returns the expression, if the text can contain a secret.
    fn expression_for(&self, text: &[u8]) -> Option<&Regex> {
        if !self.sequences.is_match(text) {
            return None;
        }
        self.expression.get_or_init(|| self.compile()).as_ref()
    }

    fn compile(&self) -> Option<Regex> {
        let alternatives: Vec<String> = self.secrets.iter().map(|secret| pattern(secret.expose_secret())).collect();
        regex::bytes::RegexBuilder::new(&alternatives.join("|")).size_limit(MAX_REGEX_BYTES).build().ok()
    }
}

fn is_plain(secret: &str) -> bool {
    secret.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn longest_sequence(secret: &str) -> &str {
    let sequences = secret.split(|c: char| !c.is_ascii_alphanumeric());
    sequences.max_by_key(|sequence| sequence.len()).unwrap_or_default()
}

/// Returns the expression for a secret: each letter and digit as it is, and every other character in all its forms.
fn pattern(secret: &str) -> String {
    let mut pattern = String::new();
    for character in secret.chars() {
        match character.is_ascii_alphanumeric() {
            true => pattern.push(character),
            false => push_forms(&mut pattern, character),
        }
    }
    pattern
}

/// Appends an expression for one character. An escape may be escaped again: `\\u0026`, `&amp;#39;`, `%2526`.
fn push_forms(pattern: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a String cannot fail.
    let _ = write!(pattern, r"(?:\\*{}", regex::escape(&character.to_string()));
    if let Some(letter) = json_letter(character) {
        let _ = write!(pattern, r"|\\+{letter}");
    }
    pattern.push('|');
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(pattern, r"\\+u(?i:{unit:04x})");
    }
    let _ = write!(pattern, "|&(?:amp;)*#(?:0*{code}|[xX]0*(?i:{code:x}));?");
    if let Some(names) = entity_names(character) {
        let _ = write!(pattern, "|&(?:amp;)*(?:{names});");
    }
    pattern.push('|');
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        let _ = write!(pattern, "%(?:25)*(?i:{byte:02x})");
    }
    if character == ' ' {
        pattern.push_str(r"|\+");
    }
    pattern.push(')');
}

/// Returns the letter of the JSON escape for a control character, such as `n` for a line feed.
fn json_letter(character: char) -> Option<char> {
    Some(match character {
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        _ => return None,
    })
}

/// Returns the HTML entity names that encoders use for the character, as a regular expression.
fn entity_names(character: char) -> Option<&'static str> {
    Some(match character {
        '&' => "amp|AMP",
        '<' => "lt|LT",
        '>' => "gt|GT",
        '"' => "quot|QUOT",
        '\'' => "apos",
        '/' => "sol",
        '+' => "plus",
        '=' => "equals",
        '`' => "grave",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_secret_is_found_in_every_form() {
        let escaped = EscapedSecrets::new(&["pass/w\"ord&12'34"]).unwrap();
        for form in [
            "pass/w\"ord&12'34",
            r#"pass\/w\"ord\u002612\u002734"#,
            r#"pass/w\u0022ord\u002612'34"#,
            r#"pass\\/w\\\"ord\\u002612\\u002734"#,
            "pass/w&quot;ord&amp;12&#39;34",
            "pass/w&#34;ord&#38;12&apos;34",
            "pass&#x2F;w&#x22;ord&amp;12&#x27;34",
            "pass&#47;w&QUOT;ord&#x0026;12&#039;34",
            "pass/w&amp;quot;ord&amp;amp;12&amp;#39;34",
            "pass%2Fw%22ord%2612%2734",
            "pass%2fw%22ord%2612%2734",
            "pass%252Fw%2522ord%252612%252734",
            "pass%25252Fw%252522ord%25252612%25252734",
        ] {
            let replaced = escaped.replace(format!("<{form}>").as_bytes(), "*");
            assert_eq!(replaced.as_deref(), Some(&b"<*>"[..]), "{form}");
            assert!(escaped.is_match(form.as_bytes()), "{form}");
        }
        for other in ["pass/w\"ord&12'3", "pass/w&quot;ord;12'34", "passw\"ord&12'34", ""] {
            assert_eq!(escaped.replace(other.as_bytes(), "*"), None, "{other}");
        }
    }

    #[test]
    fn secret_with_non_ascii_or_control_characters_is_found() {
        let escaped = EscapedSecrets::new(&["pässwort\n😀1"]).unwrap();
        for form in [
            r"p\u00e4sswort\n\ud83d\ude001",
            r"p\u00E4sswort\u000a\uD83D\uDE001",
            "p&#228;sswort&#10;&#x1F600;1",
            "p%C3%A4sswort%0A%F0%9F%98%801",
        ] {
            assert!(escaped.is_match(form.as_bytes()), "{form}");
        }
    }

    #[test]
    fn longer_of_two_secrets_with_a_common_start_is_replaced() {
        let escaped = EscapedSecrets::new(&["key-12345", "key-12345-more", "plain12345"]).unwrap();
        assert_eq!(escaped.replace(b"key%2D12345%2Dmore", "*").as_deref(), Some(&b"*"[..]));
        assert!(EscapedSecrets::new(&["plain12345"]).is_none());
    }
}
