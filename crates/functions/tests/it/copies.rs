//! Copies of a database with running functions: F-16 (what instances do outside of the database is done by one copy). Real
//! copies: the files of a stopped server, a dump that was restored, and the same server again.

use crate::common::{one, Server, OWNER};
use crate::worker;
use crate::worker::{ended, eventually, execute, run_step, start, TestWorker, SOON};
use duramen_functions::schema::{self, External, SchemaError};
use duramen_functions::worker::{Options, Worker, WorkerError, MEMORY};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_postgres::Client;

/// The submitter, on every server.
const ALICE: &str = "alice";
/// The database that has the schema, and another one in which steps run.
const HOME: &str = "home";
const OTHER: &str = "other";

/// Something outside of every database: it counts how often it is called.
pub(crate) struct World {
    port: u16,
    calls: Arc<AtomicUsize>,
}

impl World {
    pub(crate) async fn start() -> World {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut asked = [0; 4096];
                    let _ = stream.read(&mut asked).await;
                    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        World { port, calls }
    }

    pub(crate) fn call(&self) -> String {
        format!("df.http('http://127.0.0.1:{}/', 'GET')", self.port)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A server with instances in flight, each of which waits for a signal and then reaches outside.
async fn original(world: &World, start_server: fn() -> Server) -> Server {
    let server = tokio::task::spawn_blocking(start_server).await.unwrap();
    let admin = server.connect(OWNER, "postgres").await;
    for statement in [
        format!("CREATE DATABASE {HOME} TEMPLATE template0"),
        format!("CREATE DATABASE {OTHER} TEMPLATE template0"),
        format!("CREATE ROLE {ALICE} LOGIN"),
    ] {
        execute(&admin, &[&statement]).await;
    }
    let there = server.connect(OWNER, OTHER).await;
    execute(&there, &["CREATE TABLE public.ledger (entry text)", "GRANT ALL ON public.ledger TO PUBLIC"])
        .await;
    schema::install(&server.url(OWNER, HOME)).await.unwrap();
    let owner = server.connect(OWNER, HOME).await;
    execute(
        &owner,
        &[
            "CREATE TABLE public.ledger (entry text); GRANT ALL ON public.ledger TO PUBLIC",
            &format!("SELECT df.grant_usage('{ALICE}', include_http => true)"),
        ],
    )
    .await;
    let worker = TestWorker::start_at(&server.url(OWNER, HOME), 4).await;
    let client = server.connect(ALICE, HOME).await;
    let call = world.call();
    let after = "'INSERT INTO public.ledger VALUES (''after'')'";
    for (label, expression) in [
        ("http", format!("df.wait_for_signal('go') ~> {call} ~> {after}")),
        (
            "caught",
            format!(
                "df.wait_for_signal('go') ~> df.catch({call} ~> 'SELECT ''done'' AS code', 'SELECT $error.sqlstate AS code')"
            ),
        ),
        ("child", format!("df.wait_for_signal('go') ~> df.call({call})")),
    ] {
        start(&client, &format!("{expression}, '{label}'")).await;
    }
    let there = "'INSERT INTO public.ledger VALUES (''there'')'";
    start(&client, &format!("df.wait_for_signal('go') ~> {there}, 'elsewhere', '{OTHER}'")).await;
    // One is in the middle of a step, under a worker that lives only in the original.
    let slow =
        "'WITH nap AS MATERIALIZED (SELECT pg_sleep(1)) INSERT INTO public.ledger SELECT ''slow'' FROM nap'";
    start(&client, &format!("{slow}, 'slow'")).await;
    eventually(&owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    eventually(&owner, "SELECT count(*) FROM df._work", "5", SOON).await;
    worker.kill();
    eventually(&owner, "SELECT count(*) FROM df._activity", "1", SOON).await;
    server
}

/// What the owner of a database allows there. A dump of one database does not say.
pub(crate) async fn allow_http(server: &Server, database: &str) {
    let owner = server.connect(OWNER, database).await;
    for setting in ["df.http = 'on'", "df.http_allowed_hosts = '127.0.0.1'", "df.http_allow_private = 'on'"] {
        execute(&owner, &[&format!("ALTER DATABASE {database} SET {setting}")]).await;
    }
}

/// A worker is refused there, and the reason says what to do.
async fn is_refused(url: &str) {
    match Worker::start(Options {
        url: url.to_owned(),
        connections: 2,
        per_role: None,
        memory: MEMORY,
        lanes: None,
        allow_superuser: true,
        rehearsal: None,
    })
    .await
    {
        Err(WorkerError::Schema(error @ SchemaError::Copy { .. })) => {
            let said = error.to_string();
            assert!(said.contains("duramen fn adopt") && said.contains("--external="), "{said}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a worker runs instances of another copy"),
    }
}

async fn go(client: &Client) {
    execute(
        client,
        &["SELECT df.signal(id, 'go') FROM df.instances WHERE status = 'running' AND label IS NOT NULL"],
    )
    .await;
}

async fn end_of(client: &Client, label: &str) -> worker::Ended {
    let id = one(client, &format!("SELECT id FROM df.instances WHERE label = '{label}'")).await.unwrap();
    ended(client, &id, SOON).await
}

async fn ledger(client: &Client) -> String {
    one(client, "SELECT string_agg(entry, ' ' ORDER BY entry) FROM public.ledger").await.unwrap_or_default()
}

/// A branch: the files are the same, and only the server's command line says that it is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_clone_runs_nothing_until_it_is_adopted_and_skips_what_reaches_outside() {
    let world = World::start().await;
    let server = original(&world, Server::start).await;
    allow_http(&server, HOME).await;
    let clone = server.copy_with(&[("duramen.identity", "x")]);
    let url = clone.url(OWNER, HOME);
    is_refused(&url).await;
    // An installation is not a decision.
    schema::install(&url).await.unwrap();
    is_refused(&url).await;
    let client = clone.connect(ALICE, HOME).await;
    start(&client, &format!("{}, 'early'", world.call())).await;

    let adopted = schema::adopt(&url, External::Skip).await.unwrap();
    assert_eq!(adopted.instances, Some(6));
    assert_eq!(schema::adopt(&url, External::Run).await.unwrap().instances, None, "it is decided");
    let worker = TestWorker::start_at(&url, 4).await;
    go(&client).await;
    for label in ["http", "child", "elsewhere", "early"] {
        let said = end_of(&client, label).await.failed();
        assert!(said.contains("skipped"), "{label}: {said}");
    }
    let caught = end_of(&client, "caught").await.completed();
    assert!(caught.contains("2F003"), "{caught}");
    end_of(&client, "slow").await.completed();
    assert_eq!(ledger(&client).await, "slow", "what stays inside goes on, here");
    assert_eq!(ledger(&clone.connect(OWNER, OTHER).await).await, "");
    assert_eq!(world.calls(), 0);
    // What is started from now on is this copy's own.
    start(&client, &format!("df.call({}), 'late'", world.call())).await;
    end_of(&client, "late").await.completed();
    assert_eq!(world.calls(), 1);
    worker.kill();
    // The same copy, started anew; and a copy of the copy.
    clone.restart_with(&[]);
    let worker = TestWorker::start_at(&url, 2).await;
    run_step(&clone.connect(ALICE, HOME).await, "SELECT 1").await.completed();
    worker.kill();
    clone.restart_with(&[("duramen.identity", "y")]);
    is_refused(&url).await;

    // The original was restarted, too, and knows nothing of all that.
    let client = server.connect(ALICE, HOME).await;
    let _worker = TestWorker::start_at(&server.url(OWNER, HOME), 4).await;
    go(&client).await;
    for label in ["http", "child", "elsewhere", "caught", "slow"] {
        end_of(&client, label).await.completed();
    }
    assert_eq!(ledger(&client).await, "after slow");
    assert_eq!(ledger(&server.connect(OWNER, OTHER).await).await, "there");
    assert_eq!(world.calls(), 4);
}

/// Restores a dump of the home database into a new one on the same server.
async fn restored(server: &Server, name: &str) -> String {
    let admin = server.connect(OWNER, "postgres").await;
    execute(&admin, &[&format!("CREATE DATABASE {name} TEMPLATE template0")]).await;
    let place = ["--host".to_owned(), server.socket_dir().display().to_string()];
    let port = ["--port".to_owned(), duramen_postgres::SOCKET_PORT.to_string()];
    let dump = Command::new("pg_dump")
        .args(&place)
        .args(&port)
        .args(["--username", OWNER, "--inserts", HOME])
        .output();
    let dump = dump.unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8(dump.stdout).unwrap();
    // What only psql understands.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('\\')).collect();
    execute(&server.connect(OWNER, name).await, &[&lines.join("\n")]).await;
    let url = server.url(OWNER, name);
    schema::install(&url).await.unwrap();
    allow_http(server, name).await;
    url
}

/// A restored dump beside the original, whose worker lives on.
#[tokio::test(flavor = "multi_thread")]
async fn restored_dumps_are_copies_that_stub_or_run_what_reaches_outside() {
    let world = World::start().await;
    let server = original(&world, Server::start_for_pg_dump).await;
    let (stubbed, run) = (restored(&server, "stubbed").await, restored(&server, "run").await);
    allow_http(&server, HOME).await;
    let living = TestWorker::start_at(&server.url(OWNER, HOME), 2).await;
    is_refused(&stubbed).await;
    is_refused(&run).await;

    assert_eq!(schema::adopt(&stubbed, External::Stub).await.unwrap().instances, Some(5));
    let worker = TestWorker::start_at(&stubbed, 4).await;
    let client = server.connect(ALICE, "stubbed").await;
    go(&client).await;
    for label in ["http", "child", "elsewhere", "caught", "slow"] {
        end_of(&client, label).await.completed();
    }
    assert_eq!(end_of(&client, "elsewhere").await.output, "null");
    assert_eq!(ledger(&client).await, "after slow");
    assert_eq!(ledger(&server.connect(OWNER, OTHER).await).await, "");
    assert_eq!(world.calls(), 0);
    worker.drain(SOON).await;

    assert_eq!(schema::adopt(&run, External::Run).await.unwrap().instances, Some(5));
    let _worker = TestWorker::start_at(&run, 4).await;
    let client = server.connect(ALICE, "run").await;
    go(&client).await;
    for label in ["http", "child", "elsewhere", "caught", "slow"] {
        end_of(&client, label).await.completed();
    }
    assert_eq!(ledger(&server.connect(OWNER, OTHER).await).await, "there");
    assert_eq!(world.calls(), 3);

    // The original's worker was neither buried nor ended, and what it does elsewhere is not taken for the copies'.
    let client = server.connect(ALICE, HOME).await;
    go(&client).await;
    for label in ["http", "child", "elsewhere", "caught", "slow"] {
        end_of(&client, label).await.completed();
    }
    assert_eq!(ledger(&server.connect(OWNER, OTHER).await).await, "there there");
    assert_eq!(living.metric("buried_total"), 0);
}

/// What tells the copies apart is the server's own; a database or a role that sets it is refused, or not heard.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_makes_a_copy_look_like_the_original() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    server.restart_with(&[("duramen.identity", "one")]);
    let database = server.database().await;
    let alice = database.role("alice").await;
    drop(TestWorker::start(&database, 1).await);
    server.restart_with(&[("duramen.identity", "two")]);
    is_refused(&database.url()).await;
    let admin = server.connect(OWNER, "postgres").await;
    for (set, reset) in [
        (
            format!("ALTER DATABASE {} SET", database.name()),
            format!("ALTER DATABASE {} RESET", database.name()),
        ),
        (format!("ALTER ROLE {OWNER} SET"), format!("ALTER ROLE {OWNER} RESET")),
        ("ALTER ROLE ALL SET".to_owned(), "ALTER ROLE ALL RESET".to_owned()),
    ] {
        execute(&admin, &[&format!("{set} duramen.identity = 'one'")]).await;
        let refused = Worker::start(Options {
            url: database.url(),
            connections: 1,
            per_role: None,
            memory: MEMORY,
            lanes: None,
            allow_superuser: true,
            rehearsal: None,
        })
        .await
        .err()
        .unwrap();
        assert!(refused.to_string().contains("command line"), "{set}: {refused}");
        execute(&admin, &[&format!("{reset} duramen.identity")]).await;
    }
    execute(&admin, &[&format!("ALTER ROLE {alice} SET duramen.identity = 'one'")]).await;
    is_refused(&database.url()).await;
    server.restart_with(&[("duramen.identity", "one")]);
    let _worker = TestWorker::start(&database, 1).await;
    run_step(&database.connect(&alice).await, "SELECT 1").await.completed();
}

/// A branch that was reset has the address that it had: a worker that lives on must not go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_not_follow_its_address_to_another_copy() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let database = server.database().await;
    let alice = database.role("alice").await;
    let worker = TestWorker::start(&database, 2).await;
    run_step(&database.connect(&alice).await, "SELECT 1").await.completed();
    server.restart_with(&[("duramen.identity", "another")]);
    let client = database.connect(&alice).await;
    let id = start(&client, "'SELECT 1'").await;
    // It tries again and again.
    let sessions =
        format!("SELECT sessions >= 12 FROM pg_stat_database WHERE datname = '{}'", database.name());
    eventually(&database.owner().await, &sessions, "t", SOON).await;
    assert_eq!(one(&client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("pending"));
    server.restart_with(&[]);
    let client = database.connect(&alice).await;
    ended(&client, &id, SOON).await.completed();
    drop(worker);
}
