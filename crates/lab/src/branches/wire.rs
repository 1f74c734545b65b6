//! The same work over a PostgreSQL connection of its own to the branch's URL, as any driver does it.

use std::time::Duration;

use duramen_base::clock;
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::load::closed_loop_with;
use tokio_postgres::types::Type;
use tokio_postgres::NoTls;

use super::client::{Failure, Lived, Session, STEP_DEADLINE};
use super::clients::Way;
use super::control::Control;
use super::options::{Options, Runner};
use super::pool;
use super::workload::{Change, Key, Plan, Planner, Read, AIRLINE_READ, EVENT_INSERT, PLAIN_READ, POINT_READ};
use duramen_reports::suite::SuiteError;

/// The burst is of a hundred at once, or fewer if there are fewer clients.
const BURST_MAX: u32 = 100;
/// Descriptors beside those of the clients: logs, the daemon's connection, the runtime's own.
const SPARE_FILES: u64 = 128;

/// Lets this process have a connection for each client, and what it takes to reach a branch beside it.
pub(crate) fn raise_file_limit(options: &Options) {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    let each = match options.runner {
        Runner::Session | Runner::Wire | Runner::NodePg | Runner::Router => 2,
        // While a process starts, both ends of its pipes are open here.
        Runner::Psql => 10,
    };
    let wanted = u64::from(options.concurrency) * each + SPARE_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |most| most.min(wanted));
        // If it stays as it is, connecting fails with an error that names the limit.
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }).ok();
    }
}

/// Connects, reads twice and writes.
pub(crate) async fn work(url: &str, plan: &Plan, lived: &mut Lived) -> Result<(), Failure> {
    let begin = clock::now();
    let client = connect(url).await?;
    let connected = clock::now();
    read(&client, "first query", &plan.reads[0]).await?;
    lived.first_query = Some(connected.elapsed());
    lived.wire_first_query = Some(begin.elapsed());
    let begin = clock::now();
    read(&client, "second query", &plan.reads[1]).await?;
    lived.second_query = Some(begin.elapsed());
    if let Some(change) = &plan.change {
        let begin = clock::now();
        write(&client, change).await?;
        lived.write = Some(begin.elapsed());
    }
    Ok(())
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, Failure> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.map_err(|error| Failure::of_server("connect", &error))?;
    // It ends with the client; what it fails with is told to whoever waits for an answer.
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

async fn read(client: &tokio_postgres::Client, step: &'static str, wanted: &Read) -> Result<(), Failure> {
    let rows = match &wanted.key {
        Key::Flight(flight) => client.query_typed(POINT_READ, &[(flight, Type::INT8)]).await,
        Key::Airline(carrier) => client.query_typed(AIRLINE_READ, &[(carrier, Type::TEXT)]).await,
        Key::Nothing => client.query_typed(PLAIN_READ, &[]).await,
    };
    let rows = rows.map_err(|error| Failure::of_server(step, &error))?;
    let [row] = rows.as_slice() else {
        return Err(Failure::wrong(step, format!("{} rows instead of one", rows.len())));
    };
    // Text in any import; numbers may be of several types.
    let columns: &[usize] = match wanted.key {
        Key::Nothing => &[],
        Key::Airline(_) => &[0],
        Key::Flight(_) => &[0, 2, 3],
    };
    for &column in columns {
        let found: Option<String> = row.try_get(column).map_err(|error| Failure::of_server(step, &error))?;
        let found = found.unwrap_or_else(|| "null".to_owned());
        if !wanted.expected.contains(&found) {
            return Err(Failure::wrong(step, format!("expected {}, got {found:?}", wanted.expected)));
        }
    }
    Ok(())
}

async fn write(client: &tokio_postgres::Client, change: &Change) -> Result<(), Failure> {
    let refused = |error| Failure::of_server("write", &error);
    match change {
        Change::Event { flight, kind, payload, .. } => {
            let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
                [(flight, Type::INT8), (kind, Type::TEXT), (payload, Type::TEXT)];
            let rows = client.query_typed(EVENT_INSERT, &values).await.map_err(refused)?;
            match rows.len() {
                1 => Ok(()),
                other => Err(Failure::wrong("write", format!("{other} rows instead of one"))),
            }
        }
        Change::Schema { statements, .. } => {
            // One message, so that it is one implicit transaction, as it is through the daemon.
            client.batch_execute(&statements.join(";\n")).await.map_err(refused)
        }
    }
}

/// Two bursts over branches that are leased before the barrier: a point read through each resident session, whose
/// pages come from the volume, and then a connection to each, which is what a driver of its own costs.
pub(crate) async fn burst(
    control: &mut Control,
    planner: &mut Planner,
    options: &Options,
    say: &dyn Fn(&str),
) -> Result<Bursts, SuiteError> {
    let clients = options.concurrency.min(BURST_MAX);
    say(&format!("connecting to {clients} branches at once"));
    let mut leased = Vec::new();
    let mut failures = Vec::new();
    for client in 0..clients {
        let plan = planner.plan(options, "wire", client)?;
        let mut session = Session { connection: control.another().await?, plan, way: Way::Wire };
        match session.create(&mut Lived::default()).await {
            Ok(url) => leased.push((session, url)),
            Err(failure) => failures.push(failure),
        }
    }
    // The refill that these leases set off must not run while the connections are timed.
    pool::until_idle(control, pool::deadline(options.pool_size()), say).await?;
    let mut bursts = Bursts { failures, ..Bursts::default() };
    if leased.is_empty() {
        return Ok(bursts);
    }
    let waiting: Vec<_> = leased.into_iter().map(Some).collect();
    let run = closed_loop_with(waiting, 1, |waiting, _| async move {
        let read = match waiting {
            Some((mut session, url)) => Some((session.point_read().await, (session, url))),
            None => None,
        };
        (None, read)
    });
    let mut leased = Vec::new();
    for (outcome, session) in run.await?.samples.into_iter().filter_map(|sample| sample.output) {
        leased.push(session);
        match outcome {
            Ok(latency) => bursts.point_read.record(latency),
            Err(failure) => bursts.failures.push(failure),
        }
    }
    let run = closed_loop_with(leased, 1, |(mut session, url), _| async move {
        let outcome = tokio::time::timeout(STEP_DEADLINE, first_query(&url, &session.plan)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(Failure::deadline("wire")));
        let mut lived = Lived { lease: Some(Duration::ZERO), ..Lived::default() };
        let outcome = session.destroy(&mut lived).await.and(outcome);
        ((session, url), outcome)
    });
    for sample in run.await?.samples {
        match sample.output {
            Ok(latency) => bursts.wire_first_query.record(latency),
            Err(failure) => bursts.failures.push(failure),
        }
    }
    Ok(bursts)
}

/// What the bursts after the rounds gave.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    pub(crate) point_read: LatencyHistogram,
    pub(crate) wire_first_query: LatencyHistogram,
    pub(crate) failures: Vec<Failure>,
}

async fn first_query(url: &str, plan: &Plan) -> Result<Duration, Failure> {
    let begin = clock::now();
    let client = connect(url).await?;
    read(&client, "first query", &plan.reads[0]).await?;
    Ok(begin.elapsed())
}
