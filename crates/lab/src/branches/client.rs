//! The life of one client: create, first query, second query, write, destroy.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duramen_base::clock;
use duramen_client::{ClientError, Connection};

use super::clients::Way;
use super::reply::{self, Answered, Created, Destroyed};
use super::workload::{Change, Plan, Read};

/// A client waits no longer for one step. That is far beyond any target: what takes so long is stuck.
pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(60);

/// The SQLSTATE of a deadlock.
pub(crate) const DEADLOCK: &str = "40P01";

/// What went wrong for one client.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// During which step.
    pub(crate) step: &'static str,
    /// What happened.
    pub(crate) message: String,
    /// Whether the server reported a deadlock.
    pub(crate) deadlock: bool,
    /// Whether the client's own deadline passed.
    pub(crate) timed_out: bool,
}

impl Failure {
    /// An answer that is not the right one.
    pub(crate) fn wrong(step: &'static str, message: impl Into<String>) -> Failure {
        Failure { step, message: message.into(), deadlock: false, timed_out: false }
    }

    /// The client's deadline passed.
    pub(crate) fn deadline(step: &'static str) -> Failure {
        let message = format!("no answer within {} s", STEP_DEADLINE.as_secs());
        Failure { step, message, deadlock: false, timed_out: true }
    }

    /// The daemon refused, or could not be reached.
    pub(crate) fn of_client(step: &'static str, error: &ClientError) -> Failure {
        let sqlstate = match error {
            ClientError::Refused { body, .. } => body.sqlstate.as_deref(),
            _ => None,
        };
        Failure {
            step,
            message: error.to_string(),
            deadlock: sqlstate == Some(DEADLOCK),
            timed_out: matches!(error, ClientError::Timeout { .. }),
        }
    }

    /// The branch's server refused, or could not be reached.
    pub(crate) fn of_server(step: &'static str, error: &tokio_postgres::Error) -> Failure {
        let message = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
        let deadlock = error.code().is_some_and(|state| state.code() == DEADLOCK);
        Failure { step, message, deadlock, timed_out: false }
    }
}

/// What one client met. A step that did not succeed has no latency.
#[derive(Debug, Default)]
pub(crate) struct Lived {
    pub(crate) lease: Option<Duration>,
    pub(crate) first_query: Option<Duration>,
    pub(crate) second_query: Option<Duration>,
    pub(crate) write: Option<Duration>,
    pub(crate) write_server: Option<Duration>,
    pub(crate) destroy: Option<Duration>,
    pub(crate) wire_first_query: Option<Duration>,
    /// What only this way to the branch has, under the names of its figures.
    pub(crate) others: Vec<(&'static str, Duration)>,
    /// When the destroy was answered.
    pub(crate) ended: Option<Instant>,
    /// Whether the branch said that it flushes what it commits.
    pub(crate) durable: Option<bool>,
    /// The first thing that went wrong.
    pub(crate) failure: Option<Failure>,
    /// The name of a branch that may still be there.
    pub(crate) leftover: Option<String>,
}

impl Lived {
    /// Notes the latency of a step that only this way to the branch has.
    pub(crate) fn note(&mut self, figure: &'static str, took: Duration) {
        self.others.push((figure, took));
    }
}

/// One client with its open connection and its work.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) plan: Plan,
    pub(crate) way: Way,
}

impl Session {
    /// Lives once.
    pub(crate) async fn live(&mut self) -> Lived {
        let mut lived = Lived::default();
        if let Err(failure) = self.work(&mut lived).await {
            lived.failure = Some(failure);
        }
        // Also after a failure: whether the branch is there is not always known.
        if let Err(failure) = self.destroy(&mut lived).await {
            lived.leftover = Some(self.plan.name.clone());
            lived.failure = lived.failure.or(Some(failure));
        }
        lived
    }

    async fn work(&mut self, lived: &mut Lived) -> Result<(), Failure> {
        if let Way::Router(door) = &self.way {
            // Connecting is what creates it.
            return door.work(&self.plan, lived).await;
        }
        let url = self.create(lived).await?;
        match &self.way {
            Way::Session => self.work_in_session(lived).await,
            way => way.work(&url, &self.plan, lived).await,
        }
    }

