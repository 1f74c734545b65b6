//! One branch before the rounds: which flights there are, what they hold, and whether a write is possible.
//!
//! The expected answers come from a branch, not from the live source, so that the source is read by nobody
//! but the fingerprint.

use std::fmt::Display;

use duramen_base::entropy;
use duramen_client::Connection;
use serde_json::Value;

use super::client::Failure;
use super::options::{Options, Write};
use super::reply::{integer, read, Answered};
use super::workload::{airline_read, draw, flight_read, one, plain_read, Plan, Planner};
use duramen_reports::suite::SuiteError;

/// How many flights are asked for at once.
const BATCH: usize = 500;

/// Looks at the data, and returns a planner that knows the right answers and how many flights there are.
pub(crate) async fn look(
    connection: &mut Connection,
    options: &Options,
    is_flights: bool,
    seed: u64,
) -> Result<(Planner, Option<u64>), SuiteError> {
    let mut planner = Planner {
        run: entropy::token(8),
        source: options.source.clone(),
        write: options.write,
        reads: vec![plain_read()?],
        points: vec![plain_read()?],
        rng: entropy::rng(seed),
        next: 0,
    };
    let plan = planner.plan(options, "probe", 0)?;
    let created = connection.create_branch_text(plan.create.clone()).await;
    created.map_err(SuiteError::refused("create a branch to look at the data"))?;
    let looked = look_in(connection, options, is_flights, &plan, &mut planner).await;
    let destroyed = connection.destroy_branch_text(&plan.name).await;
    let flights = looked?;
    destroyed.map_err(SuiteError::refused("destroy the branch that looked at the data"))?;
    Ok((planner, flights))
}

async fn look_in(
    connection: &mut Connection,
    options: &Options,
    is_flights: bool,
    plan: &Plan,
    planner: &mut Planner,
) -> Result<Option<u64>, SuiteError> {
    let mut count = None;
    if is_flights {
        let bounds = "select count(*), min(id), max(id) from flights";
        let rows = ask(connection, plan, bounds).await?;
        let cell = |at: usize| rows.first().and_then(|row| integer(row.get(at)?));
        let (Some(flights), Some(low), Some(high)) = (cell(0), cell(1), cell(2)) else {
            return Err(failed(format!("{:?} has no flights", options.source)));
        };
        count = Some(flights);
        // One for each client of each round, to write an event of, and as many for the burst after them.
        let wanted = options.concurrency as usize * (options.rounds as usize + 1);
        let bound = |id: u64| i64::try_from(id).unwrap_or(i64::MAX);
        let ids = draw(&mut planner.rng, wanted, bound(low), bound(high));
        let mut reads = Vec::with_capacity(wanted);
        for batch in ids.chunks(BATCH) {
            let list = batch.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            let sql = format!(
                "select id, carrier, flight, origin, dest, dep_delay from flights where id in ({list})"
            );
            for mut row in ask(connection, plan, &sql).await? {
                let id = row.first().and_then(integer).and_then(|id| i64::try_from(id).ok());
                let id = id.ok_or_else(|| failed("a flight has no number for an id".to_owned()))?;
                row.remove(0);
                reads.push(flight_read(id, Value::from(vec![Value::from(row)]).to_string())?);
            }
        }
        if reads.is_empty() {
            return Err(failed(format!("no flight was found by its id in {:?}", options.source)));
        }
        planner.rng.shuffle(&mut reads);
        planner.points = reads;
        let mut airlines = Vec::new();
        for row in ask(connection, plan, "select carrier, name from airlines order by carrier").await? {
            let [Value::String(carrier), name] = row.as_slice() else {
                return Err(failed("an airline has no carrier code".to_owned()));
            };
            airlines.push(airline_read(carrier.clone(), Value::from(vec![vec![name.clone()]]).to_string())?);
        }
        if airlines.is_empty() {
            return Err(failed(format!("{:?} has no airlines", options.source)));
        }
        planner.reads = airlines;
    }
    if options.write == Write::Events {
        let event = planner.event()?.request();
        let written = connection.query_text(&plan.name, event).await;
        let refused = |error| {
            SuiteError::Failed(format!(
                "the source {:?} cannot take the write `events`: {}. It needs a table events (flight_id bigint, kind \
                 text, payload jsonb) with a generated id; or choose --write ddl or none",
                options.source,
                Failure::of_client("probe", &error).message
            ))
        };
        written.map_err(refused)?;
    }
    Ok(count)
}

fn failed(detail: impl Display) -> SuiteError {
    SuiteError::Failed(format!("the branch that looks at the data before the rounds failed: {detail}"))
}

/// The rows of one statement.
async fn ask(connection: &mut Connection, plan: &Plan, sql: &str) -> Result<Vec<Vec<Value>>, SuiteError> {
    let reply = connection.query_text(&plan.name, one(sql, Vec::new())?).await;
    let reply = reply.map_err(SuiteError::refused("look at the data in a branch"))?;
    let answer: Answered<'_> = read(&reply).map_err(failed)?;
    let rows = answer.results.first().map_or("[]", |result| result.rows.get());
    serde_json::from_str(rows).map_err(|error| failed(format!("its rows cannot be read: {error}")))
}
