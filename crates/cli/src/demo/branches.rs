//! The first part of the demo: real data is imported, branched a hundred times at once, and seen not to change.

use super::{Demo, Story};
use crate::{
    failure::Failure,
    lab, output,
    progress::{self, Progress},
    query,
    volumes::VolumesName,
};
use duramen_api::model::{
    AddSource, CreateBranch, Origin, PoolSize, QueryRequest, Refill, SourceFingerprint, SourceSettings,
    SourceView,
};
use duramen_client::Connection;
use duramen_lab::branches::{self, Options, Runner, Write};
use duramen_measure::evidence::Evidence;
use duramen_reports::suite::{write, Output};
use duramen_server::process::Daemon;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

pub(super) const SOURCE: &str = "flights";
pub(super) const BRANCH: &str = "demo";
/// Branches that are made without the pool, for comparison.
const COLD: u32 = 20;
/// A deletion that touches no other table.
pub(super) const DELETION: &str = "DELETE FROM flights WHERE dest = 'LAX'";
/// What the demo asks of real data: the carriers with the worst delays.
const QUESTION: &str = "SELECT a.name AS carrier, count(*) AS flights, \
     round(avg(f.arr_delay)::numeric, 1) AS mean_delay_min \
     FROM flights f JOIN airlines a USING (carrier) GROUP BY 1 ORDER BY 3 DESC NULLS LAST LIMIT 3";

/// Shows branches in a home, and writes the two documents of their measurement.
pub(super) async fn show(
    story: &Story,
    home: &Path,
    demo: &Demo,
    [json, html]: [PathBuf; 2],
) -> Result<Evidence, Failure> {
    story.heading("A daemon of its own");
    let daemon = start(home, demo, &[]).await?;
    let mut connection = daemon.client().connect().await?;
    let status = connection.status().await?;
    story.say(&format!(
        "It serves {}.\nBranches are {}: {}.",
        home.display(),
        status.volumes,
        status.volumes_reason
    ));

    story.heading("Importing real data");
    let source = import(&mut connection, demo).await?;
    story.say(&format!(
        "`{SOURCE}`: the flights out of New York City in 2013, {} in PostgreSQL {}, with keys and indexes.\nIts snapshot has the digest {}.",
        output::bytes(source.bytes),
        source.server_version,
        source.digest
    ));

    let before = fingerprint(&mut connection).await?;

    story.heading("One branch");
    one_branch(story, &mut connection).await?;
    drop(connection);

    let rounds = if demo.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", demo.rounds) };
    story.heading(&format!("{rounds} of {} branches at once", demo.concurrency));
    story.say("Each is created, queried twice, written to and destroyed by a client of its own.");
    let options = Options {
        home: home.to_owned(),
        exe: lab::own_program()?,
        rounds: demo.rounds,
        concurrency: demo.concurrency,
        write: Write::Events,
        runner: Runner::Session,
        source: SOURCE.to_owned(),
        rows: demo.rows,
        pool: None,
        settings: Vec::new(),
        durable: false,
        refill: Refill::Phased,
        scale: Vec::new(),
        sweep: Vec::new(),
        cold: COLD,
        volumes: demo.volumes.into(),
        volume_size: None,
        output: Output { json: Some(json), html: Some(html), progress: true, command: lab::command_line() },
    };
    let progress = Progress::new("measuring");
    let measured = branches::run(&options, &|doing| progress.step(doing, None)).await?;
    drop(progress);
    let evidence = write(&options, measured)?.evidence;
    story.say(&branches::print_figures(&evidence));

    story.heading("Proof that the source did not change");
    let mut connection = daemon.client().connect().await?;
    prove(story, &before, &fingerprint(&mut connection).await?)?;
    drop(connection);
    progress::during("stopping the daemon", daemon.stop()).await?;
    Ok(evidence)
}

