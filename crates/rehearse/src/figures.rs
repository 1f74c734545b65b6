//! Figures of a rehearsal out of what was seen: locks by table, waits, latencies by phase.

use crate::{
    load::{Records, What},
    relations::{Kind, Relations},
    watch::{Wait, Watch, Who},
};
use duramen_base::{clock::ms, words::number};
use duramen_measure::histogram::LatencyHistogram;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Pieces of time that a chart shows.
const BUCKETS: usize = 120;
/// Waits of the migration that are told, the longest.
const OWN_WAITS_MAX: usize = 50;

/// Modes of locks, the weakest first, as the server calls them and as they are written in SQL.
const MODES: [(&str, &str); 8] = [
    ("AccessShareLock", "ACCESS SHARE"),
    ("RowShareLock", "ROW SHARE"),
    ("RowExclusiveLock", "ROW EXCLUSIVE"),
    ("ShareUpdateExclusiveLock", "SHARE UPDATE EXCLUSIVE"),
    ("ShareLock", "SHARE"),
    ("ShareRowExclusiveLock", "SHARE ROW EXCLUSIVE"),
    ("ExclusiveLock", "EXCLUSIVE"),
    ("AccessExclusiveLock", "ACCESS EXCLUSIVE"),
];

/// The strength of a mode, from 0.
fn strength(mode: &str) -> usize {
    MODES.iter().position(|(name, _)| *name == mode).unwrap_or_default()
}

fn in_sql(mode: &str) -> String {
    MODES.iter().find(|(name, _)| *name == mode).map_or(mode, |(_, sql)| sql).to_owned()
}

/// Whom a lock keeps from a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Keeps {
    /// Nobody who reads or writes rows.
    Nobody,
    /// Who writes.
    Writers,
    /// Who reads or writes.
    Everybody,
}

impl Keeps {
    fn of(mode: &str) -> Keeps {
        match strength(mode) {
            7 => Keeps::Everybody,
            4..=6 => Keeps::Writers,
            _ => Keeps::Nobody,
        }
    }

    /// As it is said.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Keeps::Nobody => "nobody",
            Keeps::Writers => "writers",
            Keeps::Everybody => "readers and writers",
        }
    }
}

/// A mode in which a relation was locked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeHeld {
    /// As in SQL: `ACCESS EXCLUSIVE`.
    pub mode: String,
    /// Whom it keeps out.
    pub keeps_out: Keeps,
    /// How often it was seen.
    pub times: u64,
    /// The longest time for which it was held, in milliseconds.
    pub longest_ms: f64,
    /// All times together.
    pub total_ms: f64,
    /// When it was first held, since the migration began.
    pub from_ms: f64,
}

/// What the migration's locks on one relation did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableLocks {
    /// Its name in SQL, before the migration.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The modes in which it was locked, the strongest first. None: the migration waited for it, and never had it.
    pub modes: Vec<ModeHeld>,
    /// How many statements of the load waited because of it.
    pub waiters: u64,
    /// The longest of these waits, in milliseconds.
    pub longest_wait_ms: f64,
    /// All of them together.
    pub total_wait_ms: f64,
    /// A statement that waited the longest.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waiter: String,
}

impl TableLocks {
    /// Whom the strongest of its modes keeps out.
    #[must_use]
    pub fn keeps_out(&self) -> Keeps {
        self.modes.iter().map(|mode| mode.keeps_out).max().unwrap_or(Keeps::Nobody)
    }

    /// Of the modes that keep others out, the one that was held longest.
    #[must_use]
    pub fn longest(&self) -> Option<&ModeHeld> {
        let keeping = self.modes.iter().filter(|mode| mode.keeps_out > Keeps::Nobody);
        keeping.max_by(|one, other| one.longest_ms.total_cmp(&other.longest_ms))
    }

    /// The longest time for which writers were kept out, in milliseconds.
    #[must_use]
    pub fn kept_out_ms(&self) -> f64 {
        self.longest().map_or(0.0, |mode| mode.longest_ms)
    }
}

/// A wait of the migration's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitOf {
    /// What it waited for: a relation, or a transaction.
    pub what: String,
    /// The mode that it wanted.
    pub mode: String,
    /// How long it waited, in milliseconds.
    pub waited_ms: f64,
    /// Since the migration began.
    pub from_ms: f64,
    /// Its statement.
    pub statement: String,
    /// Who was in the way: the states of sessions, and what they ran.
    pub blockers: Vec<String>,
}

