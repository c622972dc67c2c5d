//! What a person types: lines with editing and history, and single keys. Without a terminal, the lines of standard input.
//!
//! Typing blocks, and so happens on a thread of its own; whoever asks can stop waiting for it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, Helper, KeyCode, KeyEvent,
    Modifiers, RepeatCount,
};
use tokio::sync::oneshot;

use super::failure::Failure;

/// How many lines are remembered.
const REMEMBERED: usize = 1_000;

/// What was typed.
pub enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of standard input.
    Closed,
}

/// What was pressed.
pub enum Pressed {
    /// One of the keys that were asked for.
    Key(char),
    /// A line instead, because there is no terminal.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of standard input.
    Closed,
}

/// A person, or a script in the place of one.
pub struct Keyboard {
    editor: Arc<Mutex<Editor<Commands, FileHistory>>>,
    history: Option<PathBuf>,
}

impl Keyboard {
    /// A keyboard that knows these commands, and remembers lines in a file if there is one.
    pub fn new(commands: &'static [&'static str], history: Option<PathBuf>) -> Result<Self, Failure> {
        let mut editor =
            Editor::with_history(config(), FileHistory::with_config(&config())).map_err(|error| unusable(&error))?;
        editor.set_helper(Some(Commands(commands)));
        let newline = KeyEvent(KeyCode::Enter, Modifiers::ALT);
        editor.bind_sequence(newline, EventHandler::Simple(Cmd::Newline));
        if let Some(path) = &history {
            // A first start has no history, and a broken one is not worth a failure.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor: Arc::new(Mutex::new(editor)), history })
    }

    /// A line, beginning with `initial`.
    pub async fn line(&self, prompt: &str, initial: &str) -> Typed {
        let (editor, prompt, initial) = (Arc::clone(&self.editor), prompt.to_owned(), initial.to_owned());
        on_thread(move || {
            let mut editor = editor.lock().unwrap_or_else(PoisonError::into_inner);
            typed(editor.readline_with_initial(&prompt, (&initial, "")))
        })
        .await
        .unwrap_or(Typed::Closed)
    }

    /// One of these keys, at once and without Enter.
    pub async fn key(&self, prompt: &str, keys: &'static str) -> Pressed {
        let prompt = prompt.to_owned();
        on_thread(move || pressed(&prompt, keys)).await.unwrap_or(Pressed::Closed)
    }

    /// Remembers a line, now and at the next start.
    pub fn remember(&self, line: &str) {
        let mut editor = self.editor.lock().unwrap_or_else(PoisonError::into_inner);
        // That a line cannot be remembered must not stop a conversation.
        let _ = editor.add_history_entry(line);
        if let Some(path) = &self.history {
            let _ = path.parent().map(std::fs::create_dir_all);
            let _ = editor.append_history(path);
        }
    }
}

/// Where programs keep what they remember between starts.
pub fn state_file(name: &str) -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = state.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    Some(state.join("toolwright").join(name))
}

fn config() -> Config {
    let builder = Config::builder().auto_add_history(false).bracketed_paste(true);
    // The number is not zero, so that it cannot be refused.
    builder.max_history_size(REMEMBERED).map_or_else(|_| Config::default(), |builder| builder.build())
}

fn pressed(prompt: &str, keys: &'static str) -> Pressed {
    let key = Arc::new(Mutex::new(None));
    let editor: Result<Editor<(), FileHistory>, _> = Editor::with_config(config());
    let Ok(mut editor) = editor else { return Pressed::Closed };
    editor.bind_sequence(Event::Any, EventHandler::Conditional(Box::new(OneOf { keys, key: Arc::clone(&key) })));
    let typed = typed(editor.readline(prompt));
    let key = key.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (key, typed) {
        (Some(key), _) => Pressed::Key(key),
        (None, Typed::Line(line)) => Pressed::Line(line),
        (None, Typed::Interrupted) => Pressed::Interrupted,
        (None, Typed::Closed) => Pressed::Closed,
    }
}

fn typed(read: Result<String, ReadlineError>) -> Typed {
    match read {
        Ok(line) => Typed::Line(line),
        Err(ReadlineError::Interrupted) => Typed::Interrupted,
        Err(_) => Typed::Closed,
    }
}

fn unusable(error: &ReadlineError) -> Failure {
    Failure::Usage(format!("the terminal cannot be used: {error}"))
}

/// Runs what blocks without holding up the end of the program.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, waiting) = oneshot::channel();
    std::thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = done.send(work());
    });
    waiting.await.ok()
}

/// Ends the line as soon as one of the keys is pressed, and takes no others.
struct OneOf {
    keys: &'static str,
    key: Arc<Mutex<Option<char>>>,
}

impl ConditionalEventHandler for OneOf {
    fn handle(&self, event: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        let KeyEvent(code, modifiers) = *event.get(0)?;
        if modifiers.contains(Modifiers::CTRL) {
            return None;
        }
        let KeyCode::Char(pressed) = code else { return Some(Cmd::Noop) };
        let pressed = pressed.to_ascii_lowercase();
        if !self.keys.contains(pressed) {
            return Some(Cmd::Noop);
        }
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(pressed);
        Some(Cmd::AcceptLine)
    }
}

/// Completes commands by Tab.
struct Commands(&'static [&'static str]);

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line.get(..at).unwrap_or_default();
        let fits = |command: &&&str| begun.starts_with('/') && command.starts_with(begun);
        Ok((0, self.0.iter().filter(fits).map(|command| (*command).to_owned()).collect()))
    }
}

impl Hinter for Commands {
    type Hint = String;
}
impl Highlighter for Commands {}
impl Validator for Commands {}
impl Helper for Commands {}
