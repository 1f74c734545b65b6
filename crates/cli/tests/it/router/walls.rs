//! What one holder does that must not change what another one gets, or what itself gets next: start-up parameters, processes
//! that are ready, statements that go on.

use super::{named, one, Site};
use crate::support::{until, wire, Home};
use duramen_api::model::{ChangeSettings, Policy};
use duramen_api::token::{CreateToken, NewToken, Role};
use duramen_base::clock;
use duramen_postgres::{log_in, Secret};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

/// Processes that are ready for their client in the pool of read-write branches.
async fn ready(site: &mut Site, wanted: u32) {
    until("each branch of the pool has a process for its client", async || {
        let status = site.connection.status().await.unwrap();
        let pool = status.pools.iter().find(|pool| pool.policy == Policy::ReadWrite).unwrap().clone();
        status.settled && pool.hot == wanted && pool.entries == wanted
    })
    .await;
}

/// Logs in with the very start-up packet that is given, in its order.
async fn log_in_with(site: &Site, token: &NewToken, database: &str, more: &[(&str, &str)]) -> TcpStream {
    let stream = TcpStream::connect(site.router.address).await.expect("a connection");
    let who = [("user", token.token.name.as_str()), ("database", database)];
    let parameters: Vec<(String, String)> =
        who.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let secret = Secret::from_text(&token.secret);
    log_in(stream, &secret, &parameters, Duration::from_secs(30)).await.expect("it is let in")
}

/// Has the connection end without order when it is dropped, as with its process.
fn reset(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).expect("the option");
}

/// The value of the one field of the one row that a statement gives.
async fn field(stream: &mut TcpStream, sql: &str) -> String {
    let length = u32::try_from(sql.len() + 5).unwrap().to_be_bytes();
    stream.write_all(&[b"Q", &length[..], sql.as_bytes(), &[0]].concat()).await.expect("a statement");
    let mut value = String::new();
    loop {
        let tag = stream.read_u8().await.expect("an answer");
        let mut body = vec![0; stream.read_u32().await.expect("its length") as usize - 4];
        stream.read_exact(&mut body).await.expect("its body");
        match tag {
            // One field: its number, its length, and so much.
            b'D' => value = String::from_utf8_lossy(&body[6..]).into_owned(),
            b'E' => panic!("{sql}: {}", String::from_utf8_lossy(&body)),
            b'Z' => return value,
            _ => {}
        }
    }
}

/// R2: what a start-up packet may say gives nobody more rights than the branch's policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_up_parameters_give_no_rights() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let _client = site.enter(&ci, "app@try").await.expect("a branch");
    for parameter in [
        "-c%20session_preload_libraries%3Dauto_explain",
        "-c%20shared_preload_libraries%3Dauto_explain",
        "-c%20role%3Dpostgres",
        "-c%20role%3Dduramen_ddl",
        "-c%20session_authorization%3Dpostgres",
        "-c%20log_statement%3Dall",
        "-c%20session_replication_role%3Dreplica",
        "-c%20allow_system_table_mods%3Don",
        "-c%20config_file%3D/etc/passwd",
        "-c%20dynamic_library_path%3D/tmp",
        "-c%20local_preload_libraries%3D../../../tmp/evil",
        "-c%20is_superuser%3Don",
    ] {
        let refused = site.enter(&ci, &format!("try?options={parameter}")).await;
        assert!(refused.is_err(), "{parameter}");
    }
    for more in [
        [("role", "postgres")],
        [("session_authorization", "postgres")],
        [("session_preload_libraries", "auto_explain")],
        [("is_superuser", "on")],
    ] {
        let stream = TcpStream::connect(site.router.address).await.unwrap();
        let who = [("user", "ci"), ("database", "try")];
        let parameters: Vec<(String, String)> =
            who.iter().chain(&more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let secret = Secret::from_text(&ci.secret);
        let refused = log_in(stream, &secret, &parameters, Duration::from_secs(30)).await;
        assert!(refused.is_err(), "{more:?}");
    }
    // The last user and database count, and each is read by the router alone.
    let mut stream = log_in_with(&site, &ci, "try", &[("user", "ci"), ("database", "try")]).await;
    assert_eq!(
        field(&mut stream, "select current_user || ' ' || session_user").await,
        "duramen_write duramen_write"
    );
    assert_eq!(field(&mut stream, "show is_superuser").await, "off");
    // Names of parameters are the same in capitals, as PostgreSQL has it: ours too.
    let refused = site.refused(&ci, "app@other?options=-c%20Duramen.Policy%3Dnonsense").await;
    assert_eq!(refused.0.code(), "22023", "{refused:?}");
    let refused = site.refused(&ci, "try?options=-c%20DURAMEN.IDENTITY%3Dforged").await;
    assert_eq!(refused.0.code(), "42704", "{refused:?}");
    site.stop().await;
}

