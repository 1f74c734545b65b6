//! An installation that is taken away leaves nothing, here and in other databases.

use crate::common::{one, refusal, rows, Server, OWNER};
use crate::worker::{self, ended, eventually, execute, run, start, TestWorker, SOON};
use duramen_functions::schema::{self, SchemaError};
use tokio_postgres::Client;

/// A server that no other test uses: what is cleared in other databases could be theirs.
async fn own_server() -> Server {
    tokio::task::spawn_blocking(Server::start).await.expect("the server starts")
}

/// Everything in a database that reminds of durable functions.
async fn traces(client: &Client) -> Vec<Vec<Option<String>>> {
    rows(
        client,
        "SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname IN ('df', 'df_run')
         UNION ALL SELECT 'operator ' || oprname FROM pg_operator
             WHERE oprname IN ('~>', '|=>', '?>', '!>') AND oprright = 'text'::regtype
         UNION ALL SELECT 'setting ' || c FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase,
             unnest(s.setconfig) c WHERE d.datname = current_database() AND c LIKE 'df.%'",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_is_taken_away_leaves_nothing() {
    let server = own_server().await;
    let database = server.database().await;
    let (alice, client, owner) = worker::submitter(&database).await;
    let other = database.server().empty_database().await;
    let there = database.server().connect(OWNER, &other).await;
    let name = database.name();
    execute(
        &owner,
        &[
            &format!("ALTER DATABASE {name} SET df.http = 'on'"),
            &format!("ALTER ROLE {alice} IN DATABASE {name} SET df.retention_days = '1'"),
            &format!("CREATE VIEW {alice}.mine AS SELECT id FROM df.instances"),
        ],
    )
    .await;
    let _worker = TestWorker::start(&database, 2).await;
    run(&client, &format!("'SELECT 1', database => '{other}'")).await.completed();
    assert_eq!(traces(&there).await.len(), 1, "what steps need there");
    let id = start(&client, "df.wait_for_signal('never')").await;
    eventually(&client, &format!("SELECT df.status('{id}')"), "running", SOON).await;
    match schema::uninstall(&database.url(), false).await {
        Err(SchemaError::InUse { running: 1, dependents: Some(what), .. }) => {
            assert!(what.contains("mine"), "{what}");
        }
        other => panic!("{other:?}"),
    }
    execute(&owner, &[&format!("DROP VIEW {alice}.mine"), &format!("SELECT df.cancel('{id}')")]).await;
    ended(&client, &id, SOON).await;
    let done = schema::uninstall(&database.url(), false).await.unwrap();
    assert_eq!((done.running, done.elsewhere.as_slice()), (0, std::slice::from_ref(&other)));
    assert_eq!(done.left, Vec::<String>::new());
    for client in [&owner, &there] {
        assert_eq!(traces(client).await, Vec::<Vec<Option<String>>>::new());
    }
    let said = refusal(&owner, "SELECT df.start('SELECT 1')").await;
    assert!(said.contains("schema \"df\" does not exist"), "{said}");
    // Nothing holds the submitter's role any more but her own schema; and all can be installed again.
    execute(&owner, &[&format!("DROP SCHEMA {alice}; DROP ROLE {alice}")]).await;
    match schema::uninstall(&database.url(), true).await {
        Err(SchemaError::Missing { .. }) => {}
        other => panic!("{other:?}"),
    }
    schema::install(&database.url()).await.unwrap();
    assert_eq!(one(&owner, "SELECT count(*) FROM df.instances").await.as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn by_force_instances_go_too() {
    let server = own_server().await;
    let database = server.database().await;
    let (_, client, owner) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    start(&client, "'SELECT pg_sleep(60)'").await;
    eventually(&owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    let gone = tokio::time::timeout(SOON, async {
        loop {
            match schema::uninstall(&database.url(), true).await {
                // The worker's sessions need a moment to end.
                Err(SchemaError::Busy { .. }) => {}
                result => break result,
            }
        }
    });
    assert_eq!(gone.await.unwrap().unwrap().running, 1);
    assert_eq!(traces(&owner).await, Vec::<Vec<Option<String>>>::new());
}
