//! Rows that a turn writes, as the composite types of the schema have them.

use jiff::Timestamp;
use postgres_types::{Field, Kind, ToSql, Type};
use tokio_postgres::Client;

use super::instance::Instance;
use crate::interpret::{Outcome, State};
use crate::json::Json;

/// An instance that has ended: a row of `_done`.
#[derive(Debug, ToSql)]
#[postgres(name = "_ended")]
pub(crate) struct Ended {
    seq: i64,
    status: &'static str,
    execution: i64,
    started_at: Timestamp,
    output: String,
    /// Nothing where the graph and the output say it all.
    state: Option<String>,
}

impl Ended {
    pub(crate) fn new(instance: &Instance, outcome: &Outcome) -> Self {
        let (status, output) = match outcome {
            Outcome::Completed(result) => ("c", result.text().to_owned()),
            Outcome::Failed(failure) => ("f", Json::string(&failure.message).text().to_owned()),
            Outcome::Cancelled(reason) => ("x", Json::string(reason).text().to_owned()),
        };
        Self {
            seq: instance.seq,
            status,
            execution: execution_number(&instance.state),
            started_at: instance.state.started_at(),
            output,
            state: instance.keeps_state().then(|| instance.state.to_json()),
        }
    }

    /// How many bytes the texts have.
    pub(crate) fn bytes(&self) -> usize {
        self.output.len() + self.state.as_ref().map_or(0, String::len)
    }
}

/// An instance that goes on: a row of `_work`.
#[derive(Debug, ToSql)]
#[postgres(name = "_going")]
pub(crate) struct Going {
    seq: i64,
    started_at: Timestamp,
    due_at: Option<Timestamp>,
    paused: bool,
    execution: i64,
    state: String,
}

impl Going {
    pub(crate) fn new(instance: &Instance) -> Self {
        Self {
            seq: instance.seq,
            started_at: instance.state.started_at(),
            due_at: instance.due_at,
            paused: instance.state.paused(),
            execution: execution_number(&instance.state),
            state: instance.state.to_json(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.state.len()
    }
}

/// The number of an execution, as its column holds it. An instance has far fewer.
fn execution_number(state: &State) -> i64 {
    i64::try_from(state.execution()).unwrap_or(i64::MAX)
}

/// The types of arrays of these rows. The server has given them numbers.
#[derive(Clone, Debug)]
pub(crate) struct RowTypes {
    pub(crate) ended: Type,
    pub(crate) going: Type,
}

impl RowTypes {
    /// Asks the database which numbers they have there.
    pub(crate) async fn read(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let sql = "SELECT 'df._ended'::regtype::oid, 'df._ended[]'::regtype::oid, 'df._going'::regtype::oid,
                       'df._going[]'::regtype::oid";
        let row = client.query_typed_one(sql, &[]).await?;
        let text = |name: &str| Field::new(name.to_owned(), Type::TEXT);
        let number = |name: &str| Field::new(name.to_owned(), Type::INT8);
        let time = |name: &str| Field::new(name.to_owned(), Type::TIMESTAMPTZ);
        let ended = vec![
            number("seq"),
            text("status"),
            number("execution"),
            time("started_at"),
            text("output"),
            text("state"),
        ];
        let going = vec![
            number("seq"),
            time("started_at"),
            time("due_at"),
            Field::new("paused".to_owned(), Type::BOOL),
            number("execution"),
            text("state"),
        ];
        Ok(Self {
            ended: array_of("_ended", ended, row.get(0), row.get(1)),
            going: array_of("_going", going, row.get(2), row.get(3)),
        })
    }
}

fn array_of(name: &str, fields: Vec<Field>, of_row: u32, of_array: u32) -> Type {
    let row = Type::new(name.to_owned(), of_row, Kind::Composite(fields), "df".to_owned());
    Type::new(format!("_{name}"), of_array, Kind::Array(row), "df".to_owned())
}