/// R12: the last of two values counts, whether the process was ready or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_values_of_a_parameter_the_last_counts_in_a_process_that_is_ready_too() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let twice =
        [("TimeZone", "UTC"), ("TimeZone", "CET"), ("application_name", "a"), ("application_name", "b")];
    for branch in ["app@first", "app@second"] {
        let mut stream = log_in_with(&site, &ci, branch, &twice).await;
        assert_eq!(field(&mut stream, "show timezone").await, "CET", "{branch}");
        assert_eq!(field(&mut stream, "show application_name").await, "b", "{branch}");
        ready(&mut site, 2).await;
    }
    let other_way = [("TimeZone", "CET"), ("TimeZone", "UTC")];
    let mut stream = log_in_with(&site, &ci, "app@third", &other_way).await;
    assert_eq!(field(&mut stream, "show timezone").await, "UTC");
    site.stop().await;
}

/// R12: a branch that was entered by its socket has no process from before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_set_over_a_socket_holds_for_the_first_client_of_the_router() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ops = site.token(CreateToken { role: Role::Admin, ..named("ops") }).await;
    drop(site.enter(&ops, "app@first").await.expect("the first client of all"));
    ready(&mut site, 2).await;
    let branch =
        crate::support::create(&mut site.connection, "mine").await.expect("a branch of the machine's own");
    let client = wire(&branch.url).await;
    client.batch_execute("alter role current_user set work_mem = '3MB'").await.expect("a setting of its own");
    let later = site.enter(&ops, "mine").await.expect("an administrator reaches all");
    assert_eq!(one::<String>(&later, "show work_mem").await, "3MB");
    site.stop().await;
}

/// R12, and the branch's data: what warms a process that is made ready does not move sequences of a branch that has a holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_is_made_ready_in_a_branch_that_somebody_has() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let warm = vec!["select nextval('s'), pg_sleep(1)".to_owned()];
    let change = ChangeSettings { warm: Some(warm), ..ChangeSettings::default() };
    site.connection.change_settings("app", &change).await.expect("the change");
    site.connection.refresh_source("app", |_, _| {}).await.expect("a refresh");
    crate::support::settle(&mut site.connection).await;
    let began = clock::now();
    let mut branches = 0;
    // Processes are being made ready all the time, and clients come all the time.
    while began.elapsed() < Duration::from_secs(8) {
        let client = site.enter(&ci, "@app").await.expect("a branch");
        branches += 1;
        let mut last = 0;
        for _ in 0..12 {
            let next: i64 = one(&client, "select nextval('s')").await;
            assert!(next > last, "branch {branches}: {next} came after {last}");
            assert!(last > 0 || next == 1, "branch {branches} begins at {next}");
            last = next;
            sleep(Duration::from_millis(100)).await;
        }
    }
    site.stop().await;
}

/// A holder's start-up parameters keep nobody else waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_starts_slowly_slows_nobody_else() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let slow = site.user("slow").await;
    let quick = site.user("quick").await;
    drop(log_in_with(&site, &slow, "app@slow", &[("options", "-W 5")]).await);
    // Long enough for the pool to be made to fit.
    sleep(Duration::from_millis(500)).await;
    for _ in 0..4 {
        let began = clock::now();
        drop(site.enter(&quick, "@app").await.expect("a branch"));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    // One that breaks what makes processes ready breaks it for itself.
    for _ in 0..2 {
        // It is ended as soon as it is there.
        let _ = site.enter(&slow, "app@slow?options=-c%20idle_session_timeout%3D1").await;
    }
    until("each branch of the pool has a process for its client", async || {
        drop(site.enter(&quick, "@app").await.expect("a branch"));
        sleep(Duration::from_millis(200)).await;
        let status = site.connection.status().await.unwrap();
        status.pools.iter().any(|pool| pool.policy == Policy::ReadWrite && pool.entries == 2)
    })
    .await;
    site.stop().await;
}

