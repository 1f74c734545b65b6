//! `agents`: the coding agents that can be asked for changes.

use super::handle::Handle;
use crate::{context::Outcome, output};
use duramen_experiment::agents::{Agent, Prompt, AGENTS};
use serde_json::json;
use std::process::ExitCode;

pub(super) const AGENTS_EXAMPLES: &str = "\
Examples:
  duramen lab experiment agents
  duramen lab experiment agents --json
  duramen lab experiment run --agent claude --for 16h

Within its walls an agent gets copies of the files of the home that are named here, and these variables of the environment.
Any other program proposes by `run --propose COMMAND`.";

pub(super) fn list(handle: &Handle<'_>) -> Outcome {
    let found: Vec<_> = AGENTS.iter().map(|agent| (agent, agent.installed())).collect();
    let document: Vec<_> =
        found.iter().map(|(agent, path)| json!({ "agent": agent, "installed": path })).collect();
    handle.report(&document, || {
        let rows = found.iter().map(|(agent, path)| {
            let path = path
                .as_ref()
                .map_or_else(|| format!("no: {}", agent.install), |path| path.display().to_string());
            [
                agent.name.to_owned(),
                command(agent),
                told(agent.prompt).to_owned(),
                agent.checked.to_owned(),
                output::printable(&path),
            ]
        });
        let mut text =
            output::table(["AGENT", "COMMAND WITHIN WALLS", "PROMPT", "CHECKED WITH", "INSTALLED"], rows);
        for (agent, _) in &found {
            let all = [agent.env, agent.home].concat().join(" ");
            text.push_str(&format!("{} gets: {all}\n", agent.name));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

fn command(agent: &Agent) -> String {
    let all = [&[agent.program], agent.arguments, agent.shut_in].concat();
    all.join(" ")
}

fn told(prompt: Prompt) -> &'static str {
    match prompt {
        Prompt::Stdin => "standard input",
        Prompt::Argument(_) => "argument",
        Prompt::File(_) => "file",
    }
}
