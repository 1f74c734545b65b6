//! What is rehearsed, and with what.

use crate::{
    error::RehearseError,
    figures::{Described, RecordingReport},
    load::{Plan, Scripts, What, Work, CLIENTS_MAX, RATE_MAX},
    plans::QUERIES_MAX,
    recording::{Reader, Recording},
    replay::Schedule,
    script::{self, Script, Step, Wrong},
};
use duramen_base::clock::ms;
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Files of a load.
const SCRIPTS_MAX: usize = 16;
/// Files of a recording.
const FILES_MAX: usize = 1_000;
const SPEED_MIN: f64 = 0.01;
const SPEED_MAX: f64 = 100.0;
/// The text of a file, in bytes.
const TEXT_MAX: u64 = 1 << 20;

/// A script of the load, and how often it is chosen beside the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFile {
    /// The file.
    pub path: PathBuf,
    /// Its weight, from 1.
    pub weight: u32,
}

/// What is rehearsed, and with what.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source; may be left out when there is only one.
    pub source: Option<String>,
    /// The migration: a command for a shell. Empty where an upgrade is rehearsed.
    pub command: String,
    /// The major version to which the source is taken by `pg_upgrade`, in the place of a migration.
    pub pg: Option<u32>,
    /// Scripts of the load. Empty: there is none.
    pub load: Vec<LoadFile>,
    /// Logs of a server whose statements are the load, in the place of scripts.
    pub replay: Vec<PathBuf>,
    /// How fast they are replayed: 2 is half the time.
    pub replay_speed: f64,
    /// Sessions of the load.
    pub load_clients: usize,
    /// Transactions a second, of all of them together.
    pub load_rate: f64,
    /// The seed of the load's random numbers.
    pub seed: u64,
    /// How long the load runs before the migration.
    pub before: Duration,
    /// How long it runs after it.
    pub after: Duration,
    /// A file of queries whose plans are compared.
    pub queries: Option<PathBuf>,
    /// How long each of them may run.
    pub query_limit: Duration,
    /// How long the migration may run.
    pub deadline: Duration,
    /// The longest wait for a lock that is let pass.
    pub max_lock_wait: Option<Duration>,
    /// Whether the branch stays.
    pub keep: bool,
    /// How long the branch outlives this process if that is killed, in seconds.
    pub ttl_s: i64,
}

/// Options whose files have been read.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) scripts: Vec<Script>,
    /// What was recorded, of every database.
    recorded: Option<Reader>,
    pub(crate) queries: Vec<String>,
}

impl Options {
    /// Reads the files, and checks everything that can be checked before there is a branch.
    pub(crate) fn prepare(&self) -> Result<Prepared, RehearseError> {
        let wrong = |what: String| Err(RehearseError::Options(what));
        if self.pg.is_some() && !(self.command.is_empty() && self.load.is_empty() && self.replay.is_empty()) {
            return wrong(
                "nothing runs while pg_upgrade does: an upgrade has neither a migration nor a load"
                    .to_owned(),
            );
        }
        if self.pg.is_none() && self.command.trim().is_empty() {
            return wrong("the migration is empty; name a command".to_owned());
        }
        if !(self.load.is_empty() || self.replay.is_empty()) {
            return wrong("a load is one of scripts, or a recorded one".to_owned());
        }
        if !(SPEED_MIN..=SPEED_MAX).contains(&self.replay_speed) {
            return wrong(format!("a recording is replayed {SPEED_MIN} to {SPEED_MAX} times as fast"));
        }
        if self.replay.len() > FILES_MAX {
            return wrong(format!("a recording has at most {FILES_MAX} files"));
        }
        if self.load.len() > SCRIPTS_MAX {
            return wrong(format!("a load has at most {SCRIPTS_MAX} scripts"));
        }
        if !(1..=CLIENTS_MAX).contains(&self.load_clients) {
            return wrong(format!(
                "a load has 1 to {CLIENTS_MAX} clients, because a branch takes 20 connections"
            ));
        }
        if !(self.load_rate > 0.0 && self.load_rate <= RATE_MAX) {
            return wrong(format!(
                "the rate of a load is more than 0, and at most {RATE_MAX} transactions a second"
            ));
        }
        let mut scripts = Vec::new();
        for file in &self.load {
            let name =
                file.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let text = read(&file.path)?;
            scripts.push(Script::parse(&name, file.weight.max(1), &text).map_err(at(&file.path))?);
        }
        let mut recorded = None;
        for path in &self.replay {
            let read = recorded.get_or_insert_with(Reader::default).read(path);
            read.map_err(|cause| RehearseError::Recording { path: path.clone(), what: cause.to_string() })?;
        }
        if let Some(Err(what)) = recorded.as_ref().map(Reader::check) {
            return wrong(what);
        }
        let queries = match &self.queries {
            Some(path) => script::statements(&read(path)?).map_err(at(path))?,
            None => Vec::new(),
        };
        if queries.len() > QUERIES_MAX {
            return wrong(format!("the plans of at most {QUERIES_MAX} queries are compared"));
        }
        Ok(Prepared { scripts, recorded, queries })
    }