/// A statement of the migration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// Its text, at most 4,000 characters of it.
    pub text: String,
    /// When it began, since the migration began, in milliseconds.
    pub from_ms: f64,
    /// How long it took.
    pub took_ms: f64,
    /// Whether its end is the server's own figure, not that of a look.
    pub is_exact: bool,
    /// How long it waited for locks.
    pub waited_ms: f64,
}

/// Latencies of one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// How many ended.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The greatest.
    pub max_ms: f64,
    /// How long they waited for locks of the migration, all together.
    pub blocked_ms: f64,
}

/// A statement of the load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementLatencies {
    /// The script.
    pub script: String,
    /// Its text.
    pub text: String,
    /// Before, during and after the migration.
    pub phases: [Latencies; 3],
}

/// Errors of the load with one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoadError {
    /// SQLSTATE; empty if it did not come from the server.
    pub code: String,
    /// The message.
    pub message: String,
    /// The first statement that failed with it.
    pub statement: String,
    /// How often, before, during and after the migration.
    pub counts: [u64; 3],
}

/// A piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bucket {
    /// Its beginning, since the migration began, in seconds; negative before it.
    pub at_s: f64,
    /// The median latency of the transactions that were due in it, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// The greatest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// The most sessions of the load that waited for the migration at a time.
    pub waiting: u64,
}

/// A recorded load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordingReport {
    /// The database that it was recorded in.
    pub database: String,
    /// How fast it was replayed.
    pub speed: f64,
    /// How long it took when it was recorded, in milliseconds.
    pub span_ms: f64,
    /// Clients.
    pub sessions: u64,
    /// Transactions; a statement outside of one is one.
    pub transactions: u64,
    /// Statements, settings among them.
    pub statements: u64,
    /// Errors that the recorded server gave.
    pub errors: u64,
    /// `COPY` from or to a client, which is left out: its data is in no log.
    pub copies: u64,
    /// Statements that are left out because their parameters were not logged.
    pub without_parameters: u64,
    /// Statements of other databases, which are left out.
    pub elsewhere: u64,
}

/// A load as it is told of.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) clients: usize,
    pub(crate) rate: f64,
    pub(crate) seed: Option<u64>,
    pub(crate) recording: Option<RecordingReport>,
    /// Statements that have figures of their own: what they are, of which script, and their text.
    pub(crate) statements: Vec<(What, String, String)>,
}

/// What the load saw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// Its sessions.
    pub clients: usize,
    /// Transactions a second that were due; of a recording, the mean of all of it.
    pub rate: f64,
    /// The seed of a script's random numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What was replayed, if it is no script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingReport>,
    /// The names of the phases.
    pub phases: [&'static str; 3],
    /// How long they were, in milliseconds.
    pub phases_ms: [f64; 3],
    /// Latencies of transactions, from the moment at which each was due.
    pub transactions: [Latencies; 3],
    /// Latencies of statements, from their starts.
    pub statements: Vec<StatementLatencies>,
    /// Errors.
    pub errors: Vec<LoadError>,
    /// Transactions that were due, and had not ended when the load was over.
    pub unfinished: u64,
    /// Waits for the migration.
    pub waits: u64,
    /// The longest of them, in milliseconds.
    pub longest_wait_ms: f64,
    /// All of them together.
    pub total_wait_ms: f64,
    /// The course of it.
    pub course: Vec<Bucket>,
    /// Whether more happened than is kept.
    pub is_cut: bool,
}

/// The times of the phases, since the rehearsal began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) load_began: Duration,
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
    pub(crate) load_ended: Duration,
}

impl Times {
    /// 0: before the migration, 1: during, 2: after. What reaches into the migration is during.
    fn phase(&self, begin: Duration, end: Duration) -> usize {
        match () {
            () if end < self.began => 0,
            () if begin > self.ended => 2,
            () => 1,
        }
    }

    fn since_began_ms(&self, at: i64) -> f64 {
        at as f64 / 1e3 - ms(self.began)
    }
}

fn length_ms(from: i64, to: i64) -> f64 {
    (to - from).max(0) as f64 / 1e3
}

/// A time in words: `1.25 s`.
pub(crate) fn span(time_ms: f64) -> String {
    match time_ms {
        long if long >= 60_000.0 => {
            format!("{:.0} min {:.0} s", (long / 60_000.0).floor(), (long / 1e3) % 60.0)
        }
        long if long >= 1e3 => format!("{:.2} s", long / 1e3),
        short if short >= 10.0 => format!("{short:.0} ms"),
        short => format!("{} ms", number((short * 100.0).round() / 100.0)),
    }
}

