//! The suite `replication`: `duramen lab run replication`.

mod workload;

use super::{pair::OfSource, Documents};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
};
use clap::{Args, ValueEnum};
use duramen_replication::{
    pair::lent::Lender,
    scenario,
    topology::{self, Arrangement, Fault},
    Level, Options,
};
use std::{path::PathBuf, sync::Arc};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab run replication --quick
  duramen lab run replication --json out/replication.json --html out/replication.html
  duramen lab run replication S2 S7 S8 --feedback off,on
  duramen lab run replication S1 --levels off,local,remote_write,on,remote_apply --rtt-ms 0,5,20
  duramen lab run replication S14 --repeats 5
  duramen lab run replication S22 S23 S24 S25 --quick
  duramen lab run replication --quick --source app
  duramen lab run replication S2 --primary 'host=a user=postgres' --standby 'host=b user=postgres'
  duramen lab run replication --topology all --html out/topologies.html
  duramen lab run replication --topology 'ANY 2 (a, b, c)' --topology 'FIRST 1 (a, b), c<b' --faults slow,die
  duramen lab run replication --topology as-is --primary 'host=a user=postgres'
  duramen lab run replication --workload orders.toml --quick
  duramen lab run replication --workload read.sql@9 --workload write.sql@1 --schema tables.sql --scale 10
  duramen lab run replication S2 S7 --hosts ssh://postgres@db1,ssh://postgres@db2
  duramen lab run replication --workload orders.toml --hosts ssh://postgres@db1,ssh://postgres@db2 --agent ssh://me@app1

Without --primary and --standby it starts its own pair of servers, and removes it at the end, also after Ctrl-C. With
--source the daemon of the home makes the pair, of two clones of the source, and removes it when this command is gone.
Whatever it changes on a given pair is recorded before, and restored at the end; `duramen lab restore` does so after a
kill. The level is set for each session and never for the cluster.

With --topology several standbys are measured instead: how late each is, which one commits wait for, and what it costs if
one is slow, hangs, vanishes or dies. as-is measures the standbys of an existing primary: it changes nothing there.

Exit status: 1 when a check failed, 3 when the mechanism under test did not happen";

#[derive(Debug, Args)]
pub(crate) struct Replication {
    /// Which scenarios, by number or name, as S2 [default: all that `duramen lab list replication`
    /// does not say are only run if named]
    #[arg(value_name = "SCENARIO", value_parser = number)]
    scenarios: Vec<u32>,
    /// off, local, remote_write (rw), on (remote_flush), remote_apply (ra) [default: remote_write,on,remote_apply; with
    /// --quick without on]
    #[arg(long, value_name = "LEVEL,...", value_delimiter = ',')]
    levels: Option<Vec<Level>>,
    /// hot_standby_feedback: off, on or off,on [default: off, and on too where commits stop; with --quick off]
    #[arg(long, value_name = "WORD,...", value_enum, value_delimiter = ',')]
    feedback: Option<Vec<Switch>>,
    /// max_standby_streaming_delay: -1 waits for ever, else as 0, 500ms or 1s
    #[arg(long, value_name = "TIME", value_parser = delay_ms, default_value = "-1", allow_hyphen_values = true)]
    max_standby_delay: i64,
    /// Round trips added between the servers, one after another (a pair of its own only)
    #[arg(long, value_name = "MS,...", value_delimiter = ',', default_value = "0")]
    rtt_ms: Vec<u32>,
    /// How often each pass is repeated [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Everything in three minutes: who stalls, who does not, and why
    #[arg(long)]
    quick: bool,
    /// An existing primary
    #[arg(long, value_name = "DSN")]
    primary: Option<String>,
    /// Its synchronous standby
    #[arg(long, value_name = "DSN", requires = "primary")]
    standby: Option<String>,
    /// A source of the home: two clones of it are measured
    #[arg(long, value_name = "NAME", conflicts_with_all = ["primary", "standby"])]
    source: Option<String>,
    /// The generation of the source, by its number or a label [default: the current one]
    #[arg(long, value_name = "GENERATION", requires = "source")]
    generation: Option<String>,
    /// The major version of the servers [default: the newest installed]
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["primary", "source"])]
    major: Option<u32>,
    /// Where the servers are made, and removed at the end [default: the folder lab of the home]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Several standbys instead of a pair, as 'FIRST 1 (a, b), c<b' (c streams from b), 'ANY 2 (a, b, c)' or 'ASYNC (a)';
    /// T1, all: of `duramen lab list topologies`; as-is: what --primary has. May be given several times
    #[arg(
        long,
        value_name = "ARRANGEMENT",
        value_parser = wanted,
        conflicts_with_all = ["scenarios", "feedback", "source", "standby", "repeats", "workload", "hosts"]
    )]
    topology: Vec<Wanted>,
    /// What is done to standbys of a topology: plain, slow, hang, vanish, die [default: all]
    #[arg(long, value_name = "FAULT,...", value_delimiter = ',', requires = "topology")]
    faults: Option<Vec<Fault>>,
    #[command(flatten)]
    load: workload::Load,
    #[command(flatten)]
    hosts: workload::Hosts,
    #[command(flatten)]
    documents: Documents,
}