/// R6: with a token its statements end too, and not only its connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_runs_ends_with_its_token() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let ops = site.token(CreateToken { role: Role::Admin, ..named("ops") }).await;
    let client = site.enter(&ci, "app@try").await.expect("a branch");
    let watcher = site.enter(&ops, "try").await.expect("an administrator");
    // It catches that it is cancelled, and would write when it is through.
    client.batch_execute("set client_connection_check_interval = 0").await.expect("a setting");
    client.batch_execute("create or replace function pg_temp.stubborn() returns void language plpgsql as $$ begin for i in 1..60 loop \
        begin perform pg_sleep(1); exception when query_canceled then null; end; end loop; insert into t values (-1, 'late'); end $$")
        .await.expect("a function");
    let running = tokio::spawn(async move { client.batch_execute("select pg_temp.stubborn()").await });
    let count = "select count(*) from pg_stat_activity where query like 'select pg_temp.stubborn%' and state = 'active'";
    until("it runs", async || one::<i64>(&watcher, count).await == 1).await;
    site.connection.revoke_token("ci").await.expect("it is revoked");
    assert!(running.await.expect("a task").is_err());
    let began = clock::now();
    until("it runs no more", async || one::<i64>(&watcher, count).await == 0).await;
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(one::<i64>(&watcher, "select count(*) from t where x = -1").await, 0);
    site.stop().await;
}

/// A client that goes away while it waits for a branch gives its place in the queue back, and so does one whose token is
/// revoked meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_gone_waits_for_no_branch() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let gone = site.user("gone").await;
    // Nothing is ready, and nothing is made: its pool is empty, and branches take as long to warm as the test takes.
    let change = ChangeSettings {
        hot: [(Policy::ReadWrite, 0)].into(),
        cold: Some(0),
        warm: Some(vec!["select pg_sleep(6)".to_owned()]),
        ..ChangeSettings::default()
    };
    site.connection.change_settings("app", &change).await.expect("the change");
    site.connection.refresh_source("app", |_, _| {}).await.expect("a refresh");
    crate::support::settle(&mut site.connection).await;
    async fn waiting(site: &mut Site) -> u32 {
        site.connection.status().await.unwrap().pools.iter().map(|pool| pool.waiting).sum()
    }
    let url = site.url(&ci, "app@dead");
    let dead = tokio::spawn(async move { super::enter(&url).await.map(drop) });
    let url = site.url(&gone, "app@revoked");
    let revoked = tokio::spawn(async move { super::enter(&url).await.map(drop) });
    until("both wait", async || waiting(&mut site).await == 2).await;
    let began = clock::now();
    dead.abort();
    site.connection.revoke_token("gone").await.expect("it is revoked");
    until("nobody waits", async || waiting(&mut site).await == 0).await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(revoked.await.expect("a task").is_err());
    assert_eq!(site.connection.doors().await.unwrap().postgres.unwrap().sessions, 0);
    crate::support::settle(&mut site.connection).await;
    assert_eq!(site.names().await, Vec::<String>::new());
    site.stop().await;
}

