//! The work of each client, prepared before the barrier: names, paths, bodies, and the answers that are
//! expected.

use std::collections::HashSet;

use duramen_api::model::{CreateBranch, QueryRequest, QueryStatement};
use duramen_client::Encoded;
use serde_json::{json, Value};

use super::options::{Options, Write};
use duramen_reports::suite::SuiteError;

/// The read of one airline by its primary key: the first and the second query. Its pages are few, and warm in a hot
/// branch.
pub(crate) const AIRLINE_READ: &str = "select name from airlines where carrier = $1";
/// The read of one flight by its primary key, of which a hot branch has read another one at most: its pages come from
/// the volume.
pub(crate) const POINT_READ: &str =
    "select carrier, flight, origin, dest, dep_delay from flights where id = $1";
/// The insert of one event.
pub(crate) const EVENT_INSERT: &str =
    "insert into events (flight_id, kind, payload) values ($1, $2, $3::jsonb) returning id";
/// A read that any database answers.
pub(crate) const PLAIN_READ: &str = "select 1";

/// A branch that the lab lost sight of goes away by itself after so long.
const TTL_S: i64 = 900;
const KINDS: [&str; 4] = ["boarding", "departed", "delayed", "arrived"];

/// A read and its right answer.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// The request, ready to be sent.
    pub(crate) request: Encoded<QueryRequest>,
    /// What is read.
    pub(crate) key: Key,
    /// The rows as JSON.
    pub(crate) expected: String,
}

/// What a read asks for.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    /// [`PLAIN_READ`].
    Nothing,
    /// [`AIRLINE_READ`] of this carrier.
    Airline(String),
    /// [`POINT_READ`] of this flight.
    Flight(i64),
}

/// A write.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// One row into `events`.
    Event { request: Encoded<QueryRequest>, flight: i64, kind: &'static str, payload: String },
    /// Several statements in one transaction.
    Schema { request: Encoded<QueryRequest>, statements: Vec<String> },
}

impl Change {
    pub(crate) fn request(&self) -> Encoded<QueryRequest> {
        match self {
            Change::Event { request, .. } | Change::Schema { request, .. } => request.clone(),
        }
    }

    /// How many results the reply must hold.
    pub(crate) fn results(&self) -> usize {
        match self {
            Change::Event { .. } => 1,
            Change::Schema { statements, .. } => statements.len(),
        }
    }
}

/// What one client does in one round.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) create: Encoded<CreateBranch>,
    pub(crate) policy: &'static str,
    pub(crate) reads: [Read; 2],
    /// The read of a flight, for the burst after the rounds.
    pub(crate) point: Read,
    pub(crate) change: Option<Change>,
}

/// Draws the plans of a run.
#[derive(Debug)]
pub(crate) struct Planner {
    /// Distinguishes the run's branches from all others in the home.
    pub(crate) run: String,
    pub(crate) source: String,
    pub(crate) write: Write,
    /// Reads to choose from for the rounds; never empty.
    pub(crate) reads: Vec<Read>,
    /// Point reads to choose from; never empty.
    pub(crate) points: Vec<Read>,
    pub(crate) rng: fastrand::Rng,
    /// The next read to hand out.
    pub(crate) next: usize,
}

impl Planner {
    /// The plan of one client of one round.
    pub(crate) fn plan(&mut self, options: &Options, round: &str, client: u32) -> Result<Plan, SuiteError> {
        let name = format!("lab-{}-{round}-{client}", self.run);
        let policy = self.write.policy();
        let create = CreateBranch {
            source: Some(self.source.clone()),
            name: Some(name.clone()),
            policy: Some(policy),
            ttl_s: Some(TTL_S),
            ..CreateBranch::default()
        };
        let change = match options.write {
            Write::Events => Some(self.event()?),
            Write::Ddl => Some(schema(&name)?),
            Write::None => None,
        };
        Ok(Plan {
            create: encode(&create)?,
            policy: policy.name(),
            reads: [self.read(), self.read()],
            point: self.points[self.rng.usize(..self.points.len())].clone(),
            change,
            name,
        })
    }

