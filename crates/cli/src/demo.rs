//! `duramen demo`: the main job on real data, in a home of its own that is gone afterwards.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    home, lab, output,
    parse::VolumesName,
    progress::{self, Progress},
    query,
};
use duramen_branches::model::{
    AddSource, BranchView, CreateBranch, Origin, PoolSize, QueryReply, QueryRequest, Refill,
    SourceFingerprint, SourceSettings, SourceView, Status,
};
use duramen_lab::branches::{self, Options, Runner, Write};
use duramen_measure::evidence::Evidence;
use duramen_postgres::PACKAGES_DIR;
use duramen_server::{
    client::{Connection, Method},
    lock::HomeLock,
    path,
    process::Daemon,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tokio::signal::unix::{signal, SignalKind};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen demo
  duramen demo --out /tmp/demo --rounds 1 --concurrency 20 --rows 10k

It leaves demo.json (the evidence) and demo.html (the report) in --out, and nothing else.
Exit status: 1 when a check failed, 3 when the measurement was invalid";

const SOURCE: &str = "flights";
const BRANCH: &str = "demo";
/// Branches that are made without the pool, for comparison.
const COLD: u32 = 20;
/// A deletion that touches no other table.
const DELETION: &str = "DELETE FROM flights WHERE dest = 'LAX'";
/// What the demo asks of real data: the carriers with the worst delays.
const QUESTION: &str = "SELECT a.name AS carrier, count(*) AS flights, \
     round(avg(f.arr_delay)::numeric, 1) AS mean_delay_min \
     FROM flights f JOIN airlines a USING (carrier) GROUP BY 1 ORDER BY 3 DESC NULLS LAST LIMIT 3";

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Where the evidence and the report are left
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// How many branches at once
    #[arg(long, value_name = "N", default_value_t = 100)]
    concurrency: u32,
    /// How many flights [default: the real 336,776]
    #[arg(long, value_name = "N", value_parser = branches::parse_count)]
    rows: Option<u64>,
    /// How branches' volumes are cloned
    #[arg(long, value_enum, default_value = "auto")]
    volumes: VolumesName,
}

pub(crate) async fn run(context: &Context, demo: Demo) -> Outcome {
    let story = Story { tell: !context.json };
    std::fs::create_dir_all(&demo.out).map_err(Failure::io("make the directory", &demo.out))?;
    let home = DemoHome::make(&context.home).await?;
    // Whatever ends the demo, its home is cleared.
    let result = tokio::select! {
        result = tell(&story, &home.dir, &demo) => result,
        interrupted = interruption() => interrupted,
    };
    story.heading("Clearing up");
    let cleared = home.remove().await;
    let evidence = result?;
    cleared?;
    story.say("The demo's daemon, servers, mounts and files are gone.");
    story.heading("What is left");
    let [json, html] = documents(&demo.out);
    story.say(&format!("evidence: {}\nreport:   {}", json.display(), html.display()));
    if context.json {
        output::json(&evidence)?;
    }
    Ok(lab::verdict_code(&evidence))
}

/// Where the two documents lie.
fn documents(out: &Path) -> [PathBuf; 2] {
    ["demo.json", "demo.html"].map(|name| out.join(name))
}

async fn interruption() -> Result<Evidence, Failure> {
    let listen = |kind| signal(kind).map_err(Failure::Runtime);
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Err(Failure::Other("the demo was interrupted; run `duramen demo` to see it again".to_owned()))
}

/// What the demo tells; nothing when only the evidence is wanted.
struct Story {
    tell: bool,
}

impl Story {
    fn heading(&self, heading: &str) {
        if self.tell {
            output::line(format_args!("\n== {heading}"));
        }
    }

    fn say(&self, text: &str) {
        if self.tell {
            output::line(text.trim_end());
        }
    }
}

async fn tell(story: &Story, home: &Path, demo: &Demo) -> Result<Evidence, Failure> {
    story.heading("A daemon of its own");
    let daemon = start(home, demo).await?;
    let mut connection = daemon.client().connect().await?;
    let status: Status = connection.get("/v1/status").await?;
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
    let [json, html] = documents(&demo.out);
    let evidence = lab::measure(Options {
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
        cold: COLD,
        volumes: demo.volumes.into(),
        json: Some(json),
        html: Some(html),
        progress: true,
        command: lab::command_line(),
    })
    .await?;
    story.say(&branches::print_table(&evidence));

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

async fn start(home: &Path, demo: &Demo) -> Result<Daemon, Failure> {
    let volumes = match demo.volumes {
        VolumesName::Auto => "auto",
        VolumesName::Btrfs => "btrfs",
        VolumesName::Reflink => "reflink",
        VolumesName::Copy => "copy",
    };
    let args = ["--volumes".to_owned(), volumes.to_owned()];
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
    let body = serde_json::to_vec(&request).map_err(|error| Failure::Other(error.to_string()))?;
    let bar = Progress::new("importing the flights");
    let source = connection
        .stream(Method::POST, "/v1/sources", body.into(), |doing, fraction| bar.step(doing, fraction));
    Ok(source.await?)
}

/// Shows one branch by hand: a question, a deletion that only the branch sees, and the source's data again.
async fn one_branch(story: &Story, connection: &mut Connection) -> Result<(), Failure> {
    let wanted = CreateBranch { name: Some(BRANCH.to_owned()), ..CreateBranch::default() };
    let branch: BranchView =
        progress::during("waiting for a branch", connection.post("/v1/branches", &wanted)).await?;
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
    let route = path(["v1", "branches", BRANCH, "reset"]);
    let work = connection.act::<BranchView>(&route);
    progress::during("resetting the branch", work).await?;
    let again = count(connection).await?;
    story.say(&format!("It held {all} flights, {left} after a deletion in it, and {again} after a reset."));
    connection.delete::<BranchView>(&path(["v1", "branches", BRANCH])).await?;
    Ok(())
}

/// One statement in the branch; values as text.
async fn ask(connection: &mut Connection, sql: &str) -> Result<Vec<Vec<String>>, Failure> {
    let request = QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() };
    let reply: QueryReply = connection.post(&path(["v1", "branches", BRANCH, "query"]), &request).await?;
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
    let route = path(["v1", "sources", SOURCE, "fingerprint"]);
    let work = connection.act(&route);
    Ok(progress::during("hashing the live source", work).await?)
}

/// The demo's home directory, below the real one.
struct DemoHome {
    dir: PathBuf,
    /// The real home, if it was not there before.
    made: Option<PathBuf>,
}

impl DemoHome {
    async fn make(home: &Path) -> Result<DemoHome, Failure> {
        let dir = home.join("demo");
        let made = (!home.exists()).then(|| home.to_owned());
        let _lock = HomeLock::acquire(&dir)?;
        // What a demo that was killed has left.
        home::clear(&dir).await?;
        let packages = dir.join(PACKAGES_DIR);
        if home.join(PACKAGES_DIR).is_dir() && packages.symlink_metadata().is_err() {
            let link = || std::os::unix::fs::symlink(home.join(PACKAGES_DIR), &packages);
            link().map_err(Failure::io("link", &packages))?;
        }
        Ok(DemoHome { dir, made })
    }

    async fn remove(self) -> Result<(), Failure> {
        let _lock = HomeLock::acquire(&self.dir)?;
        progress::during("clearing the demo's home", home::clear(&self.dir)).await?;
        std::fs::remove_dir_all(&self.dir).map_err(Failure::io("remove", &self.dir))?;
        if let Some(home) = self.made {
            // Not empty any more: somebody else uses it by now.
            let _ = std::fs::remove_dir(home);
        }
        Ok(())
    }
}
