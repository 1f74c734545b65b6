//! A recorded load: the log of a server, in its CSV or JSON form, as the transactions of its sessions.

use crate::{
    log_lines::{self, Line, Wrong},
    script::{first_word, shape, statements},
};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::BufReader,
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Statements of a recording.
pub(crate) const RECORDED_MAX: usize = 2_000_000;
/// Their texts and parameters, in bytes.
pub(crate) const BYTES_MAX: usize = 256 << 20;
/// Shapes of statements that have figures of their own, the most frequent.
const SHAPES_MAX: usize = 100;
/// Characters of a shape that are shown.
const SHAPE_MAX: usize = 1_000;
const OTHERS: &str = "(other statements)";

/// Why a recording is not one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("{0}")]
    File(std::io::Error),
    #[error("line {}: {}", .0.line, .0.what)]
    Line(Wrong),
    #[error("more than {RECORDED_MAX} statements or {} MiB; take a shorter piece of the log", BYTES_MAX >> 20)]
    TooLarge,
}

/// A statement as a client sent it.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// Since the recording began.
    pub(crate) at: Duration,
    pub(crate) sql: Arc<str>,
    /// The values of `$1`, `$2`, ...; none where the client spoke the simple protocol.
    pub(crate) parameters: Option<Vec<Option<String>>>,
    /// Whether the client had prepared it under a name, and so once for many executions.
    pub(crate) is_named: bool,
    /// Its shape among [`Recording::shapes`].
    pub(crate) shape: usize,
}

/// Statements from the first of a transaction to its end.
#[derive(Debug, Clone)]
pub(crate) struct Transaction {
    /// How many of its session's settings were made before it.
    pub(crate) settings: usize,
    pub(crate) statements: Vec<Recorded>,
}

impl Transaction {
    pub(crate) fn at(&self) -> Duration {
        self.statements.first().map_or(Duration::ZERO, |first| first.at)
    }
}

/// What one client did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder {
    /// `SET` outside of transactions, in order.
    pub(crate) settings: Vec<Arc<str>>,
    pub(crate) transactions: Vec<Transaction>,
    /// Whether the end of the last one was not recorded.
    pub(crate) is_open: bool,
}

/// What is in a recording, and what of it is not replayed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) statements: u64,
    /// `COPY` from or to a client: its data is in no log.
    pub(crate) copies: u64,
    /// Statements whose parameters were not logged.
    pub(crate) without_parameters: u64,
    /// Statements of other databases.
    pub(crate) elsewhere: u64,
    /// Errors that the recorded server gave.
    pub(crate) errors: u64,
}

/// The statements that were sent to one database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording {
    pub(crate) database: String,
    pub(crate) sessions: Vec<Recorder>,
    pub(crate) counts: Counts,
    /// Statements without their values, and how often each is there.
    pub(crate) shapes: Vec<(String, u64)>,
    /// From its first statement to its last.
    pub(crate) span: Duration,
}

impl Recording {
    pub(crate) fn transactions(&self) -> usize {
        self.sessions.iter().map(|session| session.transactions.len()).sum()
    }
}

/// What was read of logs, before it is known which database is meant.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    databases: BTreeMap<String, Vec<(String, Sent)>>,
    errors: BTreeMap<String, u64>,
    texts: HashMap<String, Arc<str>>,
    statements: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Sent {
    /// In microseconds of the server's clock.
    at: i64,
    sql: Arc<str>,
    parameters: Option<Vec<Option<String>>>,
    is_extended: bool,
    is_named: bool,
}

