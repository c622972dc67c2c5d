//! Logs: structured lines on stderr, filtered by `RUST_LOG`.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::LogFormat;

/// What is logged when `RUST_LOG` does not say.
const USUAL: &str = "info,sqlx=warn,hyper=warn";

/// At finer levels these crates would write prompts, answers and what tools are called with.
const TALKATIVE: [(&str, LevelFilter); 2] = [("genai", LevelFilter::OFF), ("rmcp", LevelFilter::WARN)];

/// Starts logging. A second start, as in tests, changes nothing.
pub fn start(format: LogFormat) {
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let _ = tracing_subscriber::registry().with(lines).with(filter(&wanted)).try_init();
}

/// By target and level alone: a filter that knows spans would be asked whenever one is entered, by every thread.
fn filter(wanted: &str) -> Targets {
    let wanted = if wanted.trim().is_empty() { USUAL } else { wanted };
    let wanted: Targets = wanted.parse().or_else(|_| USUAL.parse()).unwrap_or_default();
    let default = wanted.default_level().unwrap_or(LevelFilter::ERROR);
    let is_talkative = |target: &str| TALKATIVE.iter().any(|(talkative, _)| target.starts_with(talkative));
    let others = wanted.into_iter().filter(|(target, _)| !is_talkative(target));
    Targets::new().with_default(default).with_targets(others).with_targets(TALKATIVE)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn what_is_logged_is_chosen_by_target_and_level_and_some_crates_stay_quiet() {
        for (wanted, target, level, logged) in [
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
            assert_eq!(filter(wanted).would_enable(target, &level), logged, "`{wanted}`: {target} at {level}");
        }
    }
}
