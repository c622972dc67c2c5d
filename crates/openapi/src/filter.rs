//! Selects operations by tag, path, method and id.

/// The criteria for operations: tags, paths, methods and ids. An operation matches if it satisfies at least one entry
/// of each criterion that is not empty.
#[derive(Debug, Clone, Default)]
pub struct OperationFilter {
    tags: Vec<String>,
    paths: Vec<String>,
    methods: Vec<String>,
    operations: Vec<String>,
}

/// An invalid filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOperationFilter {
    /// The filter has too many entries, or an entry is too long.
    #[error("must have at most {MAX_ENTRIES} entries of at most {MAX_ENTRY_BYTES} bytes")]
    TooLarge,
    /// The HTTP method does not exist, or its operations cannot become tools.
    #[error("must be one of get, put, post, delete, options, head and patch, got `{0}`")]
    UnknownMethod(String),
}

const MAX_ENTRIES: usize = 200;
const MAX_ENTRY_BYTES: usize = 500;

/// The HTTP methods whose operations become tools.
pub(crate) const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

impl OperationFilter {
    /// Selects operations that have one of the tags. Case is ignored.
    pub fn tags(mut self, tags: Vec<String>) -> Result<Self, InvalidOperationFilter> {
        self.tags = check_size(tags)?;
        Ok(self)
    }

    /// Selects operations whose path matches one of the patterns, as in [`matches_any`].
    pub fn paths(mut self, patterns: Vec<String>) -> Result<Self, InvalidOperationFilter> {
        self.paths = check_size(patterns)?;
        Ok(self)
    }

    /// Selects operations with one of these methods. Case is ignored.
    pub fn methods(mut self, methods: Vec<String>) -> Result<Self, InvalidOperationFilter> {
        self.methods = check_size(methods)?.into_iter().map(|method| method.to_ascii_lowercase()).collect();
        match self.methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            Some(unknown) => Err(InvalidOperationFilter::UnknownMethod(unknown.clone())),
            None => Ok(self),
        }
    }

    /// Selects operations whose `operationId` matches one of the patterns, as in [`matches_any`].
    pub fn operations(mut self, patterns: Vec<String>) -> Result<Self, InvalidOperationFilter> {
        self.operations = check_size(patterns)?;
        Ok(self)
    }

    pub(crate) fn matches<'t>(
        &self,
        path: &str,
        method: &str,
        id: Option<&str>,
        mut tags: impl Iterator<Item = &'t str>,
    ) -> bool {
        let mut has_tag = || tags.any(|tag| self.tags.iter().any(|selected| selected.eq_ignore_ascii_case(tag)));
        (self.methods.is_empty() || self.methods.iter().any(|selected| selected == method))
            && matches_any(&self.paths, path)
            && (self.operations.is_empty() || id.is_some_and(|id| matches_any(&self.operations, id)))
            && (self.tags.is_empty() || has_tag())
    }
}

fn check_size(entries: Vec<String>) -> Result<Vec<String>, InvalidOperationFilter> {
    let within_limits = entries.len() <= MAX_ENTRIES && entries.iter().all(|entry| entry.len() <= MAX_ENTRY_BYTES);
    within_limits.then_some(entries).ok_or(InvalidOperationFilter::TooLarge)
}

/// Returns whether `text` matches one of the glob patterns. True if there are no patterns. `*` matches any characters
/// except `/`; `**` matches any characters.
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches_glob(pattern, text))
}

/// Returns whether `text` matches a pattern. After a mismatch, the search resumes only at the last `*` or the last
/// `**`. That is sufficient and avoids exponential time.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // For the last `*` and for the last `**`: the position after the wildcard in the pattern, and the end of the
    // wildcard's match in the text.
    let mut stars: [Option<(usize, usize)>; 2] = [None, None];
    loop {
        match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some('*'), _) if pattern.get(p + 1) == Some(&'*') => {
                p += 2;
                stars = [None, Some((p, t))];
                continue;
            }
            (Some('*'), _) => {
                p += 1;
                stars[0] = Some((p, t));
                continue;
            }
            (Some(expected), Some(actual)) if expected == actual => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            _ => {}
        }
        let [single, double] = &mut stars;
        if let Some((after, end)) = single
            && text.get(*end).is_some_and(|next| *next != '/')
        {
            *end += 1;
            (p, t) = (*after, *end);
        } else if let Some((after, end)) = double
            && *end < text.len()
        {
            *end += 1;
            (p, t) = (*after, *end);
            *single = None;
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_star_does_not_match_a_slash_and_glob_double_star_does() {
        for (pattern, text, expected) in [
            ("/pets", "/pets", true),
            ("/pets", "/pets/", false),
            ("/pets/*", "/pets/1", true),
            ("/pets/*", "/pets/1/toys", false),
            ("/pets/**", "/pets/1/toys", true),
            ("/**/toys", "/pets/1/toys", true),
            ("/**/*s", "/pets/1/toys", true),
            ("/**/*x", "/pets/1/toys", false),
            ("**", "", true),
            ("*", "a/b", false),
            ("/a*b*c/d", "/aXbXbXc/d", true),
            ("/*/b/**/d", "/a/b/c/b/d", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches_glob(pattern, text), expected, "{pattern} {text}");
        }
        let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(500));
        assert!(!matches_glob(&pattern, &text));
    }

    #[test]
    fn operation_must_match_both_tag_and_method_of_the_filter() {
        let filter = OperationFilter::default().tags(vec!["Pets".into()]).unwrap().methods(vec!["GET".into()]).unwrap();
        assert!(filter.matches("/a", "get", None, ["pets"].into_iter()));
        assert!(!filter.matches("/a", "put", None, ["pets"].into_iter()));
        assert!(!filter.matches("/a", "get", None, ["shops"].into_iter()));
        assert!(OperationFilter::default().methods(vec!["fetch".into()]).is_err());
        assert!(OperationFilter::default().paths(vec!["x".into(); 201]).is_err());
    }
}