impl Reader {
    /// Reads one file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), RecordingError> {
        let file = BufReader::new(fs::File::open(path).map_err(RecordingError::File)?);
        log_lines::read(file, |line| self.take(line))
    }

    fn take(&mut self, line: Line) -> Result<(), RecordingError> {
        if line.severity == "ERROR" {
            if !self.errors.contains_key(&line.database) {
                self.bytes += line.database.len();
            }
            *self.errors.entry(line.database).or_default() += 1;
            return self.fits();
        }
        let Some(statement) = line.statement() else { return Ok(()) };
        let parameters = statement.parameters;
        let values = parameters.iter().flatten().flatten();
        let sql = match self.texts.get(statement.sql) {
            Some(known) => Arc::clone(known),
            None => {
                let text: Arc<str> = statement.sql.into();
                self.bytes += text.len();
                self.texts.insert(statement.sql.to_owned(), Arc::clone(&text));
                text
            }
        };
        self.bytes += values.map(|value| value.len() + size_of::<String>()).sum::<usize>();
        self.bytes += line.session.len() + line.database.len();
        self.statements += 1;
        self.fits()?;
        let sent = Sent {
            at: line.at_us.saturating_sub(statement.took_us),
            sql,
            parameters,
            is_extended: statement.is_extended,
            is_named: statement.is_named,
        };
        self.databases.entry(line.database).or_default().push((line.session, sent));
        Ok(())
    }

    fn fits(&self) -> Result<(), RecordingError> {
        match self.statements > RECORDED_MAX || self.bytes > BYTES_MAX {
            true => Err(RecordingError::TooLarge),
            false => Ok(()),
        }
    }

    /// Whether anything was recorded at all.
    ///
    /// # Errors
    /// Words for the user.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.databases.is_empty() {
            return Err("there are no statements in the recording: have the server log them with log_statement = all (or \
                        log_min_duration_statement = 0) and lc_messages = C"
                .to_owned());
        }
        Ok(())
    }

    /// The recording of the database that a branch has or, if the log knows no other, of the only one.
    ///
    /// # Errors
    /// Words for the user.
    pub(crate) fn of(mut self, database: &str) -> Result<Recording, String> {
        self.check()?;
        let only = self.databases.keys().next().filter(|_| self.databases.len() == 1).cloned();
        let name = if self.databases.contains_key(database) { Some(database.to_owned()) } else { only };
        let Some(name) = name else {
            let names: Vec<&str> = self.databases.keys().map(String::as_str).take(10).collect();
            return Err(format!(
                "the recording has statements of several databases ({}), and none of {database}",
                names.join(", ")
            ));
        };
        let sent = self.databases.remove(&name).unwrap_or_default();
        let elsewhere = self.databases.values().map(Vec::len).sum::<usize>() as u64;
        let errors = self.errors.get(&name).copied().unwrap_or_default();
        Ok(record(name, sent, Counts { elsewhere, errors, ..Counts::default() }))
    }
}

fn record(database: String, mut sent: Vec<(String, Sent)>, mut counts: Counts) -> Recording {
    // Durations are logged at the end of statements, and files in whatever order they were named.
    sent.sort_by_key(|(_, sent)| sent.at);
    let first = sent.first().map_or(0, |(_, sent)| sent.at);
    let since = |at: i64| Duration::from_micros(u64::try_from(at.saturating_sub(first)).unwrap_or_default());
    let span = sent.last().map_or(Duration::ZERO, |(_, sent)| since(sent.at));
    let mut sessions: BTreeMap<String, Recorder> = BTreeMap::new();
    let mut shapes = Shapes::default();
    for (session, sent) in sent {
        let session = sessions.entry(session).or_default();
        let word = first_word(&sent.sql);
        if word == "COPY" && is_of_client(&sent.sql) {
            counts.copies += 1;
            continue;
        }
        if sent.is_extended && sent.parameters.is_none() && has_parameters(&sent.sql) {
            counts.without_parameters += 1;
            continue;
        }
        counts.statements += 1;
        if !session.is_open && matches!(word.as_str(), "SET" | "RESET") && sent.parameters.is_none() {
            session.settings.push(sent.sql);
            continue;
        }
        let statement = Recorded {
            at: since(sent.at),
            shape: shapes.of(&sent.sql),
            sql: Arc::clone(&sent.sql),
            parameters: sent.is_extended.then(|| sent.parameters.unwrap_or_default()),
            is_named: sent.is_named,
        };
        match session.transactions.last_mut().filter(|_| session.is_open) {
            Some(open) => open.statements.push(statement),
            None => session
                .transactions
                .push(Transaction { settings: session.settings.len(), statements: vec![statement] }),
        }
        session.is_open = is_open_after(&sent.sql, session.is_open);
    }
    let mut sessions: Vec<Recorder> =
        sessions.into_values().filter(|it| !it.transactions.is_empty()).collect();
    let shapes = shapes.most_frequent(&mut sessions);
    Recording { database, sessions, counts, shapes, span }
}

