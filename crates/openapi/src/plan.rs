//! A whole document as a provider and its tools.

use serde_json::Value;
use toolwright_types::{ProviderType, RefName, ToolDefinition, ToolProviderConfig};
use url::Url;

use crate::document::{Document, Refused};
use crate::filter::{Filter, METHODS};
use crate::names::Names;
use crate::operation::Operation;
use crate::reference::{escaped, follow};
use crate::{auth, servers};

/// How many operations a document may have.
const MOST_OPERATIONS: usize = 20_000;
/// How many of them are imported at once.
const MOST_TOOLS: usize = 5_000;
/// How many bytes their schemas may have together.
const MOST_BYTES: usize = 256 << 20;
/// How many oddities are told one by one.
const MOST_WARNINGS: usize = 200;

/// What is wanted of a document.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the provider is called.
    pub provider: RefName,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty.
    pub prefix: Option<String>,
    /// Where the API lives; what the document says when absent.
    pub base_url: Option<String>,
    /// Where the document came from, for servers that are relative to it.
    pub came_from: Option<Url>,
    /// Which operations.
    pub only: Filter,
}

/// What a document comes to.
#[derive(Debug)]
pub struct Plan {
    /// The provider that the tools need.
    pub provider: ToolProviderConfig,
    /// What to do about its authentication.
    pub todo: Option<String>,
    /// The tools, in the order of the document.
    pub tools: Vec<Planned>,
    /// Operations that cannot be tools.
    pub skipped: Vec<Skipped>,
    /// What is odd, by operation.
    pub warnings: Vec<String>,
    /// How many operations the document has, wanted or not.
    pub operations: usize,
}

/// A tool, and the operation it calls.
#[derive(Debug)]
pub struct Planned {
    /// Method and path.
    pub operation: String,
    /// The tool.
    pub definition: ToolDefinition,
}

/// An operation that cannot be a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Method and path.
    pub operation: String,
    /// Why not.
    pub reason: String,
}

/// Proposes a provider and its tools.
pub fn plan(document: &Document, options: &Options) -> Result<Plan, Refused> {
    let (provider, todo) = provider(document, options)?;
    let mut plan = Plan { provider, todo, tools: Vec::new(), skipped: Vec::new(), warnings: Vec::new(), operations: 0 };
    let mut names = Names::new(prefix(options)?);
    let (mut bytes, mut untold) = (0, 0);
    for operation in operations(document, &mut plan)? {
        // Named before it is filtered, so that a name does not depend on what else is wanted.
        let named = names.give(operation.id(), operation.method, operation.path);
        if !options.only.admits(operation.path, operation.method, operation.id(), operation.tags()) {
            continue;
        }
        if plan.tools.len() + plan.skipped.len() >= MOST_TOOLS {
            return Err(Refused::at(
                "/paths",
                format!("more than {MOST_TOOLS} operations are wanted; import a part of them, by tag or path"),
            ));
        }
        let Some(named) = named else {
            plan.skip(&operation, "no name can be made for it");
            continue;
        };
        let built = match operation.build(document, named.name.clone(), &options.provider) {
            Ok(built) => built,
            Err(lost) => {
                plan.skip(&operation, lost.to_string());
                continue;
            }
        };
        bytes += built.bytes;
        if bytes > MOST_BYTES {
            return Err(Refused::at(
                "/paths",
                format!(
                    "the schemas of the tools have more than {MOST_BYTES} bytes; import a part of them, by tag or path"
                ),
            ));
        }
        let renamed = named.instead_of.map(|wanted| format!("is called `{}`, because `{wanted}` is taken", named.name));
        for warning in renamed.into_iter().chain(built.warnings) {
            if plan.warnings.len() < MOST_WARNINGS {
                plan.warnings.push(format!("{}: {warning}", operation.label()));
            } else {
                untold += 1;
            }
        }
        plan.tools.push(Planned { operation: operation.label(), definition: built.definition });
    }
    if untold > 0 {
        plan.warnings.push(format!("and {untold} more"));
    }
    Ok(plan)
}

impl Plan {
    fn skip(&mut self, operation: &Operation<'_>, reason: impl Into<String>) {
        self.skipped.push(Skipped { operation: operation.label(), reason: reason.into() });
    }
}

/// Every operation, in the order of the document.
fn operations<'d>(document: &'d Document, plan: &mut Plan) -> Result<Vec<Operation<'d>>, Refused> {
    let paths = document.root.get("paths").and_then(Value::as_object);
    let mut found = Vec::new();
    for (path, item) in paths.into_iter().flatten().filter(|(path, _)| path.starts_with('/')) {
        let item = match follow(&document.root, item) {
            Ok(item) => item,
            Err(lost) => {
                plan.skipped.push(Skipped { operation: format!("/paths/{}", escaped(path)), reason: lost.to_string() });
                continue;
            }
        };
        for (method, value) in item.as_object().into_iter().flatten() {
            if let (Some(method), true) = (METHODS.iter().find(|known| *known == method), value.is_object()) {
                found.push(Operation { path, method, item, value });
            }
        }
        if found.len() > MOST_OPERATIONS {
            return Err(Refused::at(
                "/paths",
                format!("the document has more than {MOST_OPERATIONS} operations; import a smaller one"),
            ));
        }
    }
    plan.operations = found.len();
    Ok(found)
}

fn provider(document: &Document, options: &Options) -> Result<(ToolProviderConfig, Option<String>), Refused> {
    let base_url = match &options.base_url {
        Some(url) => url.clone(),
        None => servers::base_url(&document.root, options.came_from.as_ref())?,
    };
    let secret = options.provider.as_str().replace('/', "-");
    let auth = auth::of(document, &secret);
    let mut provider = ToolProviderConfig::new(options.provider.clone(), ProviderType::Rest);
    provider.description = document.about();
    provider.base_url = Some(base_url);
    provider.auth = auth.config;
    // Many answer in another format when nobody says.
    provider.default_headers.insert("Accept".into(), "application/json, */*;q=0.8".into());
    Ok((provider, auth.todo))
}

/// What stands before the names: one part of a name, or nothing.
fn prefix(options: &Options) -> Result<Option<String>, Refused> {
    let prefix = match &options.prefix {
        Some(prefix) if prefix.is_empty() => return Ok(None),
        Some(prefix) => prefix.clone(),
        None => options.provider.as_str().replace('/', "-"),
    };
    let usable = prefix.len() <= 64 && !prefix.contains('/') && format!("{prefix}/x").parse::<RefName>().is_ok();
    if usable {
        return Ok(Some(prefix));
    }
    Err(Refused::at(
        "",
        format!("`{prefix}` cannot stand before names; use up to 64 letters, digits, `_`, `.` and `-` as `prefix`"),
    ))
}
