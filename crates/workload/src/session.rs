//! A session that runs scripts.

use std::collections::HashMap;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_postgres::connection::Target;
use futures_util::TryStreamExt as _;
use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::error::WorkloadError;
use crate::expression::Scope;
use crate::scan::Part;
use crate::script::{Effect, Statement, Time, What, LONGEST_SLEEP};
use crate::tally::{Ended, Failed};
use crate::value::Value;
use crate::workload::{Kind, Workload};

/// A transaction is tried so often at most, if it failed with one of [`RETRIED`].
pub const MOST_TRIES: usize = 10;
/// Serialization failures and deadlocks.
pub const RETRIED: [&str; 2] = ["40001", "40P01"];
/// What takes no time takes no longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries to connect again.
const PAUSE: Duration = Duration::from_millis(100);

/// A session, with its variables and its random numbers.
pub(crate) struct Session {
    client: Client,
    target: Target,
    level: Option<String>,
    variables: HashMap<String, Value>,
    rng: fastrand::Rng,
    /// How far the sequences are, by kind and name.
    sequences: HashMap<(usize, String), i64>,
    /// Which client it is, of how many.
    number: u32,
    of: u32,
}

/// How long the parts of a transaction took.
#[derive(Default)]
struct Parts {
    work: Duration,
    commit: Duration,
}

impl Session {
    pub(crate) async fn open(
        target: &Target,
        workload: &Workload,
        number: u32,
        of: u32,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let client = connect(target).await?;
        let seed_value = Value::Int((seed >> 1) as i64);
        let variables = [
            ("client_id", Value::Int(number.into())),
            ("scale", Value::Int(workload.scale().into())),
            ("random_seed", seed_value.clone()),
            ("default_seed", seed_value),
        ];
        Ok(Self {
            client,
            target: target.clone(),
            level: None,
            variables: variables.map(|(name, value)| (name.to_owned(), value)).into(),
            rng: entropy::rng(seed.wrapping_add(u64::from(number) + 1)),
            sequences: HashMap::new(),
            number,
            of,
        })
    }

    /// From now on it commits at this level.
    pub(crate) async fn set_level(&mut self, level: &str) -> Result<(), WorkloadError> {
        self.level = Some(level.to_owned());
        let set = format!("SET synchronous_commit = {level}");
        let doing = || format!("set synchronous_commit to {level} for the load");
        match timeout(PATIENCE, self.client.batch_execute(&set)).await {
            Ok(Ok(())) => Ok(()),
            // What ended the connection may have ended before.
            Ok(Err(error)) if error.is_closed() => self.reopen().await,
            Ok(Err(error)) => {
                Err(WorkloadError::Server { doing: doing(), said: Failed::of_server(&error).text })
            }
            Err(_) => Err(WorkloadError::Server { doing: doing(), said: "no answer within 30 s".to_owned() }),
        }
    }

    /// Whether it is still at its level.
    pub(crate) async fn is_at_level(&self) -> bool {
        let asked = self.client.simple_query("SHOW synchronous_commit");
        let Ok(Ok(messages)) = timeout(PATIENCE, asked).await else { return false };
        let found = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        self.level.as_deref().is_none_or(|level| found == Some(level))
    }

