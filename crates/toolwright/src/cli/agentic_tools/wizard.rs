//! Asks for the fields of a new agentic tool at a terminal, shows a preview and creates the tool.

use serde_json::{Number, Value, json};
use toolwright_api::wire::{ModelView, PageView, PromptTestView};
use toolwright_types::ExecutionMode;

use crate::cli::Context;
use crate::cli::client::{AGENTIC_TOOLS, MODELS, TOOLS, parse_name, path};
use crate::cli::editor;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::output::{sanitize, sanitize_line};
use crate::cli::prompt::{KeyInput, LineInput, Prompter};
use crate::cli::suggest;

use super::create;
use super::draft::{Draft, DraftTool, parse_mode};
use super::prompts::show_text;
use super::update::SetArgs;

/// The limits that the wizard asks for: the field, the question and the server's default.
const LIMITS: [(&str, &str, &str); 3] = [
    ("maxSteps", "maximum number of steps", "10"),
    ("maxDurationSeconds", "maximum time in seconds", "300"),
    ("maxTotalCost", "maximum cost in US dollars", "1"),
];
const SAVE_KEYS: &str = "adeq";

/// Asks for the fields that the options do not set, and creates the tool.
pub(super) async fn run(cx: &Context, draft: Draft, set: &SetArgs, status: Option<&str>) -> Result<Exit, Failure> {
    let wizard = Wizard { cx, prompter: Prompter::new(&[], None)? };
    let created = wizard.create(draft, set, status).await;
    if let Err(Failure::Interrupted) = created {
        cx.output.note("nothing was created");
    }
    created
}

struct Wizard<'a> {
    cx: &'a Context,
    prompter: Prompter,
}