/// What `--topology` asks for.
#[derive(Debug, Clone)]
enum Wanted {
    All,
    AsIs,
    One(Arrangement),
}

fn wanted(text: &str) -> Result<Wanted, String> {
    match text {
        "all" => Ok(Wanted::All),
        "as-is" => Ok(Wanted::AsIs),
        text => {
            let number = text.strip_prefix('T').and_then(|number| number.parse::<usize>().ok());
            let known =
                number.and_then(|number| Arrangement::catalog().into_iter().nth(number.checked_sub(1)?));
            known.map_or_else(|| text.parse(), Ok).map(Wanted::One)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    Off,
    On,
}

/// The number of a scenario that is named by it or by its name.
fn number(text: &str) -> Result<u32, String> {
    scenario::find(text).map(|scenario| scenario.number)
}

/// Milliseconds of `-1`, `0`, `500ms` or `1s`.
fn delay_ms(text: &str) -> Result<i64, String> {
    let refused = || format!("{text:?} is not a valid time; write -1 (forever), 0, 500ms or 1s");
    let (number, factor) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => text.strip_suffix('s').map_or((text, 1), |number| (number, 1_000)),
    };
    let ms: i64 = number.parse().map_err(|_| refused())?;
    // PostgreSQL's own limit.
    match ms.checked_mul(factor) {
        Some(ms) if (0..=i64::from(i32::MAX)).contains(&ms) || (ms == -1 && text == "-1") => Ok(ms),
        _ => Err(refused()),
    }
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Several standbys.
fn topologies(context: &Context, suite: Replication) -> Outcome {
    let is_as_is = suite.topology.iter().any(|wanted| matches!(wanted, Wanted::AsIs));
    if is_as_is != suite.primary.is_some() || is_as_is && (suite.topology.len() > 1 || suite.faults.is_some())
    {
        let text = "an existing primary is measured as it is: --topology as-is --primary DSN, and nothing is done to it";
        return Err(Failure::Usage(text.to_owned()));
    }
    let mut arrangements = Vec::new();
    for wanted in suite.topology {
        match wanted {
            Wanted::All => arrangements.extend(Arrangement::catalog()),
            Wanted::One(arrangement) => arrangements.push(arrangement),
            Wanted::AsIs => {}
        }
    }
    let options = topology::Options::new(suite.dir.unwrap_or_else(|| context.home.join("lab")));
    let options = topology::Options {
        arrangements,
        faults: suite.faults.unwrap_or(options.faults),
        levels: suite.levels.map(sorted).unwrap_or(options.levels),
        quick: suite.quick,
        primary: suite.primary,
        major: suite.major,
        home: context.home.clone(),
        output: suite.documents.output(),
        ..topology::Options::new(options.dir)
    };
    super::measure(context, options)
}

pub(super) fn run(context: &Context, suite: Replication) -> Outcome {
    if !suite.topology.is_empty() {
        return topologies(context, suite);
    }
    if suite.primary.is_some() && suite.standby.is_none() {
        let text = "a pair needs both --primary and --standby; --topology as-is needs --primary alone";
        return Err(Failure::Usage(text.to_owned()));
    }
    let Replication { primary, standby, major, documents, .. } = suite;
    if primary.is_some() && suite.rtt_ms.iter().any(|rtt| *rtt > 0) {
        let text = "--rtt-ms needs a pair of servers of its own: leave out --primary and --standby";
        return Err(Failure::Usage(text.to_owned()));
    }
    if suite.source.is_some() && suite.rtt_ms.iter().any(|rtt| *rtt > 0) {
        let text = "--rtt-ms needs a pair of servers of its own: leave out --source";
        return Err(Failure::Usage(text.to_owned()));
    }
    let hosts_of_pair = suite.hosts.pair()?;
    if hosts_of_pair.is_some() && suite.rtt_ms.iter().any(|rtt| *rtt > 0) {
        let text = "--rtt-ms needs a pair of servers of its own on this machine: leave out --hosts";
        return Err(Failure::Usage(text.to_owned()));
    }
    let workload = suite.load.order(suite.hosts.agent(primary.is_some())?)?;
    let generation = suite.generation;
    let lender = suite.source.map(|source| -> Arc<dyn Lender> {
        Arc::new(OfSource { client: context.client_here(), source, generation })
    });
    let dir = suite.dir.unwrap_or_else(|| context.home.join("lab"));
    let feedback = suite.feedback.map(|words| words.iter().map(|word| *word == Switch::On).collect());
    let options = Options {
        scenarios: sorted(suite.scenarios),
        levels: suite.levels.map(sorted),
        feedback: feedback.map(sorted),
        max_standby_delay_ms: suite.max_standby_delay,
        rtt_ms: sorted(suite.rtt_ms),
        repeats: suite.repeats,
        quick: suite.quick,
        primary,
        standby,
        lender,
        major,
        home: context.home.clone(),
        hosts: hosts_of_pair,
        workload,
        output: documents.output(),
        ..Options::new(dir, super::own_program()?)
    };
    super::measure(context, options)
}