/// R10: a client whose machine is gone, and who says nothing of it, is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_say_nothing_are_asked_whether_they_are_there() {
    let home = Home::new();
    let mut site = Site::open(&home, &["--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]).await;
    let ci = site.user("ci").await;
    let _client = site.enter(&ci, "app@try").await.expect("a branch");
    let http = site.connection.doors().await.unwrap().http.unwrap().address;
    let _stranger = TcpStream::connect(http).await.expect("a connection");
    sleep(Duration::from_millis(100)).await;
    for door in [site.router.address, http] {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
        let port = format!(":{:04X}", door.port());
        let timers: Vec<&str> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            // Established, at its own end.
            .filter(|fields| fields[1].ends_with(&port) && fields[3] == "01")
            .map(|fields| fields[5])
            .collect();
        // 02: a keepalive timer runs, and when it rings, in hundredths of a second.
        assert!(!timers.is_empty(), "{table}");
        for timer in timers {
            let (kind, when) = timer.split_once(':').expect("a timer");
            let when = u64::from_str_radix(when, 16).expect("hexadecimal");
            assert!(kind == "02" && when <= 60 * 100, "{timer}");
        }
    }
    site.stop().await;
}

/// R3: a login under way is over when its time is, wherever it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_die_or_stand_still_in_each_state() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let _keeps = site.enter(&ci, "app@kept").await.expect("a session that stays");
    let startup = super::strangers::startup(&[("user", "ci"), ("database", "@app")]);
    let ssl = [0, 0, 0, 8, 4, 210, 22, 47];
    let first = {
        let body = [&b"SCRAM-SHA-256\0"[..], &11_u32.to_be_bytes(), b"n,,n=,r=abc"].concat();
        [&b"p"[..], &u32::try_from(body.len() + 4).unwrap().to_be_bytes(), &body].concat()
    };
    let states: Vec<Vec<Vec<u8>>> = vec![
        vec![],
        vec![startup[..3].to_vec()],
        vec![startup[..30].to_vec()],
        vec![ssl.to_vec()],
        vec![ssl.to_vec(), vec![0x16, 3, 1, 2]],
        vec![vec![0x16, 3, 1]],
        vec![startup.clone()],
        vec![startup.clone(), first[..7].to_vec()],
        vec![startup.clone(), first.clone()],
        vec![startup.clone(), first.clone(), b"p\0\0\0".to_vec()],
    ];
    let mut still = Vec::new();
    for dies in [true, false] {
        for said in &states {
            let mut stream = TcpStream::connect(site.router.address).await.unwrap();
            for packet in said {
                stream.write_all(packet).await.unwrap();
                // Whatever it answers is not read.
                sleep(Duration::from_millis(5)).await;
            }
            if dies {
                // With bytes unread: the connection is reset.
                reset(&stream);
            } else {
                still.push(stream);
            }
        }
    }
    for mut stream in still {
        let mut said = Vec::new();
        let end = timeout(Duration::from_secs(15), stream.read_to_end(&mut said)).await;
        assert!(end.is_ok(), "it stands still for ever, after {said:?}");
    }
    // The states after the proof: a branch of its own ends, whatever its client was in the middle of.
    for (sql, more) in [
        ("", &b""[..]),
        ("select pg_sleep(60)", b""),
        ("begin", b""),
        ("copy t from stdin", b""),
        ("copy t from stdin", b"d\0\0\x10\0half of a row"),
        ("declare c cursor with hold for select * from t", b""),
        ("select repeat('x', 100000000)", b""),
        ("", b"Q\0\0\0"),
        ("", b"P\0\0\xff\xff"),
    ] {
        let mut stream = log_in_with(&site, &ci, "@app", &[]).await;
        if !sql.is_empty() {
            let length = u32::try_from(sql.len() + 5).unwrap().to_be_bytes();
            stream.write_all(&[b"Q", &length[..], sql.as_bytes(), &[0]].concat()).await.unwrap();
        }
        stream.write_all(more).await.unwrap();
        sleep(Duration::from_millis(30)).await;
        reset(&stream);
    }
    until("only the one that stays is left", async || {
        let sessions = site.connection.doors().await.unwrap().postgres.unwrap().sessions;
        sessions == 1 && site.names().await == ["kept"]
    })
    .await;
    site.stop().await;
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// The memory of a process, in bytes.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// R11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_read_nothing_take_no_memory() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    drop(site.enter(&ci, "app@try").await.expect("a branch"));
    let pid = site.connection.status().await.unwrap().pid;
    let before = memory(pid);
    let mut streams = Vec::new();
    for _ in 0..12 {
        let mut stream = log_in_with(&site, &ci, "try", &[]).await;
        let sql = "select repeat('x', 1000000) from generate_series(1, 100)";
        let length = u32::try_from(sql.len() + 5).unwrap().to_be_bytes();
        stream.write_all(&[b"Q", &length[..], sql.as_bytes(), &[0]].concat()).await.unwrap();
        streams.push(stream);
    }
    sleep(Duration::from_secs(1)).await;
    let more = memory(pid).saturating_sub(before);
    assert!(more < 8 << 20, "12 clients take {} KiB", more >> 10);
    assert_eq!(field(&mut log_in_with(&site, &ci, "try", &[]).await, "select 1").await, "1");
    drop(streams);
    site.stop().await;
}