/// Locks of the migration on what was there before, the longest waits first, then the longest that keep others out.
pub(crate) fn locks(watch: &Watch, before: &Relations, times: &Times) -> Vec<TableLocks> {
    let mut found: BTreeMap<u32, TableLocks> = BTreeMap::new();
    let entry = |found: &mut BTreeMap<u32, TableLocks>, id: u32| {
        let relation = before.all.get(&id)?;
        found.entry(id).or_insert_with(|| TableLocks {
            name: relation.name.clone(),
            kind: relation.kind,
            modes: Vec::new(),
            waiters: 0,
            longest_wait_ms: 0.0,
            total_wait_ms: 0.0,
            waiter: String::new(),
        });
        Some(id)
    };
    for held in &watch.held {
        let Some(table) = entry(&mut found, held.relation).and_then(|id| found.get_mut(&id)) else {
            continue;
        };
        let (mode, length) = (in_sql(&held.mode), length_ms(held.from, held.to));
        let from_ms = times.since_began_ms(held.from);
        match table.modes.iter_mut().find(|known| known.mode == mode) {
            Some(known) => {
                known.times += 1;
                known.longest_ms = known.longest_ms.max(length);
                known.total_ms += length;
                known.from_ms = known.from_ms.min(from_ms);
            }
            None => table.modes.push(ModeHeld {
                mode,
                keeps_out: Keeps::of(&held.mode),
                times: 1,
                longest_ms: length,
                total_ms: length,
                from_ms,
            }),
        }
    }
    for wait in of_load(watch) {
        let id = wait.relation.and_then(|id| entry(&mut found, id));
        let Some(table) = id.and_then(|id| found.get_mut(&id)) else { continue };
        let length = length_ms(wait.from, wait.to);
        table.waiters += 1;
        table.total_wait_ms += length;
        if length >= table.longest_wait_ms {
            table.longest_wait_ms = length;
            table.waiter.clone_from(&wait.query);
        }
    }
    for table in found.values_mut() {
        let by_sql = |mode: &str| MODES.iter().position(|(_, sql)| *sql == mode).unwrap_or_default();
        table.modes.sort_by_key(|mode| std::cmp::Reverse(by_sql(&mode.mode)));
    }
    // Indexes are locked with their tables, and that is enough to know unless somebody waited for one.
    let mut all: Vec<TableLocks> =
        found.into_values().filter(|it| it.kind != Kind::Index || it.waiters > 0).collect();
    all.sort_by(|one, other| {
        other
            .longest_wait_ms
            .total_cmp(&one.longest_wait_ms)
            .then_with(|| other.kept_out_ms().total_cmp(&one.kept_out_ms()))
            .then_with(|| other.keeps_out().cmp(&one.keeps_out()))
            .then_with(|| one.name.cmp(&other.name))
    });
    all
}

fn of_load(watch: &Watch) -> impl Iterator<Item = &Wait> {
    watch.waits.iter().filter(|wait| wait.who == Who::Load && wait.by_migration)
}

/// What the migration waited for, the longest first.
pub(crate) fn own_waits(watch: &Watch, before: &Relations, times: &Times) -> Vec<WaitOf> {
    let what = |wait: &Wait| match wait.relation {
        Some(id) => before.all.get(&id).map_or_else(|| "a relation".to_owned(), |it| it.name.clone()),
        None => match wait.what.as_str() {
            "transactionid" | "virtualxid" => "the end of a transaction".to_owned(),
            other => other.to_owned(),
        },
    };
    let own = watch.waits.iter().filter(|wait| wait.who == Who::Migration);
    let mut all: Vec<WaitOf> = own
        .map(|wait| WaitOf {
            what: what(wait),
            mode: in_sql(&wait.mode),
            waited_ms: length_ms(wait.from, wait.to),
            from_ms: times.since_began_ms(wait.from),
            statement: wait.query.clone(),
            blockers: wait.blockers.iter().cloned().collect(),
        })
        .collect();
    all.sort_by(|one, other| other.waited_ms.total_cmp(&one.waited_ms));
    all.truncate(OWN_WAITS_MAX);
    all
}

