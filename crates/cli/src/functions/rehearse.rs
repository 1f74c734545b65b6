//! What a worker needs to run the instances of a branch: `duramen fn worker --branch NAME`.

use super::{
    adopt::Rule,
    handle::{note, Handle, Place},
    worker::Work,
};
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output, progress,
};
use clap::Args;
use duramen_api::model::{BranchView, Policy};
use duramen_client::ClientError;
use duramen_functions::{
    rehearsal::{AnswerList, Answers, Rehearsal},
    schema,
    worker::{Ended, Monitor, RestError},
};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::time::sleep;

/// The largest file of answers.
const ANSWERS_BYTES: u64 = 64 << 20;
/// How often the daemon is asked whether the branch is still there.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Stands for what earlier instances were answered, in the place of a file.
const RECORD: &str = "record";

#[derive(Debug, Args)]
#[command(next_help_heading = "Rehearsal in a branch")]
pub(crate) struct Rehearse {
    /// Run the instances that a branch was copied with, without touching the original
    #[arg(long, value_name = "NAME", requires = "external", conflicts_with = "url")]
    branch: Option<String>,
    /// What becomes of steps that reach outside: HTTP calls, steps in another database, tasks
    #[arg(long, value_enum, value_name = "RULE", requires = "branch")]
    external: Option<Rule>,
    /// With --external=stub: a TOML or JSON file with answers for such steps; or `record`, the answer that the same step of an
    /// earlier instance was given (a file of that name is ./record)
    #[arg(long, value_name = "FILE|record", requires = "branch")]
    answers: Option<PathBuf>,
    /// A step without an answer fails; otherwise its result is null
    #[arg(long, requires = "answers")]
    answers_strict: bool,
}

/// A branch that is ready to be worked in.
pub(super) struct Begun {
    branch: BranchView,
    pub(super) rehearsal: Option<Rehearsal>,
}

/// The database that is meant; if it is a branch's, its instances are its own by then.
pub(super) async fn begin(
    context: &Context,
    place: &Place,
    work: &Work,
) -> Result<(Handle, Option<Begun>), Failure> {
    let Rehearse { branch: Some(name), external: Some(rule), answers, answers_strict } = &work.rehearse
    else {
        return Ok((Handle::new(context, place, work.url.as_ref())?, None));
    };
    if place.is_named() {
        return Err(Failure::Usage("--url and --branch name two databases; pass one of them".to_owned()));
    }
    if answers.is_some() && !matches!(rule, Rule::Stub) {
        return Err(Failure::Usage("--answers are those of --external=stub".to_owned()));
    }
    // A file that cannot be read is told before anything is changed.
    let listed = match answers {
        Some(path) if path != Path::new(RECORD) => Some(read(path)?),
        _ => None,
    };
    let mut connection = context.connect().await?;
    let branch = connection.branch(name).await?;
    let writes = matches!(branch.policy, Policy::ReadWrite | Policy::Ddl);
    if !writes || branch.holder.is_some() && branch.policy != Policy::Ddl {
        let why = match branch.holder {
            Some(_) if writes => "was leased by the holder of a token, who would get more rights by it",
            _ => "may not be written to as the owner of its functions",
        };
        return Err(Failure::Usage(format!(
            "branch {name:?} has the policy {} and {why}: rehearse in one with --policy ddl",
            branch.policy
        )));
    }
    let administrator = connection.administrator_url(name).await?.url;
    let url = schema::as_owner(&administrator, &branch.url).await?;
    // An import takes SECURITY DEFINER from what superusers owned, and the functions of `df` need it.
    schema::install(&url).await?;
    let adopted = progress::during("adopting", schema::adopt_as(&url, rule.external())).await?;
    if let Some(many) = adopted.instances {
        note(format_args!(
            "branch {name} has adopted {many} instances that go on; what they do outside: {}",
            rule.external().name()
        ));
    }
    let answers = match (listed, answers) {
        (Some(listed), _) => listed,
        (None, Some(_)) => Answers::of_record(branch.created_at),
        (None, None) => Answers::none(),
    };
    let answers = if *answers_strict { answers.strict() } else { answers };
    let rehearsal = match rule {
        Rule::Skip => Some(Rehearsal::Skip),
        Rule::Stub => Some(Rehearsal::Stub(answers)),
        Rule::Run => None,
    };
    Ok((Handle::at(context, url)?, Some(Begun { branch, rehearsal })))
}

fn read(path: &Path) -> Result<Answers, Failure> {
    let mut text = String::new();
    let file = File::open(path).map_err(Failure::io("open", path))?;
    let size = file.take(ANSWERS_BYTES + 1).read_to_string(&mut text).map_err(Failure::io("read", path))?;
    let bad = |cause: String| Failure::Usage(format!("{}: {cause}", path.display()));
    if u64::try_from(size).is_ok_and(|size| size > ANSWERS_BYTES) {
        return Err(bad(format!("it has more than {ANSWERS_BYTES} bytes; give answers in fewer words")));
    }
    let list: AnswerList = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| bad(format!("it is not JSON of answers: {error}")))?
    } else {
        toml::from_str(&text).map_err(|error| bad(format!("it is not TOML of answers: {error}")))?
    };
    Answers::listed(list).map_err(|error| bad(error.to_string()))
}

/// Returns when the branch is not what it was: destroyed, or put back to a snapshot. A daemon that does not answer for a while
/// may have handed its branches to the next.
pub(super) async fn is_gone(context: &Context, begun: Option<&Begun>, monitor: &Monitor) -> Failure {
    let Some(Begun { branch, .. }) = begun else { return std::future::pending().await };
    let is_destroyed = async {
        loop {
            sleep(ASK_EVERY).await;
            let Ok(mut connection) = context.connect().await else { continue };
            match connection.branch(&branch.name).await {
                Ok(found) if found.id != branch.id => return,
                Err(ClientError::Refused { body, .. }) if body.code == "not_found" => return,
                Ok(_) | Err(_) => {}
            }
        }
    };
    tokio::select! {
        () = is_destroyed => Failure::Other(format!(
            "branch {:?} was destroyed, or its lease has ended, while the worker ran in it; the original is as it was: make \
             another with `duramen branch create`",
            branch.name
        )),
        error = monitor.is_replaced() => replaced(error),
    }
}

pub(super) fn replaced(error: RestError) -> Failure {
    Failure::Other(format!("it was put back, or replaced, while the worker ran: {error}"))
}

/// Says how what ran has ended.
pub(super) fn tell(handle: &Handle, ended: &Ended) -> Outcome {
    if handle.json {
        output::json(ended)?;
    } else {
        let Ended { completed, failed, cancelled, waiting, .. } = ended;
        output::line(format_args!(
            "idle: {completed} completed, {failed} failed, {cancelled} cancelled, {waiting} still waiting"
        ));
        for it in &ended.failures {
            let label = it.label.as_ref().map_or_else(String::new, |label| format!(" {label:?}"));
            output::line(format_args!(
                "failed: {}{label}: {}",
                it.id,
                it.error.as_deref().unwrap_or_default()
            ));
        }
    }
    Ok(if ended.failed + ended.cancelled > 0 { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
