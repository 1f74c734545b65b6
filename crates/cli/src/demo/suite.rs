//! The other parts of the demo: suites of the lab, each in a process of its own, so that none shares memory or threads
//! with another.

use super::{interrupted, interruption, Part, Story};
use crate::{context::Context, failure::Failure, lab, progress};
use duramen_measure::evidence::Evidence;
use std::{
    path::PathBuf,
    process::{Output, Stdio},
};
use tokio::process::{Child, Command};

/// A part that is shown by running its suite.
pub(super) struct Script {
    /// What is shown, in a few words.
    heading: &'static str,
    /// And in a sentence.
    words: &'static str,
    /// The suite with its options.
    arguments: &'static [&'static str],
}

/// How a part is shown; nothing for branches, which are shown step by step.
pub(super) fn script(part: Part) -> Option<Script> {
    let (heading, words, arguments): (_, _, &[&str]) = match part {
        Part::Branches => return None,
        Part::Store => (
            "The store: 200,000 pairs, forks, diffs and merges at three levels of durability",
            "An embedded database. Every operation is counted: what it writes to the log, and how often the disk is waited \
             for.",
            &["store", "--rows", "200000", "--vectors", "20000", "--seconds", "0.1"],
        ),
        Part::Functions => (
            "Durable functions: SQL that survives kills of its worker and of its server",
            "A PostgreSQL and a worker of the demo's own; a ledger in another table counts every effect.",
            &["functions", "--phase", "quick", "--seconds", "0.5"],
        ),
        Part::Packs => (
            "Packs: access graphs of 10,000 and 100,000 grants, against SQLite on the same rows",
            "Every engine runs in a process of its own, and what it read is compared with what was written.",
            &["packs", "--grants", "10000,100000", "--rounds", "1"],
        ),
        Part::Replication => (
            "Synchronous replication: a VACUUM on the primary, a reader on the standby, and no commit returns",
            "A primary and a synchronous standby of the demo's own; the cause is looked up while it lasts.",
            &["replication", "S2", "S8", "--quick"],
        ),
    };
    Some(Script { heading, words, arguments })
}

/// Runs the suite of a part, and tells what was checked.
pub(super) async fn show(
    context: &Context,
    story: &Story,
    part: Part,
    script: Script,
    [json, html]: [PathBuf; 2],
) -> Result<Evidence, Failure> {
    let Script { heading, words, arguments } = script;
    story.heading(heading);
    story.say(words);
    let program = lab::own_program()?;
    let mut command = Command::new(&program);
    command.arg("--home").arg(&context.home).args(["lab", "run"]).args(arguments);
    command.arg("--json").arg(&json).arg("--html").arg(&html);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(Failure::io("start", &program))?;
    let output = progress::during(&format!("measuring {}", part.name()), finished(child)).await?;
    // 1 and 3 are verdicts, which the document holds as well.
    if !matches!(output.status.code(), Some(0 | 1 | 3)) || !json.exists() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::Other(format!("the suite {} did not run: {said}", part.name())));
    }
    let evidence = Evidence::read(&json).map_err(|error| Failure::Other(error.to_string()))?;
    story.say(&duramen_reports::text::checks(&evidence));
    Ok(evidence)
}

/// Waits for a suite. When the demo is interrupted the suite is told to end, and clears up after itself.
async fn finished(child: Child) -> Result<Output, Failure> {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    let output = child.wait_with_output();
    let mut output = std::pin::pin!(output);
    let failed = Failure::io("wait for", "the suite".as_ref());
    tokio::select! {
        output = output.as_mut() => return output.map_err(failed),
        () = interruption() => {}
    }
    if let Some(id) = id {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
    let _ = output.await;
    Err(interrupted())
}