/// The statements of the migration in the order in which they began.
pub(crate) fn statements(watch: &Watch, times: &Times) -> Vec<Statement> {
    let waited = |process: i32, from: i64, to: i64| {
        let own = watch.waits.iter().filter(|wait| wait.process == process);
        own.map(|wait| length_ms(wait.from.max(from), wait.to.min(to))).sum()
    };
    let mut all: Vec<Statement> = watch
        .statements
        .iter()
        .map(|seen| Statement {
            text: seen.text.clone(),
            from_ms: times.since_began_ms(seen.from),
            took_ms: length_ms(seen.from, seen.to),
            is_exact: seen.is_exact,
            waited_ms: waited(seen.process, seen.from, seen.to),
        })
        .collect();
    all.sort_by(|one, other| one.from_ms.total_cmp(&other.from_ms));
    all
}

/// What a load saw.
pub(crate) fn load(records: &Records, described: Described, watch: &Watch, times: &Times) -> LoadReport {
    let waits: Vec<&Wait> = of_load(watch).collect();
    let lengths: Vec<f64> = waits.iter().map(|wait| length_ms(wait.from, wait.to)).collect();
    let mut transactions = latencies(records, times, What::Transaction);
    // Waits reach into the migration, however they began.
    transactions[1].blocked_ms = lengths.iter().sum();
    let Described { clients, rate, seed, recording, statements } = described;
    let statements = statements.into_iter().map(|(what, script, text)| StatementLatencies {
        script,
        text,
        phases: latencies(records, times, what),
    });
    let statements = statements.collect();
    let errors = records.errors.iter().map(|((code, message), failed)| {
        let mut counts = [0; 3];
        for at in &failed.at {
            counts[times.phase(*at, *at)] += 1;
        }
        let statement = failed.statement.clone();
        LoadError { code: code.clone(), message: message.clone(), statement, counts }
    });
    let length = |from: Duration, to: Duration| ms(to.saturating_sub(from));
    LoadReport {
        clients,
        rate,
        seed,
        recording,
        phases: ["before", "during", "after"],
        phases_ms: [
            length(times.load_began, times.began),
            length(times.began, times.ended),
            length(times.ended, times.load_ended),
        ],
        transactions,
        statements,
        errors: errors.collect(),
        unfinished: records.unfinished,
        waits: waits.len() as u64,
        longest_wait_ms: lengths.iter().copied().fold(0.0, f64::max),
        total_wait_ms: lengths.iter().sum(),
        course: course(records, &waits, times),
        is_cut: records.is_cut,
    }
}

fn latencies(records: &Records, times: &Times, what: What) -> [Latencies; 3] {
    let mut histograms = [(); 3].map(|()| LatencyHistogram::new());
    let mut failed = [0; 3];
    for record in records.all.iter().filter(|record| record.what == what) {
        let phase = times.phase(record.begin, record.end);
        histograms[phase].record(record.took);
        failed[phase] += u64::from(record.failed);
    }
    std::array::from_fn(|phase| {
        let found = histograms[phase].summary_ms();
        Latencies {
            count: found.count,
            failed: failed[phase],
            p50_ms: found.p50,
            p99_ms: found.p99,
            max_ms: found.max,
            blocked_ms: 0.0,
        }
    })
}

fn course(records: &Records, waits: &[&Wait], times: &Times) -> Vec<Bucket> {
    let all = times.load_ended.saturating_sub(times.load_began).as_secs_f64();
    let width = (all / BUCKETS as f64).max(0.05);
    let count = ((all / width).ceil() as usize).clamp(1, BUCKETS);
    let mut latencies = vec![Vec::new(); count];
    for record in records.all.iter().filter(|record| record.what == What::Transaction) {
        let at = record.begin.saturating_sub(times.load_began).as_secs_f64() / width;
        latencies[(at as usize).min(count - 1)].push(ms(record.took));
    }
    let began = times.began.as_secs_f64();
    let of = |(at, mut latencies): (usize, Vec<f64>)| {
        let from = times.load_began.as_secs_f64() + at as f64 * width;
        latencies.sort_by(f64::total_cmp);
        Bucket {
            at_s: from - began,
            p50_ms: latencies.get(latencies.len() / 2).copied(),
            max_ms: latencies.last().copied(),
            waiting: most_at_a_time(waits, (from * 1e6) as i64, ((from + width) * 1e6) as i64),
        }
    };
    latencies.into_iter().enumerate().map(of).collect()
}

/// The most waits at a time between two moments.
fn most_at_a_time(waits: &[&Wait], from: i64, to: i64) -> u64 {
    let within: Vec<&&Wait> = waits.iter().filter(|wait| wait.from < to && wait.to > from).collect();
    let at =
        |moment: i64| within.iter().filter(|wait| wait.from <= moment && wait.to > moment).count() as u64;
    within.iter().map(|wait| at(wait.from.max(from))).max().unwrap_or_default()
}