    fn read(&mut self) -> Read {
        let read = self.reads[self.next % self.reads.len()].clone();
        self.next += 1;
        read
    }

    /// An event of a flight that is in the data.
    pub(crate) fn event(&mut self) -> Result<Change, SuiteError> {
        let any = self.rng.usize(..self.points.len());
        let flight = if let Key::Flight(flight) = self.points[any].key { flight } else { 1 };
        let kind = KINDS[self.rng.usize(..KINDS.len())];
        let payload = json!({ "gate": self.rng.u8(1..60), "minutes": self.rng.i16(-20..400) }).to_string();
        let request = one(EVENT_INSERT, vec![json!(flight), json!(kind), json!(payload)])?;
        Ok(Change::Event { request, flight, kind, payload })
    }
}

/// The read of one flight, with its answer.
pub(crate) fn flight_read(flight: i64, expected: String) -> Result<Read, SuiteError> {
    Ok(Read { request: one(POINT_READ, vec![json!(flight)])?, key: Key::Flight(flight), expected })
}

/// The read of one airline, with its answer.
pub(crate) fn airline_read(carrier: String, expected: String) -> Result<Read, SuiteError> {
    Ok(Read { request: one(AIRLINE_READ, vec![json!(carrier)])?, key: Key::Airline(carrier), expected })
}

/// The read that any database answers.
pub(crate) fn plain_read() -> Result<Read, SuiteError> {
    Ok(Read { request: one(PLAIN_READ, Vec::new())?, key: Key::Nothing, expected: "[[1]]".to_owned() })
}

/// A request with one statement.
pub(crate) fn one(sql: &str, params: Vec<Value>) -> Result<Encoded<QueryRequest>, SuiteError> {
    encode(&QueryRequest { sql: Some(sql.to_owned()), params, ..QueryRequest::default() })
}

/// A schema with a table, two indexes and a row. The schema is named for the branch only so that a reader of
/// the server's log can tell; branches do not see each other.
fn schema(branch: &str) -> Result<Change, SuiteError> {
    let statements = schema_statements(branch);
    let request = encode(&QueryRequest {
        statements: statements
            .iter()
            .map(|sql| QueryStatement { sql: sql.clone(), params: Vec::new() })
            .collect(),
        ..QueryRequest::default()
    })?;
    Ok(Change::Schema { request, statements })
}

/// The statements of the write `ddl`.
#[must_use]
pub(crate) fn schema_statements(branch: &str) -> Vec<String> {
    let schema = branch.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    vec![
        format!("create schema {schema}"),
        format!("create table {schema}.notes (id bigint, name text, payload jsonb)"),
        format!("create index notes_id on {schema}.notes (id)"),
        format!("create index notes_name on {schema}.notes (name)"),
        format!("insert into {schema}.notes values (1, 'first', '{{\"made\": \"by the lab\"}}')"),
    ]
}

/// Draws `count` numbers from `low..=high`, each once if there are enough of them.
#[must_use]
pub(crate) fn draw(rng: &mut fastrand::Rng, count: usize, low: i64, high: i64) -> Vec<i64> {
    let range = u64::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
    // Drawing again until a number is new is quick only while at least half of them still are.
    if range < 2 * count as u64 {
        let mut all: Vec<i64> = (low..=high).collect();
        rng.shuffle(&mut all);
        return all.iter().copied().cycle().take(count).collect();
    }
    let mut seen = HashSet::with_capacity(count);
    let mut drawn = Vec::with_capacity(count);
    while drawn.len() < count {
        let number = rng.i64(low..=high);
        if seen.insert(number) {
            drawn.push(number);
        }
    }
    drawn
}

pub(crate) fn encode<T: serde::Serialize>(request: &T) -> Result<Encoded<T>, SuiteError> {
    Encoded::new(request).map_err(SuiteError::refused("write a request"))
}
