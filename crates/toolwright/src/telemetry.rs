//! Logs: structured lines on stderr, filtered by `RUST_LOG`.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::LogFormat;

/// Starts logging. A second start, as in tests, changes nothing.
pub fn start(format: LogFormat) {
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = tracing_subscriber::registry().with(lines).with(filter()).try_init();
}

/// By target and level alone: a filter that knows spans would be asked whenever one is entered, by every thread.
fn filter() -> Targets {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|wanted| wanted.parse().ok());
    let by_default = || Targets::new().with_default(LevelFilter::INFO).with_targets(quiet(["sqlx", "hyper"]));
    // At their finer levels these crates would write prompts, answers and what tools are called with.
    wanted.unwrap_or_else(by_default).with_targets(quiet(["rmcp"])).with_target("genai", LevelFilter::OFF)
}

fn quiet<const N: usize>(targets: [&'static str; N]) -> [(&'static str, LevelFilter); N] {
    targets.map(|target| (target, LevelFilter::WARN))
}