impl Wizard<'_> {
    async fn create(&self, draft: Draft, set: &SetArgs, status: Option<&str>) -> Result<Exit, Failure> {
        self.hint("Enter accepts the default in brackets, Tab completes, Ctrl-C stops.");
        let mut body = self.ask_all(draft).await?.body();
        set.merge_into(&mut body)?;
        loop {
            self.preview(&body).await?;
            let key = match status {
                Some("draft") => 'd',
                Some(_) => 'a',
                None => self.ask_key().await?,
            };
            match key {
                'q' => {
                    self.cx.output.note("nothing was created");
                    return Ok(Exit::Ok);
                }
                'e' => body = self.edit(body).await?,
                key => {
                    create::set_status(&mut body, if key == 'd' { "draft" } else { "active" });
                    match create::create(self.cx, &body).await {
                        Ok(tool) => return self.show_next_step(&tool),
                        Err(Failure::Refused(refusal)) if status.is_none() && refusal.problem.status < 500 => {
                            Failure::Refused(refusal).print(&self.cx.output);
                            body = self.edit(body).await?;
                        }
                        Err(other) => return Err(other),
                    }
                }
            }
        }
    }

    async fn ask_all(&self, mut draft: Draft) -> Result<Draft, Failure> {
        while draft.name.is_empty() {
            draft.name = self.ask("name").await?;
        }
        let mode = match draft.mode {
            Some(mode) => mode,
            None => self.ask_mode().await?,
        };
        draft.mode = Some(mode);
        if draft.model.is_none() {
            draft.model = self.ask_model().await?;
        }
        if draft.tools.is_empty() {
            draft.tools = self.ask_tools(mode).await?;
        }
        self.prompter.complete_with(Vec::new());
        if draft.description.is_none() {
            draft.description = self.ask_optional("description, for callers and for the prompt").await?;
        }
        for (field, question, default) in LIMITS {
            if let Some(limit) = self.ask_number(question, default).await? {
                draft.limits.insert(field.to_owned(), Value::Number(limit));
            }
        }
        Ok(draft)
    }

    async fn ask_mode(&self) -> Result<ExecutionMode, Failure> {
        self.hint("deterministic: the model plans the parameters of a fixed sequence of tools");
        self.hint("agentic: the model selects the tools and reviews each result");
        self.complete_with(&["deterministic", "agentic"]);
        loop {
            let answer = self.ask("mode [agentic]").await?;
            match parse_mode(if answer.is_empty() { "agentic" } else { &answer }) {
                Some(mode) => return Ok(mode),
                None => self.cx.output.note(format!("  must be `deterministic` or `agentic`, got `{answer}`")),
            }
        }
    }

    async fn ask_model(&self) -> Result<Option<String>, Failure> {
        let models = self.models().await;
        let default = models.iter().find(|model| model.is_default).map(model_name);
        let default = default.map(|name| format!(": {name}")).unwrap_or_default();
        self.prompter.complete_with(models.iter().map(model_name).collect());
        self.ask_optional(&format!("model [server default{default}]")).await
    }

    /// The models that the server knows. They are only for completion, so errors are ignored.
    async fn models(&self) -> Vec<ModelView> {
        let response = self.cx.client.get(MODELS, &[("limit", "100".to_owned())]).await;
        let page = response.and_then(|response| response.read::<PageView<ModelView>>());
        page.map(|page| page.items).unwrap_or_default()
    }

    async fn ask_tools(&self, mode: ExecutionMode) -> Result<Vec<DraftTool>, Failure> {
        let deterministic = mode == ExecutionMode::Deterministic;
        let mut tools: Vec<DraftTool> = Vec::new();
        let names = suggest::names(&self.cx.client, TOOLS).await;
        loop {
            self.prompter.complete_with(names.clone());
            let end = if tools.is_empty() { "" } else { " [no more]" };
            let noun = if deterministic { "tool of step" } else { "tool" };
            let name = self.ask(&format!("{noun} {}{end}", tools.len() + 1)).await?;
            if name.is_empty() && !tools.is_empty() {
                return Ok(tools);
            }
            if name.is_empty() {
                self.cx.output.note("  at least one tool is required");
                continue;
            }
            if !self.tool_exists(&name, &names).await? {
                continue;
            }
            self.prompter.complete_with(Vec::new());
            let purpose = if deterministic { self.ask_optional("  purpose of this step").await? } else { None };
            tools.push(DraftTool { reference: name, purpose });
        }
    }

    /// Whether a tool exists. If not, prints similar names.
    async fn tool_exists(&self, name: &str, names: &[String]) -> Result<bool, Failure> {
        let found = match parse_name(name) {
            Ok(name) => self.cx.client.get(&path(TOOLS, &name), &[]).await,
            Err(error) => {
                self.cx.output.note(format!("  {error}"));
                return Ok(false);
            }
        };
        match found {
            Ok(_) => Ok(true),
            Err(Failure::Refused(refusal)) if refusal.problem.status == 404 => {
                let hint = suggest::did_you_mean(name, names.iter().map(String::as_str));
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                self.cx.output.note(sanitize_line(&format!("  there is no tool `{name}`{hint}")));
                Ok(false)
            }
            Err(other) => Err(other),
        }
    }

    async fn ask_number(&self, question: &str, default: &str) -> Result<Option<Number>, Failure> {
        loop {
            let Some(answer) = self.ask_optional(&format!("{question} [{default}]")).await? else { return Ok(None) };
            match serde_json::from_str(&answer) {
                Ok(number) => return Ok(Some(number)),
                Err(_) => self.cx.output.note(format!("  must be a number, got `{answer}`")),
            }
        }
    }

    /// Prints the definition, and the prompt that the server renders for it.
    async fn preview(&self, body: &Value) -> Result<(), Failure> {
        let out = &self.cx.output;
        let json = serde_json::to_string_pretty(body).unwrap_or_default();
        out.line(format!("\n{}\n{}\n", out.out.dim("definition"), sanitize(&json)))?;
        let request = json!({ "tool": body, "params": { "task": "(the task of the call)" } });
        match self.cx.client.post(&format!("{AGENTIC_TOOLS}/test-prompt"), &request).await {
            Ok(response) => {
                let test: PromptTestView = response.read()?;
                let title =
                    if body.get("systemPrompt").is_some() { "system prompt" } else { "generated system prompt" };
                show_text(out, title, &test.system_prompt)?;
            }
            Err(Failure::Refused(refusal)) => drop(Failure::Refused(refusal).print(out)),
            Err(other) => return Err(other),
        }
        Ok(())
    }

    async fn ask_key(&self) -> Result<char, Failure> {
        let paint = self.cx.output.out;
        let prompt = format!(
            "\n{} save as active  {} save as draft  {} edit the definition  {} quit › ",
            paint.good('a'),
            paint.good('d'),
            paint.warn('e'),
            paint.bad('q')
        );
        match self.prompter.read_key(&prompt, SAVE_KEYS).await {
            KeyInput::Key(key) => Ok(key),
            KeyInput::Line(_) | KeyInput::Interrupted | KeyInput::Eof => Err(Failure::Interrupted),
        }
    }

    /// Lets the user edit the definition. Returns it unchanged if the user aborts.
    async fn edit(&self, body: Value) -> Result<Value, Failure> {
        let edited = editor::edit_json(&self.cx.output, &self.prompter, &body, "go on with it").await?;
        Ok(edited.unwrap_or(body))
    }

    fn show_next_step(&self, tool: &Value) -> Result<Exit, Failure> {
        let name = text(tool, "slug");
        let next = match text(tool, "status").as_str() {
            "draft" => format!("activate it with `toolwright agentic-tools enable {name}`"),
            _ => format!("call it with `toolwright agentic-tools invoke {name} TASK`"),
        };
        self.hint(&next);
        Ok(Exit::Ok)
    }

    /// Reads an answer. Ctrl-C and Ctrl-D stop the questions.
    async fn ask(&self, question: &str) -> Result<String, Failure> {
        let prompt = format!("{question} {}", self.cx.output.out.good("› "));
        match self.prompter.read_line(&prompt, "").await {
            LineInput::Line(line) => Ok(line.trim().to_owned()),
            LineInput::Interrupted | LineInput::Eof => Err(Failure::Interrupted),
        }
    }

    async fn ask_optional(&self, question: &str) -> Result<Option<String>, Failure> {
        Ok(Some(self.ask(question).await?).filter(|answer| !answer.is_empty()))
    }

    fn complete_with(&self, words: &[&str]) {
        self.prompter.complete_with(words.iter().map(|word| (*word).to_owned()).collect());
    }

    fn hint(&self, text: &str) {
        self.cx.output.note(self.cx.output.err.dim(text));
    }
}

fn model_name(model: &ModelView) -> String {
    let provider = model.provider.as_ref().map(|provider| format!("{provider}/")).unwrap_or_default();
    format!("{provider}{}", model.name)
}
