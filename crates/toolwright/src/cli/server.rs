//! Implements `toolwright server`, which shows the status of the server.

use toolwright_api::wire::ServerView;

use super::Context;
use super::client::SERVER;
use super::exit::Exit;
use super::failure::Failure;
use super::fields;
use super::follow::pluralize;
use super::output::sanitize_line;

/// Arguments of `server` (none).
#[derive(clap::Args)]
pub(crate) struct ServerArgs {}

/// Shows the server's version, the state of its components, and the languages of its sandbox. The exit code is 7 if a
/// component does not work.
pub(super) async fn run(cx: &Context) -> Result<Exit, Failure> {
    let response = cx.client.get(SERVER, &[]).await?;
    let server: ServerView = response.read()?;
    let exit = if server.healthy { Exit::Ok } else { Exit::Unavailable };
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(exit);
    }
    let administration = server.administration.as_ref();
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let disk = administration.and_then(|view| Some((view.disk_free_bytes?, view.disk_total_bytes?)));
    let fields = [
        ("version", server.version.clone()),
        ("features", server.features.join(", ")),
        ("database", server.database.clone()),
        ("data", administration.map(|view| view.data_folder.clone()).unwrap_or_default()),
        ("disk", disk.map(|(free, total)| format!("{} of {} free", gib(free), gib(total))).unwrap_or_default()),
        ("running", administration.map(|view| pluralize(view.running_runs, "run")).unwrap_or_default()),
    ];
    fields::print_labeled(&cx.output, &fields.map(|(label, value)| (label, sanitize_line(&value))))?;
    cx.output.line("")?;
    for part in &server.parts {
        cx.output.line(line(cx, part.ok, &part.part, part.message.as_deref()))?;
    }
    for language in &server.languages {
        cx.output.line(line(cx, language.available, &language.language, language.reason.as_deref()))?;
    }
    Ok(exit)
}

fn line(cx: &Context, works: bool, name: &str, message: Option<&str>) -> String {
    let mark = if works { cx.output.out.good('✓') } else { cx.output.out.bad('✗') };
    format!("{mark} {:<10}  {}", sanitize_line(name), sanitize_line(message.unwrap_or("ok")))
}
