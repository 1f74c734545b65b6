//! Coding agents that a series can ask for changes: a row each. What they are given and asked for is in
//! `docs/design/experiments.md`, "The proposer".

use duramen_base::suggest;
use serde::Serialize;
use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The variable that holds the path of the file with the prompt.
pub(crate) const PROMPT_VARIABLE: &str = "DURAMEN_PROMPT";

/// How the prompt gets to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// On its standard input.
    Stdin,
    /// As its last argument, after this option where there is one.
    Argument(Option<&'static str>),
    /// In a file, whose path follows this option.
    File(&'static str),
}

/// How a coding agent is run. It edits the files of the folder that it is started in, and the change is what differs when
/// it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// What it is called here.
    pub name: &'static str,
    /// The program, looked for in `PATH`.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// Those that follow when it is shut in: nobody has to be asked what it may do then.
    pub shut_in: &'static [&'static str],
    /// Those that follow when it is not.
    pub open: &'static [&'static str],
    /// How it is told.
    pub prompt: Prompt,
    /// Variables that are set for it within its walls.
    pub set: &'static [(&'static str, &'static str)],
    /// Variables of the environment that it gets within its walls: its credentials.
    pub env: &'static [&'static str],
    /// Files of the home that it gets copies of within its walls: its credentials and settings.
    pub home: &'static [&'static str],
    /// How the names of files begin that it leaves at the top of the worktree, and that are not part of a change.
    pub leaves: &'static [&'static str],
    /// How one gets it.
    pub install: &'static str,
    /// How one signs in.
    pub sign_in: &'static str,
    /// The version whose options these were held against.
    pub checked: &'static str,
}

/// All of them, by name.
pub const AGENTS: [Agent; 5] = [
    Agent {
        name: "aider",
        program: "aider",
        arguments: &[
            "--yes-always",
            "--no-auto-commits",
            "--no-dirty-commits",
            "--no-gitignore",
            "--no-check-update",
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--no-detect-urls",
            "--no-suggest-shell-commands",
            "--analytics-disable",
            "--no-pretty",
            "--no-stream",
        ],
        shut_in: &[],
        open: &[],
        prompt: Prompt::File("--message-file"),
        set: &[],
        env: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_API_BASE",
            "GEMINI_API_KEY",
            "DEEPSEEK_API_KEY",
            "OPENROUTER_API_KEY",
            "AIDER_MODEL",
        ],
        home: &[".aider.conf.yml", ".aider/oauth-keys.env"],
        leaves: &[".aider"],
        install: "pip install aider-chat",
        sign_in: "set the key of a model, such as ANTHROPIC_API_KEY (without one it waits for a browser)",
        checked: "0.86.2",
    },
    Agent {
        name: "claude",
        program: "claude",
        arguments: &["-p", "--output-format", "text", "--no-session-persistence"],
        shut_in: &["--dangerously-skip-permissions"],
        open: &["--permission-mode", "acceptEdits", "--allowedTools", "Bash,Edit,Write,Read,Glob,Grep"],
        prompt: Prompt::Stdin,
        set: &[("IS_SANDBOX", "1")],
        env: &["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "CLAUDE_CODE_OAUTH_TOKEN"],
        home: &[".claude/.credentials.json", ".claude/settings.json", ".claude.json"],
        leaves: &[],
        install: "npm install -g @anthropic-ai/claude-code",
        sign_in: "set ANTHROPIC_API_KEY, or run `claude` and sign in",
        checked: "2.1.197",
    },
    Agent {
        name: "codex",
        program: "codex",
        arguments: &["exec", "--skip-git-repo-check", "--ephemeral", "--color", "never"],
        shut_in: &["--dangerously-bypass-approvals-and-sandbox", "-"],
        open: &["--sandbox", "workspace-write", "-"],
        prompt: Prompt::Stdin,
        set: &[],
        env: &["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"],
        home: &[".codex/auth.json", ".codex/config.toml"],
        leaves: &[],
        install: "npm install -g @openai/codex",
        sign_in: "run `codex login`, or set CODEX_API_KEY",
        checked: "0.171.0",
    },
    Agent {
        name: "gemini",
        program: "gemini",
        arguments: &["--skip-trust", "--approval-mode", "yolo", "--output-format", "text"],
        shut_in: &[],
        open: &[],
        prompt: Prompt::Argument(Some("--prompt")),
        set: &[],
        env: &[
            "GEMINI_API_KEY",
            "GEMINI_MODEL",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        home: &[".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/settings.json"],
        leaves: &[],
        install: "npm install -g @google/gemini-cli",
        sign_in: "set GEMINI_API_KEY, or run `gemini` and sign in",
        checked: "0.61.0",
    },
    Agent {
        name: "opencode",
        program: "opencode",
        arguments: &["run", "--auto"],
        shut_in: &[],
        open: &[],
        prompt: Prompt::Stdin,
        set: &[],
        env: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
        home: &[".local/share/opencode/auth.json", ".config/opencode/opencode.json"],
        leaves: &[],
        install: "npm install -g opencode-ai",
        sign_in: "run `opencode auth login`",
        checked: "1.18.33",
    },
];

/// Why an agent cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// There is no row of that name.
    #[error(
        "there is no agent `{name}`{hint}; `agents` lists them, and `--propose COMMAND` runs any command"
    )]
    Unknown {
        /// The name.
        name: String,
        /// One that is much like it, in words.
        hint: String,
    },
    /// Its program is not there.
    #[error("the agent {agent} is not installed: there is no `{program}` in PATH; install it (`{install}`), then {sign_in}")]
    Missing {
        /// The agent.
        agent: &'static str,
        /// Its program.
        program: &'static str,
        /// How one gets it.
        install: &'static str,
        /// How one signs in.
        sign_in: &'static str,
    },
    /// It ends with an error each time.
    #[error(
        "the agent {agent} failed {times} times in a row ({how}); no try was begun for it. If it is not signed in, {sign_in}. \
         Within its walls it has the variables and files that `agents` lists, and those of `proposer.env` and `proposer.reads`"
    )]
    Failed {
        /// The agent.
        agent: &'static str,
        /// How often.
        times: u32,
        /// How it ended, and what it said.
        how: String,
        /// How one signs in.
        sign_in: &'static str,
    },
}

