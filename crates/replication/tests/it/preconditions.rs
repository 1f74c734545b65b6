//! What must hold of somebody's pair, each against servers of which it does not hold. Nothing is changed on them.

use super::user::{folder, majors, User};
use duramen_postgres::connection::Target;
use duramen_postgres::Settings;
use duramen_replication::{
    pair::{
        patroni,
        pending::is_same,
        preconditions::{quorum_of, standby_name, versions},
        Pair, DATABASE,
    },
    scenario::Node,
    Options,
};
use duramen_reports::suite::SuiteError;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Nobody gets as far as to need it.
const NO_GUARDIAN: &str = "/bin/false";

/// The lines with which a run refuses.
async fn refusal(options: &Options) -> Vec<String> {
    match Pair::open(options, &|_| {}).await {
        Err(SuiteError::Preconditions(lines)) => {
            for line in &lines {
                assert!(!line.contains('\n'), "more than a line: {line}");
                assert!(!line.contains("swordfish"), "a secret is told: {line}");
            }
            lines
        }
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// That a run refuses for one reason, whose line has all of these words.
async fn assert_refused(options: &Options, words: &[&str]) {
    let lines = refusal(options).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for word in words {
        assert!(lines[0].contains(word), "{word:?} is not in: {}", lines[0]);
    }
}

fn swapped(options: &Options) -> Options {
    Options { primary: options.standby.clone(), standby: options.primary.clone(), ..options.clone() }
}

/// A DSN with another word in the place of one.
fn other(dsn: &str, word: &str, instead: &str) -> Option<String> {
    assert!(dsn.contains(word), "{word} is not in the connection string");
    Some(dsn.replace(word, instead))
}

#[tokio::test]
async fn whatever_is_wrong_is_told_with_what_mends_it_and_nothing_is_changed() {
    let user = User::new(majors()[0]).await;
    let good = user.options(Path::new(NO_GUARDIAN));
    let (primary_dsn, standby_dsn) = (user.dsn(Node::Primary), user.dsn(Node::Standby));
    let before = user.state().await;

    // Half a pair.
    let half = Options { standby: None, ..good.clone() };
    let error = Pair::open(&half, &|_| {}).await.err().expect("refused").to_string();
    assert!(error.contains("--primary and --standby belong together"), "{error}");
    let far = Options { rtt_ms: vec![20], ..good.clone() };
    let error = Pair::open(&far, &|_| {}).await.err().expect("refused").to_string();
    assert!(error.contains("--rtt-ms"), "{error}");

    // Connection strings that lead nowhere.
    let wrong = Options { primary: Some("host".to_owned()), ..good.clone() };
    assert_refused(&wrong, &["the primary", "connection string", "check --primary"]).await;
    let nobody = other(&standby_dsn, "/s ", "/nobody ");
    assert_refused(&Options { standby: nobody, ..good.clone() }, &["the standby", "check --standby"]).await;
    let both = Options {
        primary: other(&primary_dsn, "/p ", "/nobody "),
        standby: other(&standby_dsn, "/s ", "/nobody "),
        ..good.clone()
    };
    assert_eq!(refusal(&both).await.len(), 2);
    let inside = other(&primary_dsn, "dbname=postgres", &format!("dbname={DATABASE}"));
    assert_refused(&Options { primary: inside, ..good.clone() }, &[DATABASE, "name another one"]).await;

    // The wrong servers.
    assert_refused(&swapped(&good), &["swapped", "exchange --primary and --standby"]).await;
    let two_standbys = Options { primary: Some(standby_dsn.clone()), ..good.clone() };
    assert_refused(&two_standbys, &["is a standby, not a primary"]).await;
    let two_primaries = Options { standby: Some(primary_dsn.clone()), ..good.clone() };
    assert_refused(&two_primaries, &["takes writes, so it is not a standby"]).await;

    // Without rights.
    let primary = user.client(Node::Primary).await;
    primary.batch_execute("CREATE ROLE modest LOGIN; CREATE ROLE \"Mod est\" LOGIN").await.unwrap();
    user.pair().caught_up(std::time::Duration::from_secs(20)).await.unwrap();
    let modest = Options {
        primary: other(&primary_dsn, "user=postgres", "user=modest"),
        standby: other(&standby_dsn, "user=postgres", "user=modest"),
        ..good.clone()
    };
    let lines = refusal(&modest).await;
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines.iter().all(|line| line.contains("ALTER ROLE modest SUPERUSER")), "{lines:#?}");
    let modest = Options {
        primary: other(&primary_dsn, "user=postgres", "user='Mod est'"),
        standby: other(&standby_dsn, "user=postgres", "user='Mod est'"),
        ..good.clone()
    };
    let lines = refusal(&modest).await;
    assert!(lines.iter().all(|line| line.contains("ALTER ROLE \"Mod est\" SUPERUSER")), "{lines:#?}");
    primary.batch_execute("DROP ROLE modest; DROP ROLE \"Mod est\"").await.unwrap();

    // A database in the way.
    primary.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await.unwrap();
    assert_refused(&good, &["duramen lab restore", &format!("DROP DATABASE {DATABASE}")]).await;
    let line = refusal(&good).await.remove(0);
    assert!(line.find("lab restore") < line.find("DROP DATABASE"), "what loses nothing comes first: {line}");
    // Somebody's run goes on in it: to drop it is no advice.
    let oid: u32 = {
        let sql = "SELECT oid FROM pg_database WHERE datname = $1";
        primary.query_one(sql, &[&DATABASE]).await.unwrap().get(0)
    };
    let inside = other(&primary_dsn, "dbname=postgres", &format!("dbname={DATABASE}")).unwrap();
    for (dsn, name) in [(&inside, "duramen-lab".to_owned()), (&primary_dsn, format!("duramen-lab-{oid}"))] {
        let theirs = Target::parse(dsn).unwrap().application_name(&name).connect().await.unwrap();
        let line = refusal(&good).await.remove(0);
        assert!(line.contains("another run") && line.contains("postgres from"), "{name}: {line}");
        assert!(line.contains("wait for its end") && !line.contains("DROP"), "{name}: {line}");
        drop(theirs);
        let gone = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1";
        while !primary.query_one(gone, &[&name]).await.unwrap().get::<_, bool>(0) {}
    }
    primary.batch_execute(&format!("DROP DATABASE {DATABASE}")).await.unwrap();

    // Restore files that nobody can read.
    let folder = user.home().join("lab/restore");
    std::fs::create_dir_all(&folder).unwrap();
    for text in ["{", "{\"format\": \"duramen.restore/99\"}"] {
        std::fs::write(folder.join("other.json"), text).unwrap();
        assert_refused(&good, &["cannot read", "other.json", "may not have put everything back"]).await;
    }
    std::fs::remove_file(folder.join("other.json")).unwrap();

    // A guardian that does not come.
    let error = Pair::open(&good, &|_| {}).await.err().expect("refused").to_string();
    assert!(error.contains("does not watch over it"), "{error}");

    assert_eq!(user.state().await, before);
    assert_eq!(user.restore_files(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_pair_in_the_wrong_state_is_refused_until_it_is_mended() {
    let user = User::new(majors()[0]).await;
    let good = user.options(Path::new(NO_GUARDIAN));
    let primary = user.client(Node::Primary).await;
    let standby = user.client(Node::Standby).await;

    // Commits that do not wait for it.
    user.add_conf(Node::Primary, "synchronous_standby_names = ''\n").await;
    assert_refused(
        &good,
        &["do not wait for the standby", "async", "synchronous_standby_names = '\"duramen_standby\"'"],
    )
    .await;
    // What the line says fixes it.
    let fix = |line: &str| line.split("on the primary: ").nth(1).expect("a command").to_owned();
    let line = refusal(&good).await.remove(0);
    for statement in fix(&line).split_inclusive(';') {
        primary.batch_execute(statement).await.unwrap();
    }
    user.synchronous().await;
    let error = Pair::open(&good, &|_| {}).await.err().expect("no guardian");
    assert!(!matches!(error, SuiteError::Preconditions(_)), "{error}");

    // Paused, delayed, with too few sessions, on sand.
    standby.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
    while !standby.query_one("SELECT pg_is_wal_replay_paused()", &[]).await.unwrap().get::<_, bool>(0) {}
    assert_refused(&good, &["is paused", "SELECT pg_wal_replay_resume()"]).await;
    standby.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
    user.add_conf(Node::Standby, "recovery_min_apply_delay = 5min\n").await;
    assert_refused(&good, &["delays its replay by 5min", "recovery_min_apply_delay = 0"]).await;
    user.add_conf(Node::Standby, "recovery_min_apply_delay = 0\n").await;
    user.add_conf(Node::Primary, "fsync = off\n").await;
    assert_refused(&good, &["fsync is off on the primary /", ":5432", "ALTER SYSTEM SET fsync = on"]).await;
    user.add_conf(Node::Primary, "fsync = on\n").await;
    if user.major() >= 17 {
        user.add_conf(Node::Standby, "allow_alter_system = off\n").await;
        assert_refused(&good, &["the standby /", "allows no ALTER SYSTEM", "allow_alter_system = on"]).await;
        user.add_conf(Node::Standby, "allow_alter_system = on\n").await;
    }
    // What its owner has only written down so far is not to come into force by a run.
    user.add_conf_unread(Node::Standby, "log_min_duration_statement = 3s\neffective_cache_size = 4096MB\n");
    primary.batch_execute("ALTER SYSTEM SET log_lock_waits = 'on'").await.unwrap();
    let lines = refusal(&good).await;
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(
        lines[0].contains("of the primary /")
            && lines[0].contains("has changes that it has not read yet (log_lock_waits)"),
        "{lines:#?}"
    );
    assert!(lines[1].contains("of the standby /") && lines[1].contains("(log_min_duration_statement)"));
    assert!(
        lines.iter().all(|line| line.contains("SELECT pg_reload_conf()") && !line.contains("3s")),
        "{lines:#?}"
    );
    for (node, name, value) in
        [(Node::Primary, "log_lock_waits", "off"), (Node::Standby, "log_min_duration_statement", "-1")]
    {
        // (On by default since 19.)
        let row = user.client(node).await.query_one("SELECT current_setting($1)", &[&name]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), value, "it has come into force");
        user.reload(node).await;
    }
    // A line that is gone is a change as well.
    primary.batch_execute("ALTER SYSTEM RESET log_lock_waits").await.unwrap();
    assert_refused(&good, &["the primary", "(log_lock_waits)"]).await;
    user.reload(Node::Primary).await;

    // Files that cannot be read say nothing of what stands in postgresql.auto.conf.
    user.write_file(Node::Standby, "broken.conf", "work_mem 8MB 9MB\n");
    user.add_conf_unread(Node::Standby, "include 'broken.conf'\n");
    assert_refused(
        &good,
        &["the configuration of the standby /", "has an error", "broken.conf line 1", "fix it"],
    )
    .await;
    user.write_file(Node::Standby, "broken.conf", "");
    user.reload(Node::Standby).await;
    user.add_conf(Node::Primary, "max_connections = 100\n").await;
    user.stop(Node::Primary);
    user.start(Node::Primary);
    user.synchronous().await;
    assert_refused(
        &good,
        &["the primary /", ":5432 has room for", "ALTER SYSTEM SET max_connections", "without S14"],
    )
    .await;
    let error = Pair::open(&Options { scenarios: vec![2], ..good.clone() }, &|_| {})
        .await
        .err()
        .expect("no guardian");
    assert!(!matches!(error, SuiteError::Preconditions(_)), "{error}");

    // Cut off: it receives nothing.
    user.stop(Node::Primary);
    user.start(Node::Primary);
    user.synchronous().await;
    user.add_conf(Node::Standby, "primary_conninfo = 'host=/nowhere'\n").await;
    while standby.query_opt("SELECT FROM pg_stat_wal_receiver", &[]).await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let some = Options { scenarios: vec![2], ..good.clone() };
    assert_refused(&some, &["receives nothing", "primary_conninfo"]).await;
}

#[tokio::test]
async fn a_second_standby_that_can_acknowledge_commits_is_no_reason_to_refuse() {
    let user = User::new(majors()[0]).await;
    user.add_conf(Node::Primary, "synchronous_standby_names = 'ANY 1 (*)'\n").await;
    // Something else that receives, and says so as a standby does.
    let mut receiver = user.receiver("another");
    let primary = user.client(Node::Primary).await;
    let question =
        "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum' AND state = 'streaming'";
    while primary.query_one(question, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        assert!(receiver.try_wait().unwrap().is_none(), "it does not receive");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let error = Pair::open(&user.options(Path::new(NO_GUARDIAN)), &|_| {}).await.err().expect("no guardian");
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    assert!(!matches!(error, SuiteError::Preconditions(_)), "{error}");
}

/// Our sessions have no time limits of the server's, so a lock of somebody else's would hold them up for ever.
#[tokio::test]
async fn a_server_that_does_not_answer_is_not_waited_for_for_ever() {
    let user = User::new(majors()[0]).await;
    let primary = user.client(Node::Primary).await;
    primary.batch_execute("BEGIN; LOCK TABLE pg_catalog.pg_settings IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let (good, owner) = (user.options(Path::new(NO_GUARDIAN)), user.pair());
    let limit = std::time::Duration::from_secs(50);
    let asked =
        async { tokio::time::timeout(limit, Pair::open(&good, &|_| {})).await.expect("it gives up").err() };
    let set = owner.set(Node::Primary, "checkpoint_completion_target", Some("0.7"));
    let set = async { tokio::time::timeout(limit, set).await.expect("it gives up").err() };
    let (asked, set) = tokio::join!(asked, set);
    for error in [asked, set] {
        assert!(matches!(error, Some(SuiteError::Timeout { .. })), "{error:?}");
    }
    primary.batch_execute("ROLLBACK").await.unwrap();
    owner.set(Node::Primary, "checkpoint_completion_target", None).await.unwrap();
}

/// A file system of its own, so small that nothing fits into it.
struct Small(tempfile::TempDir);

impl Small {
    /// `None` for who may not mount.
    fn mount() -> Option<Small> {
        let dir = folder();
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=64m,mode=755", "small"]).arg(dir.path());
        let mounted = command.output().expect("mount can be run").status.success();
        mounted.then(|| Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_is_refused() {
    // Without the right to mount, a folder of the kernel's is one in which nothing can be made.
    let (place, words) = match Small::mount() {
        Some(small) => (Some(small), ["the disk is nearly full", "free some"]),
        None => (None, ["cannot make the folder", "/proc"]),
    };
    let dir = place.as_ref().map_or(Path::new("/proc/self"), |small| small.0.path());
    let error =
        Pair::open(&Options::new(dir, NO_GUARDIAN), &|_| {}).await.err().expect("refused").to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
    // What writes little needs little, and is not told to be what it is already.
    for (quick, scenarios, needs, advised) in [
        (false, vec![], 12 << 10, Some("--quick (4096 MiB)")),
        (true, vec![], 4 << 10, Some("as S2 (1024 MiB)")),
        (true, vec![18], 1 << 10, None),
        (false, vec![2, 18], 1 << 10, None),
    ] {
        let options = Options { quick, scenarios, ..Options::new(dir, NO_GUARDIAN) };
        let error = Pair::open(&options, &|_| {}).await.err().expect("refused").to_string();
        if place.is_some() {
            assert!(error.contains(&format!("may write {needs} MiB")), "{error}");
            match advised {
                Some(advised) => assert!(error.contains(advised), "{error}"),
                None => assert!(!error.contains("or run"), "{error}"),
            }
        }
    }
    if place.is_some() {
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "something is left");
    }
}

#[tokio::test]
async fn servers_that_are_no_pair_are_refused() {
    let majors = majors();
    let (one, two) = (User::new(majors[0]).await, User::new(majors[1]).await);
    let mixed = Options { standby: Some(two.dsn(Node::Standby)), ..one.options(Path::new(NO_GUARDIAN)) };
    if majors[0] == majors[1] {
        assert_refused(&mixed, &["a copy of another cluster"]).await;
    } else {
        assert_refused(&mixed, &["they are not a pair"]).await;
        let twin = User::new(majors[0]).await;
        let mixed = Options { standby: Some(twin.dsn(Node::Standby)), ..one.options(Path::new(NO_GUARDIAN)) };
        assert_refused(&mixed, &["a copy of another cluster"]).await;
    }
}

#[tokio::test]
async fn what_patroni_manages_is_recognised_and_not_set() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    let options = user.options(Path::new(NO_GUARDIAN));
    // Patroni keeps sessions on the servers that it manages.
    let target = Target::parse(&user.dsn(Node::Primary)).unwrap();
    let session = target.application_name("Patroni heartbeat").connect().await.unwrap();
    assert_refused(
        &options,
        &[
            "managed by Patroni (it has sessions on the server)",
            "patronictl edit-config CLUSTER --pg hot_standby_feedback=off --pg max_standby_streaming_delay=-1",
        ],
    )
    .await;
    assert_eq!(user.state().await, before);
    // What else is wrong is not told to be fixed by ALTER SYSTEM alone.
    user.add_conf(Node::Primary, "fsync = off\n").await;
    let lines = refusal(&options).await;
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].contains("--pg hot_standby_feedback=off"), "{lines:#?}");
    assert!(
        lines[1].contains("would undo an ALTER SYSTEM") && lines[1].contains("--pg NAME=VALUE"),
        "{lines:#?}"
    );
    assert!(lines[2].contains("fsync is off"), "{lines:#?}");
    user.add_conf(Node::Primary, "fsync = on\n").await;
    drop(session);

    // It makes the configuration of files of its own.
    user.write_file(Node::Standby, "postgresql.base.conf", "log_checkpoints = on\n");
    user.add_conf(Node::Standby, "include 'postgresql.base.conf'\n").await;
    assert_refused(&options, &["managed by Patroni (the configuration is made of its files)"]).await;
    user.write_file(Node::Standby, "postgresql.base.conf", "");
    user.reload(Node::Standby).await;

    // It gives these as arguments; the name of the cluster is what patronictl calls it.
    let mut settings = Settings::new();
    for (name, value) in [
        ("cluster_name", "demo"),
        ("max_locks_per_transaction", "64"),
        ("max_prepared_transactions", "0"),
        ("track_commit_timestamp", "off"),
        ("wal_log_hints", "on"),
    ] {
        settings.set(name, value);
    }
    user.stop(Node::Primary);
    user.start_with(Node::Primary, &settings);
    user.synchronous().await;
    assert_refused(
        &options,
        &["the server was started with the arguments that it gives", "edit-config demo --pg"],
    )
    .await;

    // What has its values already is not told.
    user.add_conf(Node::Standby, "hot_standby_feedback = off\n").await;
    let standby = user.client(Node::Standby).await;
    standby.batch_execute("ALTER SYSTEM SET max_standby_streaming_delay = -1").await.unwrap();
    user.reload(Node::Standby).await;
    let error = Pair::open(&options, &|_| {}).await.err().expect("no guardian");
    assert!(error.to_string().contains("does not watch over it"), "{error}");
}

#[tokio::test]
async fn the_rest_api_of_patroni_is_asked() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let answers = [
            r#"{"state":"running","role":"primary","database_system_identifier":"7","patroni":{"version":"4.0.4","scope":"demo","name":"n1"}}"#,
            r#"{"state":"running","role":"primary","database_system_identifier":"8","patroni":{"version":"4.0.4","scope":"demo","name":"n1"}}"#,
            r#"{"hello":"world"}"#,
            "<html>",
        ];
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /patroni HTTP/1.0\r\n"));
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
            stream.write_all((head + answer).as_bytes()).await.unwrap();
        }
        // One more caller, who gets no answer.
        let _silent = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
    });
    let found = patroni::ask("127.0.0.1", port, "7").await.expect("it is Patroni");
    assert_eq!(found.scope.as_deref(), Some("demo"));
    assert!(found.sign.contains("REST API"), "{}", found.sign);
    assert_eq!(found.command(&[("a", "1"), ("b", "2")]), "patronictl edit-config demo --pg a=1 --pg b=2");
    for why in ["another cluster's", "something else's", "no JSON", "no answer"] {
        assert!(patroni::ask("127.0.0.1", port, "7").await.is_none(), "{why}");
    }
}

