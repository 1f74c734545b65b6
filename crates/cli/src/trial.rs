//! A command in a branch of its own, and what it changed as a change set: `duramen try`.

use crate::{
    agent,
    change::make::{self, Made},
    context::{Context, Outcome},
    failure::Failure,
    log, output,
    parse::{self, PolicyName},
};
use clap::Args;
use duramen_api::model::BranchView;
use duramen_client::run;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen try --source app --out fix.dpack -- psql -c \"UPDATE orders SET state = 'paid' WHERE id = 7\"
  duramen try --source app --policy ddl -- ./migrate.sh
  duramen change show fix.dpack
  duramen change apply fix.dpack --to postgres://app@db.example/shop
The command finds its branch in DATABASE_URL, PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE. The exit status is that of the
command; 1 if it succeeded and its change set could not be written. The branch is gone in any case. What changed is told
on the standard error.";

#[derive(Debug, Args)]
pub(crate) struct Try {
    /// The source [default: the only one]
    #[arg(long)]
    source: Option<String>,
    /// What the command may do [default: read-write]
    #[arg(long, value_enum)]
    policy: Option<PolicyName>,
    /// The file of the change set [default: the branch's name, and .dpack]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How long the branch outlives this program if it is killed; while it runs, the lease is renewed [default: 2m]
    #[arg(long, value_name = "SPAN", value_parser = parse::ttl)]
    ttl: Option<i64>,
    /// The command, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, wanted: Try) -> Outcome {
    let options = agent::options(wanted.source, wanted.policy, wanted.ttl, false, wanted.command)?;
    log::to_stderr()?;
    let client = context.client()?;
    let out = wanted.out;
    let look = async |branch: &BranchView, status: u8| -> Option<Result<Option<Made>, Failure>> {
        if status != 0 {
            return None;
        }
        let file = out.unwrap_or_else(|| make::default_file(&branch.name));
        Some(make::write(&client, &branch.name, &file).await)
    };
    let (report, made) = match run::run_with(&client, options, look).await {
        Ok(ran) => ran,
        Err(error) => return agent::not_run(error),
    };
    agent::tell(context, &report)?;
    let told = match made.flatten() {
        None if report.exit_code != 0 => "change set: none, because the command failed".to_owned(),
        None => {
            output::error(&"a signal came before the change set was written");
            return Ok(ExitCode::FAILURE);
        }
        Some(Err(error)) => {
            output::error(&format_args!("the change set was not written: {error}"));
            return Ok(ExitCode::FAILURE);
        }
        Some(Ok(None)) => "change set: none, because nothing differs".to_owned(),
        Some(Ok(Some(made))) => {
            let told = make::described(&made);
            format!("change set {told}\n{}", next_steps(&made.file))
        }
    };
    output::remark(&told);
    Ok(ExitCode::from(report.exit_code))
}

fn next_steps(file: &Path) -> String {
    let file = file.display();
    format!(
        "look at it:  duramen change show {file}\ntry it:      duramen change apply {file} --to URL --dry-run\n\
         do it:       duramen change apply {file} --to URL"
    )
}