impl Agent {
    /// The row of that name.
    ///
    /// # Errors
    /// [`AgentError::Unknown`].
    pub fn find(name: &str) -> Result<&'static Agent, AgentError> {
        let hint = || {
            let close = suggest::closest(name, AGENTS.iter().map(|agent| agent.name));
            close.map(|close| format!(" (do you mean `{close}`?)")).unwrap_or_default()
        };
        let unknown = || AgentError::Unknown { name: name.to_owned(), hint: hint() };
        AGENTS.iter().find(|agent| agent.name == name).ok_or_else(unknown)
    }

    /// Where its program is, if it is installed.
    #[must_use]
    pub fn installed(&self) -> Option<PathBuf> {
        which(self.program)
    }

    /// The same, or what to do.
    ///
    /// # Errors
    /// [`AgentError::Missing`].
    pub(crate) fn found(&self) -> Result<PathBuf, AgentError> {
        let Agent { name: agent, program, install, sign_in, .. } = *self;
        self.installed().ok_or(AgentError::Missing { agent, program, install, sign_in })
    }

    /// The command that runs it by `sh -c`, with further arguments of the user's.
    pub(crate) fn command(&self, is_shut_in: bool, more: &[String]) -> String {
        let mut words = vec![quoted(self.program)];
        let of_walls = if is_shut_in { self.shut_in } else { self.open };
        // What is last stays last: `-` is where the prompt comes from.
        let (last, of_walls) = match of_walls.split_last() {
            Some((&"-", before)) => (Some("-"), before),
            _ => (None, of_walls),
        };
        words.extend(self.arguments.iter().chain(of_walls).map(|word| quoted(word)));
        words.extend(more.iter().map(|word| quoted(word)));
        words.extend(last.map(quoted));
        match self.prompt {
            Prompt::Stdin => {}
            Prompt::Argument(option) => {
                words.extend(option.map(quoted));
                words.push(format!("\"$(cat \"${PROMPT_VARIABLE}\")\""));
            }
            Prompt::File(option) => words.extend([quoted(option), format!("\"${PROMPT_VARIABLE}\"")]),
        }
        format!("exec {}", words.join(" "))
    }
}

/// The program of a name, as a shell would find it.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| is_program(path))
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
