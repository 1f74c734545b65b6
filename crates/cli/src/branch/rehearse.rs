//! A migration, tried on real data: `duramen branch rehearse`.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    log, output, parse,
    progress::Progress,
};
use clap::{ArgGroup, Args};
use duramen_base::{entropy, file};
use duramen_client::run::{self, Fate};
use duramen_rehearse::{
    markdown, page, rehearse, text, Event, LoadFile, Options, RehearseError, Report, CLIENTS_MAX, DEADLINE,
};
use std::{io::Write, path::PathBuf, process::ExitCode, time::Duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen branch rehearse --source app --migrate './migrate.sh up'
  duramen branch rehearse --source app --migrate 'psql -X -v ON_ERROR_STOP=1 -f next.sql' --load shop.sql --queries slow.sql
  duramen branch rehearse --migrate 'npm run migrate' --load shop.sql@9 --load admin.sql@1 --load-rate 200
  duramen branch rehearse --migrate ./migrate.sh --load shop.sql --max-lock-wait 500 --markdown comment.md --html page.html
  duramen branch rehearse --migrate ./migrate.sh --replay monday.csv --load-clients 12
  duramen branch rehearse --source app --pg 18 --queries slow.sql
The command finds its branch in DATABASE_URL, PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE.

Exit status: 0 the migration succeeded, 1 there was no rehearsal, 2 bad usage, 3 not enough was seen of it, 4 the migration
failed, 5 it did not end before its deadline, 6 a lock was waited for longer than --max-lock-wait";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("loads").args(["load", "replay"]).multiple(true))]
pub(crate) struct Rehearse {
    /// The migration: a command for a shell
    #[arg(long, value_name = "COMMAND", required_unless_present = "pg")]
    migrate: Option<String>,
    /// Rehearse an upgrade to this major version by pg_upgrade instead
    #[arg(long, value_name = "MAJOR", conflicts_with_all = ["migrate", "load", "max_lock_wait"])]
    pg: Option<u32>,
    /// The source [default: the only one]
    #[arg(long)]
    source: Option<String>,
    /// A script of the load, as pgbench has them, with its weight (repeatable)
    #[arg(long, value_name = "FILE[@WEIGHT]", value_parser = load_file)]
    load: Vec<LoadFile>,
    /// A recorded load: a log of a server in CSV or JSON, with the statements of its clients (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pg", "load"])]
    replay: Vec<PathBuf>,
    /// How fast it is replayed: 2 is half the time
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "replay")]
    replay_speed: f64,
    /// Sessions of the load
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clients, requires = "loads")]
    load_clients: usize,
    /// Transactions a second that are due, of all sessions together
    #[arg(long, value_name = "N", default_value_t = 50.0, requires = "load")]
    load_rate: f64,
    /// How long the load runs before the migration [default: 5s]
    #[arg(long, value_name = "SPAN", value_parser = parse::span, requires = "loads")]
    before: Option<Duration>,
    /// How long it runs after it [default: 5s]
    #[arg(long, value_name = "SPAN", value_parser = parse::span, requires = "loads")]
    after: Option<Duration>,
    /// Queries whose plans are compared
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// How long each of them may run [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    query_timeout: Option<Duration>,
    /// How long the migration may run [default: 10m]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    timeout: Option<Duration>,
    /// Fail if the load waits longer for the migration; without a load, if a lock that keeps others from writing is held longer
    #[arg(long, value_name = "MS")]
    max_lock_wait: Option<u64>,
    /// Leave the branch there, for an hour
    #[arg(long)]
    keep: bool,
    /// How long the branch outlives this program if it is killed [default: 2m]
    #[arg(long, value_name = "SPAN", value_parser = parse::ttl)]
    ttl: Option<i64>,
    /// Write everything that is known as JSON; - is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown for a pull request; - is the standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

