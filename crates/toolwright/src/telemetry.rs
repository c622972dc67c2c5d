//! Logging: structured lines on stderr, filtered by `RUST_LOG`.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::LogFormat;

/// The filter that is used if `RUST_LOG` is absent or invalid.
const DEFAULT_FILTER: &str = "info,sqlx=warn,hyper=warn";

/// The most verbose log levels of these crates. `RUST_LOG` cannot exceed them, because at more verbose levels the
/// crates log prompts, replies and tool inputs.
const LEVEL_CAPS: [(&str, LevelFilter); 2] = [("genai", LevelFilter::OFF), ("rmcp", LevelFilter::WARN)];

/// Installs the global subscriber. Later calls have no effect.
pub(crate) fn start(format: LogFormat) {
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let _ = tracing_subscriber::registry().with(layer).with(filter(&directives)).try_init();
}

/// Builds a filter that depends only on target and level. A filter that depends on spans would cost time whenever a
/// thread enters a span.
fn filter(directives: &str) -> Targets {
    let directives = if directives.trim().is_empty() { DEFAULT_FILTER } else { directives };
    let directives: Targets = directives.parse().or_else(|_| DEFAULT_FILTER.parse()).unwrap_or_default();
    let default = directives.default_level().unwrap_or(LevelFilter::ERROR);
    let is_capped = |target: &str| LEVEL_CAPS.iter().any(|(capped, _)| target.starts_with(capped));
    let others = directives.into_iter().filter(|(target, _)| !is_capped(target));
    Targets::new().with_default(default).with_targets(others).with_targets(LEVEL_CAPS)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn log_filter_selects_by_target_and_level_and_limits_verbose_crates() {
        for (directives, target, level, logged) in [
            ("", "toolwright_engine", Level::INFO, true),
            ("", "toolwright_engine", Level::DEBUG, false),
            ("", "sqlx::query", Level::INFO, false),
            ("toolwright_engine=loud", "toolwright_engine", Level::INFO, true),
            ("off", "toolwright_engine", Level::ERROR, false),
            ("toolwright_mcp=debug", "toolwright_mcp::server", Level::DEBUG, true),
            ("toolwright_mcp=debug", "toolwright_engine", Level::INFO, false),
            ("toolwright_mcp=debug", "toolwright_engine", Level::ERROR, true),
            ("trace", "toolwright_engine", Level::TRACE, true),
            ("trace", "rmcp::transport", Level::INFO, false),
            ("trace,rmcp::transport=trace,genai=debug", "rmcp::transport", Level::INFO, false),
            ("trace,rmcp::transport=trace,genai=debug", "rmcp::transport", Level::WARN, true),
            ("trace,genai::client=debug", "genai::client", Level::ERROR, false),
        ] {
            assert_eq!(filter(directives).would_enable(target, &level), logged, "`{directives}`: {target} at {level}");
        }
    }
}
