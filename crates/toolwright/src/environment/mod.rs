//! The environment of the server. On Linux it is hidden from other processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

#[cfg(target_os = "linux")]
mod linux;

/// The environment variables of the server. Variables whose text is not UTF-8 are ignored.
#[derive(Clone, Default)]
pub(crate) struct Environment(Arc<BTreeMap<String, String>>);

impl Environment {
    /// Returns the environment. Hides it from other processes first, if the operating system supports this. The process
    /// may execute itself again. Must be called while the process has a single thread.
    pub(crate) fn hide() -> anyhow::Result<Self> {
        let variables: BTreeMap<String, String> = std::env::vars_os().filter_map(utf8_pair).collect();
        #[cfg(target_os = "linux")]
        let variables = linux::hide(variables)?;
        Ok(Self(Arc::new(variables)))
    }

    /// Returns the value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// Returns all variables.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn utf8_pair((name, value): (OsString, OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}