fn load_file(text: &str) -> Result<LoadFile, String> {
    let (path, weight) = match text.rsplit_once('@').map(|(path, weight)| (path, weight.parse())) {
        Some((path, Ok(weight @ 1..=1000))) => (path, weight),
        Some((_, Ok(_))) => return Err("a weight is a number from 1 to 1000".to_owned()),
        _ => (text, 1),
    };
    Ok(LoadFile { path: path.into(), weight })
}

fn clients(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=CLIENTS_MAX).contains(&count) => Ok(count),
        _ => Err(format!("a load has 1 to {CLIENTS_MAX} clients")),
    }
}

pub(super) async fn run(context: &Context, wanted: Rehearse) -> Outcome {
    const USUAL: Duration = Duration::from_secs(5);
    let files = [wanted.json.clone(), wanted.html.clone(), wanted.markdown.clone()];
    let options = Options {
        source: wanted.source,
        command: wanted.migrate.unwrap_or_default(),
        pg: wanted.pg,
        load: wanted.load,
        replay: wanted.replay,
        replay_speed: wanted.replay_speed,
        load_clients: wanted.load_clients,
        load_rate: wanted.load_rate,
        seed: entropy::seed(),
        before: wanted.before.unwrap_or(USUAL),
        after: wanted.after.unwrap_or(USUAL),
        queries: wanted.queries,
        query_limit: wanted.query_timeout.unwrap_or(Duration::from_secs(30)),
        deadline: wanted.timeout.unwrap_or(DEADLINE),
        max_lock_wait: wanted.max_lock_wait.map(Duration::from_millis),
        keep: wanted.keep,
        ttl_s: wanted.ttl.unwrap_or(run::TTL_S),
    };
    log::to_stderr()?;
    let progress = Progress::new("rehearsing");
    // The standard output is the report's.
    let on_event = |event: Event<'_>| match event {
        Event::Step(doing) => progress.step(doing, None),
        Event::Output(piece) => {
            // Nobody may be reading it.
            let _ = progress.aside(|| std::io::stderr().lock().write_all(piece));
        }
        _ => {}
    };
    let rehearsed = rehearse(&context.client()?, options, on_event).await;
    drop(progress);
    match rehearsed {
        Ok(report) => {
            write(&report, files)?;
            Ok(ExitCode::from(report.outcome.exit_code()))
        }
        Err(RehearseError::Client(error)) => Err(error.into()),
        Err(error) => {
            output::error(&error);
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

fn write(report: &Report, [json, html, md]: [Option<PathBuf>; 3]) -> Result<(), Failure> {
    let taken = [&json, &md].into_iter().flatten().any(|path| path.as_os_str() == "-");
    let put = |path: Option<PathBuf>, text: String| match path {
        Some(path) if path.as_os_str() == "-" => {
            output::print(text);
            Ok(())
        }
        Some(path) => file::replace(&path, text.as_bytes(), 0o644).map_err(Failure::io("write", &path)),
        None => Ok(()),
    };
    if json.is_some() {
        let text = serde_json::to_string_pretty(report)
            .map_err(|error| Failure::Other(format!("the report has no JSON form: {error}")))?;
        put(json, format!("{text}\n"))?;
    }
    if html.is_some() {
        put(html, page(report).render())?;
    }
    if md.is_some() {
        put(md, markdown(report))?;
    }
    if !taken {
        output::print(text(report));
    }
    let name = &report.branch;
    match &report.fate {
        Fate::Destroyed => {}
        Fate::Kept(end) => {
            output::remark(&format!(
                "branch {name}: kept until {}: psql \"$(duramen branch url {name})\"",
                output::time(*end)
            ));
        }
        Fate::Missing => output::remark(&format!("branch {name}: gone before the rehearsal ended")),
        Fate::Left(why) => output::remark(&format!("branch {name}: left to the end of its lease: {why}")),
        _ => output::remark(&format!("branch {name}: left")),
    }
    Ok(())
}