#[test]
fn values_that_are_written_otherwise_are_the_same() {
    for (in_force, written, unit, kind) in [
        ("16384", "128MB", Some("8kB"), "integer"),
        ("1048576", "1GB", Some("kB"), "integer"),
        ("300", "5min", Some("s"), "integer"),
        ("0.5", "500us", Some("ms"), "real"),
        ("1000", "1s", Some("ms"), "integer"),
        ("-1", "-1", Some("ms"), "integer"),
        ("0.9", "0.90", None, "real"),
        ("on", "TRUE", None, "bool"),
        ("off", "0", None, "bool"),
        ("ISO, MDY", "iso, mdy", None, "string"),
        ("replica", "Replica", None, "enum"),
        ("63", "0x3f", None, "integer"),
    ] {
        assert!(is_same(in_force, written, unit, kind), "{in_force} {written}");
    }
    for (in_force, written, unit, kind) in [
        ("16384", "129MB", Some("8kB"), "integer"),
        ("300", "6min", Some("s"), "integer"),
        ("0", "1", Some("ms"), "integer"),
        ("0.9", "0.8", None, "real"),
        ("on", "off", None, "bool"),
        ("UTC", "Europe/Paris", None, "string"),
        ("-1", "3s", Some("ms"), "integer"),
    ] {
        assert!(!is_same(in_force, written, unit, kind), "{in_force} {written}");
    }
}

