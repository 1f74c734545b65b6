//! The language in which durable functions are written: what each function and operator makes of its arguments, what
//! is refused, and what `df.start` would store.

mod choices_and_names;
mod envelopes;
mod explain;
mod limits;
mod operators;
mod schedules;
mod steps;
mod web;

use crate::common;
use crate::common::{one, refusal, Database};
use tokio_postgres::Client;

/// A database, and a session of a role that has nothing but the use of durable functions, HTTP included.
async fn session() -> (Database<'static>, Client) {
    let database = common::database().await;
    let alice = database.stranger("alice").await;
    database.owner().await.execute("SELECT df.grant_usage($1, true)", &[&alice]).await.expect("the rights");
    let client = database.connect(&alice).await;
    (database, client)
}

/// Each expression gives the text beside it.
async fn gives(client: &Client, cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        let found = one(client, &format!("SELECT {expression}")).await;
        assert_eq!(found.as_deref(), Some(*expected), "{expression}");
    }
}

/// Each expression fails, and the server's message has the text beside it.
async fn refused(client: &Client, cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        let said = refusal(client, &format!("SELECT {expression}")).await;
        assert!(said.contains(expected), "{expression}: expected {expected:?} in {said:?}");
    }
}

/// Each expression is NULL.
async fn null(client: &Client, expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(one(client, &format!("SELECT {expression}")).await, None, "{expression}");
    }
}

/// What would be stored of a durable function, given as a SQL expression.
async fn stored(client: &Client, expression: &str) -> String {
    one(client, &format!("SELECT df._flatten({expression})")).await.expect("a graph")
}