/// Shapes by the texts that have them: the shape of a text that comes again is not made again.
#[derive(Debug, Default)]
struct Shapes {
    by_text: HashMap<Arc<str>, usize>,
    by_shape: HashMap<String, usize>,
    all: Vec<(String, u64)>,
}

impl Shapes {
    fn of(&mut self, sql: &Arc<str>) -> usize {
        let number = match self.by_text.get(sql) {
            Some(number) => *number,
            None => {
                let shape: String = shape(sql).chars().take(SHAPE_MAX).collect();
                let next = self.all.len();
                let number = *self.by_shape.entry(shape.clone()).or_insert(next);
                if number == next {
                    self.all.push((shape, 0));
                }
                self.by_text.insert(Arc::clone(sql), number);
                number
            }
        };
        self.all[number].1 += 1;
        number
    }

    /// Keeps the most frequent, and gives the statements their new numbers.
    fn most_frequent(self, sessions: &mut [Recorder]) -> Vec<(String, u64)> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(self.all[*number].1));
        let mut renumbered = vec![0; order.len()];
        for (place, number) in order.iter().enumerate() {
            renumbered[*number] = place.min(SHAPES_MAX);
        }
        let mut kept: Vec<(String, u64)> =
            order.iter().take(SHAPES_MAX).map(|at| self.all[*at].clone()).collect();
        let others: u64 = order.iter().skip(SHAPES_MAX).map(|number| self.all[*number].1).sum();
        if others > 0 {
            kept.push((OTHERS.to_owned(), others));
        }
        let all = sessions.iter_mut().flat_map(|session| &mut session.transactions);
        for statement in all.flat_map(|transaction| &mut transaction.statements) {
            statement.shape = renumbered[statement.shape];
        }
        kept
    }
}

fn is_of_client(sql: &str) -> bool {
    let upper = sql.to_ascii_uppercase();
    upper.contains("STDIN") || upper.contains("STDOUT")
}

fn has_parameters(sql: &str) -> bool {
    let shape = shape(sql);
    shape.as_bytes().windows(2).any(|pair| pair[0] == b'$' && pair[1].is_ascii_digit())
}

/// Whether a transaction is open after a message, which may hold several statements.
fn is_open_after(sql: &str, was_open: bool) -> bool {
    // What cannot be taken apart changes nothing: the server refused it as well.
    let pieces = statements(sql).unwrap_or_default();
    pieces.iter().fold(was_open, |is_open, piece| {
        let second = piece.split_whitespace().nth(1).unwrap_or_default().to_ascii_uppercase();
        match first_word(piece).as_str() {
            "BEGIN" => true,
            "START" => second == "TRANSACTION" || is_open,
            "ROLLBACK" | "COMMIT" if second == "PREPARED" => is_open,
            "ROLLBACK" if is_to_savepoint(piece) => is_open,
            "COMMIT" | "END" | "ROLLBACK" | "ABORT" => false,
            "PREPARE" if second == "TRANSACTION" => false,
            _ => is_open,
        }
    })
}

/// `ROLLBACK [WORK | TRANSACTION] TO`.
fn is_to_savepoint(piece: &str) -> bool {
    piece.split_whitespace().skip(1).take(2).any(|word| word.eq_ignore_ascii_case("TO"))
}

#[cfg(test)]
#[path = "../tests/unit/recordings.rs"]
mod tests;