    /// Creates the branch and returns its URL, which is copied only where it is needed.
    pub(crate) async fn create(&mut self, lived: &mut Lived) -> Result<String, Failure> {
        const STEP: &str = "create";
        let request = self.plan.create.clone();
        let (reply, took) = timed(STEP, self.connection.create_branch_text(request)).await?;
        let created: Created<'_> = reply::read(&reply).map_err(|error| Failure::wrong(STEP, error))?;
        let plan = &self.plan;
        if created.name != plan.name
            || created.policy != plan.policy
            || created.state != "ready"
            || created.existing
        {
            return Err(Failure::wrong(
                STEP,
                format!(
                    "asked for {} ({}), got {} ({}, {})",
                    plan.name, plan.policy, created.name, created.policy, created.state
                ),
            ));
        }
        lived.lease = Some(took);
        lived.durable = Some(created.durable);
        Ok(if self.way.takes_url() { created.url.into_owned() } else { String::new() })
    }

    async fn work_in_session(&mut self, lived: &mut Lived) -> Result<(), Failure> {
        let Session { connection, plan, .. } = self;
        lived.first_query = Some(query(connection, "first query", plan, &plan.reads[0]).await?);
        lived.second_query = Some(query(connection, "second query", plan, &plan.reads[1]).await?);
        if let Some(change) = &plan.change {
            let (took, server) = write(connection, plan, change).await?;
            lived.write = Some(took);
            lived.write_server = Some(server);
        }
        Ok(())
    }

    /// The read of one flight.
    pub(crate) async fn point_read(&mut self) -> Result<Duration, Failure> {
        let Session { connection, plan, .. } = self;
        query(connection, "point read", plan, &plan.point).await
    }

    /// Destroys the branch, unless it was never there.
    pub(crate) async fn destroy(&mut self, lived: &mut Lived) -> Result<(), Failure> {
        const STEP: &str = "destroy";
        let result = timed(STEP, self.connection.destroy_branch_text(&self.plan.name)).await;
        let (reply, took) = match result {
            // The create failed, and there is nothing to destroy: it is that failure that counts.
            Err(_) if lived.lease.is_none() => return Ok(()),
            other => other?,
        };
        let ended = clock::now();
        let destroyed: Destroyed<'_> = reply::read(&reply).map_err(|error| Failure::wrong(STEP, error))?;
        if destroyed.name != self.plan.name {
            return Err(Failure::wrong(STEP, format!("{} was destroyed instead", destroyed.name)));
        }
        lived.destroy = Some(took);
        lived.ended = Some(ended);
        Ok(())
    }
}

async fn query(
    connection: &mut Connection,
    step: &'static str,
    plan: &Plan,
    wanted: &Read,
) -> Result<Duration, Failure> {
    let (reply, took) = timed(step, connection.query_text(&plan.name, wanted.request.clone())).await?;
    let answer: Answered<'_> = reply::read(&reply).map_err(|error| Failure::wrong(step, error))?;
    match answer.results.as_slice() {
        [only] if only.row_count == 1 && reply::same_rows(only.rows.get(), &wanted.expected) => Ok(took),
        [only] => Err(Failure::wrong(step, format!("expected {}, got {}", wanted.expected, only.rows.get()))),
        several => Err(Failure::wrong(step, format!("{} results instead of one", several.len()))),
    }
}

async fn write(
    connection: &mut Connection,
    plan: &Plan,
    change: &Change,
) -> Result<(Duration, Duration), Failure> {
    const STEP: &str = "write";
    let (reply, took) = timed(STEP, connection.query_text(&plan.name, change.request())).await?;
    let answer: Answered<'_> = reply::read(&reply).map_err(|error| Failure::wrong(STEP, error))?;
    let inserted = answer.results.last().is_some_and(|last| {
        // An event returns its new id; the row of a new schema returns nothing.
        let returned = matches!(change, Change::Schema { .. }) || last.row_count == 1;
        returned && last.command == "INSERT 0 1"
    });
    if answer.results.len() != change.results() || !inserted {
        let commands: Vec<&str> = answer.results.iter().map(|result| result.command.as_ref()).collect();
        return Err(Failure::wrong(STEP, format!("the server answered {commands:?}")));
    }
    Ok((took, Duration::from_micros(answer.server_us)))
}

/// Times a request, from sending to the whole reply being read.
async fn timed(
    step: &'static str,
    request: impl Future<Output = Result<Bytes, ClientError>>,
) -> Result<(Bytes, Duration), Failure> {
    let begin = clock::now();
    match request.await {
        Ok(reply) => Ok((reply, begin.elapsed())),
        Err(error) => Err(Failure::of_client(step, &error)),
    }
}
