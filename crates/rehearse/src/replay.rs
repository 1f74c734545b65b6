//! A recording, replayed: which transaction is due when, and how a session runs it.
//!
//! A branch takes fewer sessions than a server has clients, so transactions are given to whatever session is free, as a pooler
//! does it. Those of one recorded session follow one another, and its settings go with them.

use crate::{
    load::{Record, Shared, What},
    recording::{Recorded, Recording, Transaction},
};
use futures_util::{pin_mut, TryStreamExt};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{atomic::Ordering, Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio_postgres::{
    types::{to_sql_checked, Format, IsNull, ToSql, Type},
    Client, Statement,
};

/// Statements that a session has prepared at a time.
const PREPARED_MAX: usize = 256;
/// How long a session waits where no transaction is due: another one's may end.
const IDLE: Duration = Duration::from_millis(5);

/// When which transaction of a recording is due.
#[derive(Debug)]
pub(crate) struct Schedule {
    recording: Arc<Recording>,
    speed: f64,
    /// When transactions are due, since the first, in order.
    due: Vec<Duration>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The next transaction of each recorded session that runs none: when it is due, of which session, and which.
    next: BinaryHeap<Reverse<(Duration, usize, usize)>>,
    begun: u64,
}

impl Schedule {
    pub(crate) fn new(recording: Arc<Recording>, speed: f64) -> Schedule {
        let all = recording.sessions.iter().flat_map(|session| &session.transactions);
        let mut due: Vec<Duration> = all.map(|it| it.at().div_f64(speed)).collect();
        due.sort_unstable();
        let first = |(at, session): (usize, &crate::recording::Recorder)| {
            session.transactions.first().map(|it| Reverse((it.at().div_f64(speed), at, 0)))
        };
        let next = recording.sessions.iter().enumerate().filter_map(first).collect();
        Schedule { recording, speed, due, state: Mutex::new(State { next, begun: 0 }) }
    }

    pub(crate) fn due_by(&self, since: Duration) -> u64 {
        self.due.partition_point(|due| *due <= since) as u64
    }

    pub(crate) fn begun(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).begun
    }

    /// The transaction that is to be begun now.
    fn take(&self, since: Duration) -> Next {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Reverse((due, session, transaction))) = state.next.peek().copied() else {
            return Next::NoneFor(IDLE);
        };
        if due > since {
            return Next::NoneFor((due - since).min(IDLE));
        }
        state.next.pop();
        state.begun += 1;
        Next::Begin { session, transaction }
    }

    /// The next transaction of the session can be begun.
    fn ended(&self, session: usize, transaction: usize) {
        let transactions = &self.recording.sessions[session].transactions;
        if let Some(next) = transactions.get(transaction + 1) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.next.push(Reverse((next.at().div_f64(self.speed), session, transaction + 1)));
        }
    }
}

enum Next {
    Begin {
        session: usize,
        transaction: usize,
    },
    /// So long at least, unless a session ends one that others wait for.
    NoneFor(Duration),
}

/// A session of ours, and what it is in.
struct Seat {
    client: Client,
    prepared: HashMap<Arc<str>, Statement>,
    /// Whose settings it has, and how many of them.
    settings: Option<(usize, usize)>,
}

impl Seat {
    fn new(client: Client) -> Seat {
        Seat { client, prepared: HashMap::new(), settings: None }
    }

    /// Gives it the settings that a recorded session had.
    async fn be(
        &mut self,
        session: usize,
        settings: &[Arc<str>],
    ) -> Result<(), (tokio_postgres::Error, Arc<str>)> {
        let has = match self.settings {
            Some((of, count)) if of == session => count.min(settings.len()),
            None => 0,
            Some(_) => {
                self.prepared.clear();
                self.settings = None;
                let sql = "DISCARD ALL";
                self.client.batch_execute(sql).await.map_err(|error| (error, sql.into()))?;
                0
            }
        };
        for (at, setting) in settings.iter().enumerate().skip(has) {
            // A setting that is refused is not tried again.
            self.settings = Some((session, at + 1));
            self.client.batch_execute(setting).await.map_err(|error| (error, Arc::clone(setting)))?;
        }
        Ok(())
    }