/// Compares the live source before any branch with the live source after all of them.
fn prove(story: &Story, before: &SourceFingerprint, after: &SourceFingerprint) -> Result<(), Failure> {
    // Catalogues are compared as well; only the tables are worth a line.
    for (name, content) in after.contents.iter().filter(|(name, _)| !name.contains(" (")) {
        story.say(&format!("  {name}: {} rows, {}", content.count, content.hash));
    }
    if before.contents != after.contents || before.rows_written != after.rows_written {
        return Err(Failure::Other(format!(
            "the live source CHANGED: its content was {}, and is {}; this must not happen: please report it",
            before.content_hash, after.content_hash
        )));
    }
    story.say(&format!(
        "Content {}: the same before the first branch and after the last.",
        after.content_hash
    ));
    Ok(())
}

/// Starts a daemon of a home.
pub(super) async fn start(home: &Path, demo: &Demo, more: &[&str]) -> Result<Daemon, Failure> {
    let volumes = match demo.volumes {
        VolumesName::Auto => "auto",
        VolumesName::Btrfs => "btrfs",
        VolumesName::Reflink => "reflink",
        VolumesName::Copy => "copy",
    };
    let args: Vec<String> = ["--volumes", volumes].iter().chain(more).map(|arg| (*arg).to_owned()).collect();
    let program = lab::own_program()?;
    let log = home.join("daemon.log");
    let work = Daemon::spawn(&program, home, &args, &log);
    Ok(progress::during("starting the daemon", work).await?)
}

async fn import(connection: &mut Connection, demo: &Demo) -> Result<SourceView, Failure> {
    let policy = Write::Events.policy();
    let request = AddSource {
        name: SOURCE.to_owned(),
        origin: Origin::Flights { rows: demo.rows },
        database: None,
        settings: SourceSettings {
            pool: PoolSize { hot: BTreeMap::from([(policy, demo.concurrency)]), ..PoolSize::default() },
            ..SourceSettings::default()
        },
    };
    let bar = Progress::new("importing the flights");
    Ok(connection.add_source(&request, |doing, fraction| bar.step(doing, fraction)).await?)
}

/// Shows one branch by hand: a question, a deletion that only the branch sees, and the source's data again.
async fn one_branch(story: &Story, connection: &mut Connection) -> Result<(), Failure> {
    let wanted = CreateBranch { name: Some(BRANCH.to_owned()), ..CreateBranch::default() };
    let branch = progress::during("waiting for a branch", connection.create_branch(&wanted)).await?;
    story.say(&format!(
        "`{BRANCH}` is a whole PostgreSQL with the policy {}, at {}",
        branch.policy, branch.url
    ));
    story.say("The carriers that were latest:");
    for row in ask(connection, QUESTION).await? {
        story.say(&format!("  {}", row.join("  ")));
    }
    let all = count(connection).await?;
    ask(connection, DELETION).await?;
    let left = count(connection).await?;
    progress::during("resetting the branch", connection.reset_branch(BRANCH)).await?;
    let recounted = count(connection).await?;
    story.say(&format!(
        "It held {all} flights, {left} after a deletion in it, and {recounted} after a reset."
    ));
    connection.destroy_branch(BRANCH).await?;
    Ok(())
}

/// One statement in the branch; values as text.
async fn ask(connection: &mut Connection, sql: &str) -> Result<Vec<Vec<String>>, Failure> {
    let request = QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() };
    let reply = connection.query(BRANCH, &request).await?;
    let rows = match reply.results.first() {
        Some(result) => query::rows(result)?,
        None => Vec::new(),
    };
    Ok(rows.iter().map(|row| row.iter().map(|value| query::text(value, "NULL")).collect()).collect())
}

async fn count(connection: &mut Connection) -> Result<String, Failure> {
    let rows = ask(connection, "SELECT count(*) FROM flights").await?;
    Ok(rows.into_iter().flatten().next().unwrap_or_default())
}

async fn fingerprint(connection: &mut Connection) -> Result<SourceFingerprint, Failure> {
    let work = connection.fingerprint_source(SOURCE);
    Ok(progress::during("hashing the live source", work).await?)
}