    /// Connects again, at the level at which it was.
    pub(crate) async fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.client = connect(&self.target).await?;
        match self.level.clone() {
            Some(level) => {
                let set = format!("SET synchronous_commit = {level}");
                let set = timeout(PATIENCE, self.client.batch_execute(&set)).await;
                let failed =
                    |said: String| WorkloadError::Server { doing: "set a session up again".to_owned(), said };
                set.map_err(|_| failed("no answer within 30 s".to_owned()))?
                    .map_err(|error| failed(Failed::of_server(&error).text))
            }
            None => Ok(()),
        }
    }

    /// Asks the server to end what the session does, and connects again: nobody knows where it stands.
    pub(crate) async fn give_up(&mut self) {
        if let Ok(tls) = self.target.tls() {
            // A server that cannot be reached has nothing to cancel.
            let _ = timeout(PATIENCE, self.client.cancel_token().cancel_query(tls)).await;
        }
        // If that fails, the next transaction says so.
        let _ = self.reopen().await;
    }

    /// One of the kinds, by their weights.
    pub(crate) fn draw(&mut self, weights: &[u64]) -> usize {
        let mut left = self.rng.u64(..weights.iter().sum::<u64>().max(1));
        let chosen = weights.iter().position(|weight| {
            let is_chosen = left < *weight;
            left = left.saturating_sub(*weight);
            is_chosen
        });
        chosen.unwrap_or(0)
    }

    /// One transaction of a kind, tried again if it collided with another one.
    pub(crate) async fn run(&mut self, index: usize, kind: &Kind) -> Ended {
        let begin = clock::now();
        for (name, first) in &kind.sequences {
            let at = self
                .sequences
                .entry((index, name.clone()))
                .or_insert(first.saturating_add(self.number.into()));
            self.variables.insert(name.clone(), Value::Int(*at));
            *at = at.saturating_add(self.of.into());
        }
        let (variables, rng) = (self.variables.clone(), self.rng.clone());
        let mut retries = Vec::new();
        loop {
            let mut parts = Parts::default();
            let result = self.once(kind, &mut parts).await;
            if let Err(failed) = &result {
                if RETRIED.contains(&failed.code.as_str()) && retries.len() + 1 < MOST_TRIES {
                    retries.push(failed.code.clone());
                    // The same transaction again, with the same numbers.
                    (self.variables, self.rng) = (variables.clone(), rng.clone());
                    continue;
                }
            }
            let Parts { work, commit } = parts;
            let service = begin.elapsed();
            return Ended { kind: index, work, commit, service, retries, result, at: Duration::ZERO };
        }
    }

    async fn once(&mut self, kind: &Kind, parts: &mut Parts) -> Result<(), Failed> {
        let (mut at, mut in_block) = (0, false);
        while let Some(command) = kind.script.commands.get(at) {
            at += 1;
            match &command.what {
                What::Sql(statement) => {
                    let was_in_block = in_block;
                    let mut commits = false;
                    for effect in &statement.effects {
                        match effect {
                            Effect::Begins => in_block = true,
                            Effect::Ends(chains) => (in_block, commits) = (*chains, true),
                            Effect::Works => {}
                        }
                    }
                    commits |= !was_in_block && !in_block;
                    let begin = clock::now();
                    let done = self.send(statement, command.line).await;
                    let took = begin.elapsed();
                    *(if commits { &mut parts.commit } else { &mut parts.work }) += took;
                    if let Err(failed) = done {
                        self.clean_up(was_in_block || in_block).await;
                        return Err(failed);
                    }
                }
                What::Set { name, value } => match self.value(value) {
                    Ok(value) => drop(self.variables.insert(name.clone(), value)),
                    Err(text) => {
                        self.clean_up(in_block).await;
                        return Err(Failed::client(command.line, text));
                    }
                },
                What::Sleep { time, unit } => {
                    let number = match time {
                        Time::Number(number) => Ok(*number),
                        Time::Variable(name) => self
                            .variables
                            .get(name)
                            .ok_or_else(|| format!("{name} has no value"))
                            .and_then(Value::int),
                    };
                    match number {
                        Ok(number) => {
                            let time = unit.of(u64::try_from(number).unwrap_or(0)).min(LONGEST_SLEEP);
                            tokio::time::sleep(time).await;
                        }
                        Err(text) => {
                            self.clean_up(in_block).await;
                            return Err(Failed::client(command.line, text));
                        }
                    }
                }
                What::Unless(condition, to) => match self.value(condition).and_then(|value| value.truth()) {
                    Ok(true) => {}
                    Ok(false) => at = *to,
                    Err(text) => {
                        self.clean_up(in_block).await;
                        return Err(Failed::client(command.line, text));
                    }
                },
                What::Goto(to) => at = *to,
            }
        }
        if in_block {
            self.clean_up(true).await;
            let text = "the script leaves a transaction open, which was rolled back".to_owned();
            return Err(Failed { code: "open".to_owned(), text });
        }
        Ok(())
    }

    fn value(&mut self, expression: &crate::expression::Expression) -> Result<Value, String> {
        Scope { variables: &self.variables, rng: &mut self.rng }.value(expression)
    }

    /// After an error: ends the block, or connects again.
    async fn clean_up(&mut self, in_block: bool) {
        if self.client.is_closed() {
            tokio::time::sleep(PAUSE).await;
            // If that fails, the next transaction says so.
            let _ = self.reopen().await;
        } else if in_block {
            let rolled_back = timeout(PATIENCE, self.client.batch_execute("ROLLBACK")).await;
            if !matches!(rolled_back, Ok(Ok(()))) {
                let _ = self.reopen().await;
            }
        }
    }

    /// The SQL as it is sent.
    fn text(&self, statement: &Statement) -> String {
        let mut text = String::new();
        for part in &statement.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Variable { name, .. } => match self.variables.get(name) {
                    Some(value) => text.push_str(&value.to_string()),
                    None => {
                        text.push(':');
                        text.push_str(name);
                    }
                },
            }
        }
        text
    }

    async fn send(&mut self, statement: &Statement, line: usize) -> Result<(), Failed> {
        let text = self.text(statement);
        let mut captured: Vec<(String, Value)> = Vec::new();
        {
            let failed = |error: tokio_postgres::Error| Failed::of_server(&error);
            let stream = self.client.simple_query_raw(&text).await.map_err(failed)?;
            let mut stream = std::pin::pin!(stream);
            // Of the statement that is under way.
            let (mut rows, mut row_values) = (0_u64, Vec::new());
            let (mut last_rows, mut last_values) = (0_u64, Vec::new());
            while let Some(message) = stream.try_next().await.map_err(failed)? {
                match message {
                    SimpleQueryMessage::Row(row) => {
                        rows += 1;
                        if let Some(capture) = &statement.captures {
                            let values = row.columns().iter().enumerate().map(|(at, column)| {
                                let value = Value::from_captured(row.get(at));
                                (format!("{}{}", capture.prefix, column.name()), value)
                            });
                            row_values = values.collect();
                        }
                    }
                    SimpleQueryMessage::CommandComplete(_) => {
                        if statement.captures.as_ref().is_some_and(|capture| capture.all) {
                            captured.append(&mut row_values);
                        }
                        (last_rows, last_values) = (rows, std::mem::take(&mut row_values));
                        rows = 0;
                    }
                    _ => {}
                }
            }
            if statement.captures.as_ref().is_some_and(|capture| !capture.all) {
                if last_rows != 1 {
                    return Err(Failed::client(line, format!("\\gset needs one row, and got {last_rows}")));
                }
                captured = last_values;
            }
        }
        self.variables.extend(captured);
        Ok(())
    }

    /// Asks another session whether what was committed is there.
    pub(crate) async fn is_there(&self, check: &Statement, standby: &Client) -> Result<bool, Failed> {
        let text = self.text(check);
        let failed = |error: tokio_postgres::Error| Failed::of_server(&error);
        let ask = async {
            let stream = standby.simple_query_raw(&text).await.map_err(failed)?;
            let mut stream = std::pin::pin!(stream);
            let mut first = None;
            while let Some(message) = stream.try_next().await.map_err(failed)? {
                if let SimpleQueryMessage::Row(row) = message {
                    let value = row.get(0).map(Value::from_text);
                    first.get_or_insert(value.is_some_and(|value| value.truth().unwrap_or(true)));
                }
            }
            Ok(first.unwrap_or(false))
        };
        match timeout(PATIENCE, ask).await {
            Ok(answer) => answer,
            Err(_) => Err(Failed { code: "connection".to_owned(), text: "no answer within 30 s".to_owned() }),
        }
    }
}

impl Value {
    /// A column of a row, kept as it is; what it means is seen where it is used.
    fn from_captured(text: Option<&str>) -> Self {
        Self::Text(text.unwrap_or_default().to_owned())
    }
}

/// Opens a connection.
pub(crate) async fn connect(target: &Target) -> Result<Client, WorkloadError> {
    target.connect().await.map_err(|error| WorkloadError::Server {
        doing: format!("open a session of the load as {}", target.role()),
        said: error.to_string(),
    })
}