#[test]
fn versions_are_compared() {
    assert_eq!(versions(("primary a:1", 180_006), ("standby b:2", 180_001)), Vec::<String>::new());
    assert_eq!(versions(("primary a:1", 150_020), ("standby b:2", 150_020)), Vec::<String>::new());
    let lines = versions(("primary a:1", 140_012), ("standby b:2", 140_012));
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].contains("the primary a:1 runs PostgreSQL 14: the suite needs 15 or newer"),
        "{lines:?}"
    );
    let lines = versions(("primary a:1", 180_000), ("standby b:2", 170_000));
    assert!(lines.len() == 1 && lines[0].contains("they are not a pair"), "{lines:?}");
}

#[test]
fn a_standby_is_found_by_the_name_that_it_gives_itself() {
    for (conninfo, name) in [
        ("user=postgres host=a application_name=one fallback_application_name=walreceiver", "one"),
        ("user=postgres fallback_application_name=main host=a", "main"),
        ("host=/a b application_name=it's here, now port=5432", "it's here, now"),
        ("application_name= fallback_application_name=main", "main"),
        ("", "walreceiver"),
    ] {
        assert_eq!(standby_name(conninfo), name, "{conninfo}");
    }
}

#[test]
fn a_quorum_is_read() {
    for (names, count) in [("ANY 2 (a, b, c)", 2), ("any 1(*)", 1), ("*", 1), ("", 1), ("FIRST 3 (a)", 3)] {
        assert_eq!(quorum_of(names), count, "{names}");
    }
}
