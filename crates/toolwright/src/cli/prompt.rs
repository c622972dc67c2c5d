//! Reads interactive input: lines with editing and history, or single keys. If standard input is not a terminal, reads
//! its lines.
//!
//! Reading blocks a thread. It therefore runs on a thread of its own, and the caller can stop waiting for the result.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, Helper, KeyCode,
    KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::oneshot;

use super::failure::Failure;

/// The maximum number of lines in the history.
const MAX_HISTORY_LINES: usize = 1_000;

/// The result of reading a line.
pub(super) enum LineInput {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of standard input.
    Eof,
}

/// The result of reading a key.
pub(super) enum KeyInput {
    /// One of the accepted keys.
    Key(char),
    /// A line of standard input, if it is not a terminal.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of standard input.
    Eof,
}

/// Reads lines and keys from the terminal, or lines from standard input.
pub(super) struct Prompter {
    editor: Arc<Mutex<Editor<WordCompleter, FileHistory>>>,
    history: Option<PathBuf>,
}

impl Prompter {
    /// Creates a prompter that completes `commands` and keeps its history in a file, if one is given.
    pub(super) fn new(commands: &'static [&'static str], history: Option<PathBuf>) -> Result<Self, Failure> {
        let mut editor = Editor::with_history(config(), FileHistory::with_config(&config()))
            .map_err(|error| terminal_error(&error))?;
        editor.set_helper(Some(WordCompleter::commands(commands)));
        let newline = KeyEvent(KeyCode::Enter, Modifiers::ALT);
        editor.bind_sequence(newline, EventHandler::Simple(Cmd::Newline));
        if let Some(path) = &history {
            // The file may not exist yet, and an unreadable history is not an error.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor: Arc::new(Mutex::new(editor)), history })
    }

    /// Completes lines with these words from now on. Tab lists the words that begin with the line.
    pub(super) fn complete_with(&self, words: Vec<String>) {
        let mut editor = self.editor.lock().unwrap_or_else(PoisonError::into_inner);
        editor.set_helper(Some(WordCompleter { words, on_empty_line: true }));
        editor.set_completion_type(CompletionType::List);
    }

    /// Reads a line that is pre-filled with `initial`.
    pub(super) async fn read_line(&self, prompt: &str, initial: &str) -> LineInput {
        let (editor, prompt, initial) = (Arc::clone(&self.editor), prompt.to_owned(), initial.to_owned());
        run_on_thread(move || {
            let mut editor = editor.lock().unwrap_or_else(PoisonError::into_inner);
            line_input(editor.readline_with_initial(&prompt, (&initial, "")))
        })
        .await
        .unwrap_or(LineInput::Eof)
    }

    /// Reads one of `keys` without Enter.
    pub(super) async fn read_key(&self, prompt: &str, keys: &'static str) -> KeyInput {
        let prompt = prompt.to_owned();
        run_on_thread(move || key_input(&prompt, keys)).await.unwrap_or(KeyInput::Eof)
    }

    /// Adds a line to the history and to its file.
    pub(super) fn add_history(&self, line: &str) {
        let mut editor = self.editor.lock().unwrap_or_else(PoisonError::into_inner);
        // A history that cannot be written must not interrupt the conversation.
        let _ = editor.add_history_entry(line);
        if let Some(path) = &self.history {
            let _ = path.parent().map(std::fs::create_dir_all);
            let _ = editor.append_history(path);
        }
    }
}

/// Returns the path of a file in the XDG state directory.
pub(super) fn state_file(name: &str) -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = state.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    Some(state.join("toolwright").join(name))
}

fn config() -> Config {
    let builder = Config::builder().auto_add_history(false).bracketed_paste(true);
    // This cannot fail, because the size is not zero.
    builder.max_history_size(MAX_HISTORY_LINES).map_or_else(|_| Config::default(), |builder| builder.build())
}

fn key_input(prompt: &str, keys: &'static str) -> KeyInput {
    let key = Arc::new(Mutex::new(None));
    let editor: Result<Editor<(), FileHistory>, _> = Editor::with_config(config());
    let Ok(mut editor) = editor else { return KeyInput::Eof };
    editor.bind_sequence(Event::Any, EventHandler::Conditional(Box::new(AcceptKey { keys, key: Arc::clone(&key) })));
    let line_input = line_input(editor.readline(prompt));
    let key = key.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (key, line_input) {
        (Some(key), _) => KeyInput::Key(key),
        (None, LineInput::Line(line)) => KeyInput::Line(line),
        (None, LineInput::Interrupted) => KeyInput::Interrupted,
        (None, LineInput::Eof) => KeyInput::Eof,
    }
}

fn line_input(read: Result<String, ReadlineError>) -> LineInput {
    match read {
        Ok(line) => LineInput::Line(line),
        Err(ReadlineError::Interrupted) => LineInput::Interrupted,
        Err(_) => LineInput::Eof,
    }
}

fn terminal_error(error: &ReadlineError) -> Failure {
    Failure::Usage(format!("cannot use the terminal: {error}"))
}

/// Runs blocking work on a thread that does not delay the exit of the program.
async fn run_on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, waiting) = oneshot::channel();
    std::thread::spawn(move || {
        // Sending fails if the caller no longer waits for the result.
        let _ = done.send(work());
    });
    waiting.await.ok()
}

/// Accepts the line as soon as one of the keys is pressed, and ignores other keys.
struct AcceptKey {
    keys: &'static str,
    key: Arc<Mutex<Option<char>>>,
}

impl ConditionalEventHandler for AcceptKey {
    fn handle(&self, event: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        let KeyEvent(code, modifiers) = *event.get(0)?;
        if modifiers.contains(Modifiers::CTRL) {
            return None;
        }
        let KeyCode::Char(key_input) = code else { return Some(Cmd::Noop) };
        let key_input = key_input.to_ascii_lowercase();
        if !self.keys.contains(key_input) {
            return Some(Cmd::Noop);
        }
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key_input);
        Some(Cmd::AcceptLine)
    }
}

/// Completes a line with one of the words.
struct WordCompleter {
    words: Vec<String>,
    /// Whether an empty line is completed too.
    on_empty_line: bool,
}

impl WordCompleter {
    /// Completes slash commands.
    fn commands(commands: &[&str]) -> Self {
        Self { words: commands.iter().map(|command| (*command).to_owned()).collect(), on_empty_line: false }
    }
}

impl Completer for WordCompleter {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let prefix = line.get(..at).unwrap_or_default();
        let completes = self.on_empty_line || !prefix.is_empty();
        let matches = self.words.iter().filter(|word| completes && word.starts_with(prefix));
        Ok((0, matches.cloned().collect()))
    }
}

impl Hinter for WordCompleter {
    type Hint = String;
}
impl Highlighter for WordCompleter {}
impl Validator for WordCompleter {}
impl Helper for WordCompleter {}