    /// The load, if there is one.
    pub(crate) fn work(&self, prepared: &Prepared, recording: Option<&Arc<Recording>>) -> Option<Plan> {
        let work = match recording {
            Some(recording) => Work::Recording(Schedule::new(Arc::clone(recording), self.replay_speed)),
            None if prepared.scripts.is_empty() => return None,
            None => Work::Scripts(Scripts::new(prepared.scripts.clone(), self.load_rate, self.seed)),
        };
        Some(Plan { work, clients: self.load_clients })
    }

    /// The load, as it is told of.
    pub(crate) fn described(&self, prepared: &Prepared, recording: Option<&Recording>) -> Described {
        let clients = self.load_clients;
        let Some(recording) = recording else {
            let scripts = prepared.scripts.iter().enumerate().flat_map(|(at, script)| {
                script.steps.iter().enumerate().filter_map(move |(step, what)| match what {
                    Step::Sql(template) => {
                        let what = What::Statement { script: at, step };
                        Some((what, script.name.clone(), template.label()))
                    }
                    _ => None,
                })
            });
            let (rate, seed) = (self.load_rate, Some(self.seed));
            return Described { clients, rate, seed, recording: None, statements: scripts.collect() };
        };
        let shapes = recording.shapes.iter().enumerate().map(|(step, (text, _))| {
            (What::Statement { script: 0, step }, "recording".to_owned(), text.clone())
        });
        let transactions = recording.transactions() as u64;
        let counts = recording.counts.clone();
        let told = RecordingReport {
            database: recording.database.clone(),
            speed: self.replay_speed,
            span_ms: ms(recording.span),
            sessions: recording.sessions.len() as u64,
            transactions,
            statements: counts.statements,
            errors: counts.errors,
            copies: counts.copies,
            without_parameters: counts.without_parameters,
            elsewhere: counts.elsewhere,
        };
        let span_s = recording.span.as_secs_f64().max(0.001);
        let rate = transactions as f64 / span_s * self.replay_speed;
        Described { clients, rate, seed: None, recording: Some(told), statements: shapes.collect() }
    }
}

impl Prepared {
    /// What was recorded of a database.
    pub(crate) fn recording(&mut self, database: &str) -> Result<Option<Arc<Recording>>, RehearseError> {
        let Some(recorded) = self.recorded.take() else { return Ok(None) };
        recorded.of(database).map(|found| Some(Arc::new(found))).map_err(RehearseError::Options)
    }
}

fn at(path: &Path) -> impl FnOnce(Wrong) -> RehearseError {
    let path = path.to_owned();
    move |Wrong { line, what }| RehearseError::Script { path, line, what }
}

fn read(path: &Path) -> Result<String, RehearseError> {
    let failed = |source| RehearseError::File { path: path.to_owned(), source };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(TEXT_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > TEXT_MAX {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB")));
    }
    Ok(text)
}
