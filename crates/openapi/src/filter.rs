//! Which operations are wanted.

/// What an operation must be like. Kinds that are empty let everything through; of each other kind one must fit.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    tags: Vec<String>,
    paths: Vec<String>,
    methods: Vec<String>,
    operations: Vec<String>,
}

/// A filter that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFilter {
    /// Too many, or too long.
    #[error("a filter has at most {MOST} entries of at most {LONGEST} characters")]
    Size,
    /// Not a method.
    #[error("`{0}` is no method; use get, put, post, delete, options, head or patch")]
    Method(String),
}

const MOST: usize = 200;
const LONGEST: usize = 500;

/// The methods that can be tools.
pub(crate) const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

impl Filter {
    /// Lets operations through that have one of the tags, without regard to case.
    pub fn tags(mut self, tags: Vec<String>) -> Result<Self, InvalidFilter> {
        self.tags = checked(tags)?;
        Ok(self)
    }

    /// Lets operations through whose path fits one of the patterns: `*` stands for anything but `/`, `**` for anything.
    pub fn paths(mut self, patterns: Vec<String>) -> Result<Self, InvalidFilter> {
        self.paths = checked(patterns)?;
        Ok(self)
    }

    /// Lets operations of these methods through.
    pub fn methods(mut self, methods: Vec<String>) -> Result<Self, InvalidFilter> {
        self.methods = checked(methods)?.into_iter().map(|method| method.to_ascii_lowercase()).collect();
        match self.methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
            Some(unknown) => Err(InvalidFilter::Method(unknown.clone())),
            None => Ok(self),
        }
    }

    /// Lets operations through whose `operationId` fits one of the patterns.
    pub fn operations(mut self, patterns: Vec<String>) -> Result<Self, InvalidFilter> {
        self.operations = checked(patterns)?;
        Ok(self)
    }

    /// Whether everything passes.
    pub fn is_open(&self) -> bool {
        [&self.tags, &self.paths, &self.methods, &self.operations].iter().all(|kind| kind.is_empty())
    }

    pub(crate) fn admits<'t>(
        &self,
        path: &str,
        method: &str,
        id: Option<&str>,
        mut tags: impl Iterator<Item = &'t str>,
    ) -> bool {
        let mut tagged = || tags.any(|tag| self.tags.iter().any(|wanted| wanted.eq_ignore_ascii_case(tag)));
        (self.methods.is_empty() || self.methods.iter().any(|wanted| wanted == method))
            && fits(&self.paths, path)
            && (self.operations.is_empty() || id.is_some_and(|id| fits(&self.operations, id)))
            && (self.tags.is_empty() || tagged())
    }
}

fn checked(entries: Vec<String>) -> Result<Vec<String>, InvalidFilter> {
    let fits = entries.len() <= MOST && entries.iter().all(|entry| entry.len() <= LONGEST);
    fits.then_some(entries).ok_or(InvalidFilter::Size)
}

/// Whether a text fits one of the patterns, or there are none: `*` stands for anything but `/`, `**` for anything.
pub fn fits(patterns: &[String], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text))
}

/// Whether a text fits a pattern. Goes back to the last `*` only, which is enough, and takes linear time for each.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when a star has to take one character more, for the last star of each kind.
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
            (Some(wanted), Some(found)) if wanted == found => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            _ => {}
        }
        let [small, large] = &mut stars;
        if let Some((after, taken)) = small
            && text.get(*taken).is_some_and(|found| *found != '/')
        {
            *taken += 1;
            (p, t) = (*after, *taken);
        } else if let Some((after, taken)) = large
            && *taken < text.len()
        {
            *taken += 1;
            (p, t) = (*after, *taken);
            *small = None;
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_stays_in_its_segment_and_two_do_not() {
        for (pattern, text, fits) in [
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
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
        let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(500));
        assert!(!matches(&pattern, &text));
    }

    #[test]
    fn every_kind_that_is_given_must_fit() {
        let filter = Filter::default().tags(vec!["Pets".into()]).unwrap().methods(vec!["GET".into()]).unwrap();
        assert!(filter.admits("/a", "get", None, ["pets"].into_iter()));
        assert!(!filter.admits("/a", "put", None, ["pets"].into_iter()));
        assert!(!filter.admits("/a", "get", None, ["shops"].into_iter()));
        assert!(Filter::default().methods(vec!["fetch".into()]).is_err());
        assert!(Filter::default().paths(vec!["x".into(); 201]).is_err());
    }
}