    async fn execute(&mut self, statement: &Recorded) -> Result<(), tokio_postgres::Error> {
        let Some(parameters) = &statement.parameters else {
            let messages = self.client.simple_query_raw(&statement.sql).await?;
            pin_mut!(messages);
            while messages.try_next().await?.is_some() {}
            return Ok(());
        };
        let prepared = match self.prepared.get(&statement.sql) {
            Some(known) => known.clone(),
            None => {
                let prepared = self.client.prepare(&statement.sql).await?;
                if statement.is_named {
                    if self.prepared.len() >= PREPARED_MAX {
                        self.prepared.clear();
                    }
                    self.prepared.insert(Arc::clone(&statement.sql), prepared.clone());
                }
                prepared
            }
        };
        let outcome = self.read(&prepared, parameters).await;
        // A plan that the migration made useless is not kept.
        if outcome.is_err() {
            self.prepared.remove(&statement.sql);
        }
        outcome
    }

    async fn read(
        &self,
        prepared: &Statement,
        parameters: &[Option<String>],
    ) -> Result<(), tokio_postgres::Error> {
        let values: Vec<Text<'_>> = parameters.iter().map(|value| Text(value.as_deref())).collect();
        let rows = self.client.query_raw(prepared, values).await?;
        pin_mut!(rows);
        while rows.try_next().await?.is_some() {}
        Ok(())
    }
}

/// A value in the form in which the server logged it.
#[derive(Debug)]
struct Text<'a>(Option<&'a str>);

impl ToSql for Text<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match self.0 {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

impl Shared {
    pub(crate) async fn replay(&self, schedule: &Schedule, client: usize, session: Client) {
        let mut seat = Seat::new(session);
        while !self.is_over() {
            let since = self.began.elapsed().saturating_sub(self.first);
            let (of, number) = match schedule.take(since) {
                Next::Begin { session, transaction } => (session, transaction),
                Next::NoneFor(span) => {
                    if !self.wait_until(self.began.elapsed() + span).await {
                        return;
                    }
                    continue;
                }
            };
            let recorded = &schedule.recording.sessions[of];
            let transaction = &recorded.transactions[number];
            self.running.fetch_add(1, Ordering::Relaxed);
            if let Err((error, setting)) = seat.be(of, &recorded.settings[..transaction.settings]).await {
                self.note_failure(&error, &crate::script::shape(&setting));
            }
            let is_cut = recorded.is_open && number + 1 == recorded.transactions.len();
            if !self.replay_one(schedule, transaction, is_cut, &mut seat).await {
                // It counts as one that did not end.
                return;
            }
            self.running.fetch_sub(1, Ordering::Relaxed);
            schedule.ended(of, number);
            if seat.client.is_closed() {
                let Some(again) = self.enter_again(client).await else { return };
                seat = Seat::new(again);
            }
        }
    }

    /// Whether it ended before the load did.
    async fn replay_one(
        &self,
        schedule: &Schedule,
        transaction: &Transaction,
        is_cut: bool,
        seat: &mut Seat,
    ) -> bool {
        let due = self.first + transaction.at().div_f64(schedule.speed);
        // Pauses within it are kept, from its real beginning.
        let begun = self.began.elapsed();
        let (mut slept, mut failed) = (Duration::ZERO, false);
        for statement in &transaction.statements {
            let pause = statement.at.saturating_sub(transaction.at()).div_f64(schedule.speed);
            let before = self.began.elapsed();
            if !self.wait_until(begun + pause).await {
                return false;
            }
            let begin = self.began.elapsed();
            slept += begin - before;
            let outcome = seat.execute(statement).await;
            let end = self.began.elapsed();
            failed = outcome.is_err();
            let what = What::Statement { script: 0, step: statement.shape };
            self.note(Record { what, begin, end, took: end.saturating_sub(begin), failed });
            if let Err(error) = outcome {
                self.note_failure(&error, &schedule.recording.shapes[statement.shape].0);
                break;
            }
        }
        // Nothing is left open by what failed, or whose end was not recorded. Outside of a transaction it is a warning.
        if failed || is_cut {
            let _ = seat.client.batch_execute("ROLLBACK").await;
        }
        let end = self.began.elapsed();
        let took = end.saturating_sub(due).saturating_sub(slept);
        self.note(Record { what: What::Transaction, begin: due, end, took, failed });
        true
    }
}
