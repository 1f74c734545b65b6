//! What a worker tells over HTTP: its figures and whether it is well; also to clients that mean it ill.

use super::{
    common::{self, Server},
    shell::{until, Shell, Worker, SOON},
};
use duramen_base::clock;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// Sends a request and reads what comes back until the connection ends.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A worker with metrics, and their address.
pub(super) fn measured(operator: &Shell) -> (Worker, String) {
    let worker = operator.worker(&["--metrics", "0"]);
    let (_, url) = worker.ready.split_once("metrics at http://").unwrap();
    let address = url.strip_suffix("/metrics").unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "a port alone is one of this machine: {address}");
    (worker, address)
}

/// The value of a series.
fn figure(page: &str, series: &str) -> f64 {
    let value = page.lines().find_map(|line| line.strip_prefix(&format!("duramen_functions_{series} ")));
    value.unwrap_or_else(|| panic!("no {series} in {page}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_how_long_things_take_and_what_waits() {
    let database = common::database().await;
    let (alice, bob) = (database.role("alice").await, database.role("bob").await);
    let shell = Shell::new(&database.url_as(&alice));
    for (role, queue) in [(&alice, "mail"), (&alice, "a\"b"), (&bob, "mail")] {
        let client = database.connect(role).await;
        client.execute("SELECT df.queue($1)", &[&queue]).await.unwrap();
        client.execute("SELECT df.pause_queue($1)", &[&queue]).await.unwrap();
        client
            .execute("SELECT df.start('SELECT 1', 'a secret label', queue => $1)", &[&queue])
            .await
            .unwrap();
    }
    let (_worker, address) = measured(&Shell::new(&database.url()));
    let id = shell.start("SELECT 1");
    shell.ok(&["await", &id]);
    shell.fails(1, &["start", "SELECT 1/0", "--wait"]);
    shell.ok(&["start", "SELECT pg_sleep(0.3)", "--wait"]);
    shell.fails(1, &["start", "df.retry('SELECT 1/0', 3, 0)", "--wait"]);

    let page = get(&address, "/metrics");
    assert_eq!(figure(&page, "instance_seconds_count{status=\"completed\"}"), 2.0);
    assert_eq!(figure(&page, "instance_seconds_count{status=\"failed\"}"), 2.0);
    assert_eq!(figure(&page, "instance_seconds_count{status=\"cancelled\"}"), 0.0);
    assert_eq!(figure(&page, "retries_total"), 2.0);
    assert_eq!(figure(&page, "wait_seconds_count"), 4.0);
    let slow = figure(&page, "instance_seconds_sum{status=\"completed\"}");
    assert!((0.3..30.0).contains(&slow), "{slow}");
    // The long step began in a turn and was sent to run alone.
    assert_eq!(figure(&page, "step_seconds_count{place=\"activity\"}"), 1.0);
    assert_eq!(figure(&page, "step_seconds_bucket{place=\"activity\",le=\"0.25\"}"), 0.0);
    assert_eq!(figure(&page, "step_seconds_bucket{place=\"activity\",le=\"60\"}"), 1.0);
    assert!(figure(&page, "step_seconds_count{place=\"turn\"}") >= 4.0, "{page}");
    assert_eq!(figure(&page, "turn_seconds_count"), figure(&page, "turns_total"));
    assert_eq!(figure(&page, "lanes"), 2.0);
    until("all lanes rest", || figure(&get(&address, "/metrics"), "busy_lanes") == 0.0);

    // Queues of one name are added up.
    assert_eq!(figure(&page, "queue_waiting{queue=\"mail\"}"), 2.0);
    assert_eq!(figure(&page, "queue_waiting{queue=\"a\\\"b\"}"), 1.0);
    assert_eq!(figure(&page, "queue_waiting{queue=\"\"}"), 0.0);
    let oldest = figure(&page, "queue_oldest_seconds{queue=\"mail\"}");
    assert!(oldest > 0.3 && oldest < 120.0, "{oldest}");
    assert_eq!((figure(&page, "ready_instances"), figure(&page, "begun_instances")), (0.0, 0.0));
    for private in [&alice, &bob, &id, "secret", "SELECT", "pg_sleep"] {
        assert!(!page.contains(private), "{private} is nobody's business: {page}");
    }
    assert!(get(&address, "/health").ends_with("\r\n\r\nok\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_scrapes_all_the_time_does_not_make_the_worker_ask_all_the_time() {
    let database = common::database().await;
    let (_worker, address) = measured(&Shell::new(&database.url()));
    // What was made after the first look is not seen until the next.
    get(&address, "/metrics");
    let owner = database.owner().await;
    owner.batch_execute("SELECT df.queue('late')").await.unwrap();
    let began = clock::now();
    until("the queue is shown", || get(&address, "/metrics").contains("queue=\"late\""));
    let took = began.elapsed();
    assert!(took > Duration::from_secs(7), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_client_keeps_nobody_from_the_figures() {
    let database = common::database().await;
    let (worker, address) = measured(&Shell::new(&database.url()));
    get(&address, "/metrics");
    let before = worker.open_files();

    // Many that say nothing, or begin a request and do not end it.
    let mut held = Vec::new();
    for index in 0..300 {
        let mut stream = TcpStream::connect(&address).unwrap();
        if index % 2 == 0 {
            // What has been closed already refuses it.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
        }
        held.push(stream);
        if index % 50 == 0 {
            let began = clock::now();
            assert!(get(&address, "/metrics").starts_with("HTTP/1.1 200 "));
            assert!(began.elapsed() < Duration::from_secs(5), "{:?} among {index}", began.elapsed());
        }
    }
    until("connections have an end", || worker.open_files() <= before + 40);
    // They are closed by and by, whoever holds their other end.
    until("all are gone", || worker.open_files() <= before + 1);
    drop(held);

    // A request without an end is not kept.
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let line = [b"X: ".as_slice(), &[b'a'; 4000], b"\r\n"].concat();
    let mut sent = stream.write_all(b"GET /metrics HTTP/1.1\r\n");
    for _ in 0..10_000 {
        if sent.is_err() {
            break;
        }
        sent = stream.write_all(&line);
    }
    assert!(sent.is_err(), "40 MB of headers were taken");
    // So is a body: the answer comes without it.
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(b"POST /health HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 405");
    assert!(get(&address, "/metrics").starts_with("HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_its_database_says_so() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let database = server.database().await;
    let (_worker, address) = measured(&Shell::new(&database.url()));
    assert!(get(&address, "/metrics").contains("\nduramen_functions_queue_waiting{queue=\"\"} 0\n"));
    let (health, page) = tokio::task::block_in_place(|| {
        server.while_stopped(|| {
            until("it is not well", || get(&address, "/health").starts_with("HTTP/1.1 503 "));
            // What was read before is shown for a while, and then nothing.
            until("nobody knows what waits", || !get(&address, "/metrics").contains("queue_waiting"));
            (get(&address, "/health"), get(&address, "/metrics"))
        })
    });
    assert!(health.contains("the connection to the database is lost, and the last answer is "), "{health}");
    let place = server.socket_dir().display().to_string();
    assert!(!health.contains(&place) && !health.contains(database.name()), "{health}");
    assert!(figure(&page, "failed_backlogs_total") >= 1.0, "{page}");
    assert!(figure(&page, "heard_seconds") > 5.0, "{page}");
    until("it is well again", || get(&address, "/health").starts_with("HTTP/1.1 200 "));
}
