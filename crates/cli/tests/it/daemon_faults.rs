//! Daemons that cannot run, run twice or lose their clients: a clear error with the next step, and nothing
//! lost.

use crate::support;
use crate::support::{connect, create, post, query, settle, text, until, wire, Home, EXE};
use duramen_client::socket_path;
use duramen_server::process::Daemon;
use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::{chown, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

/// Runs a command to its end, which must come soon; a daemon that serves against expectation is stopped.
fn ended(mut command: Command) -> Output {
    // Its input ends at once, and with it a daemon that serves.
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.and_then(Child::wait_with_output).expect("it runs and ends")
}

/// Two daemons on one home, and a command on a home that has a daemon: the first one goes on undisturbed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_daemon_is_refused_and_names_the_first() {
    let home = Home::new();
    let daemon = home.serve().await;
    let output = ended(home.command(&["serve", "--until-stdin-ends"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let pid = format!("a daemon (pid {}) already serves this home", daemon.pid());
    assert!(said.contains(&pid) && said.contains("duramen stop --home"), "{said}");
    let status = connect(&daemon).await.status().await.expect("the first one serves");
    assert_eq!(status.pid, daemon.pid());
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// Daemons that start in the same instant: exactly one serves, the others say which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_daemons_that_start_together_one_serves() {
    for _ in 0..3 {
        let home = Home::new();
        let (path, log) = (home.path(), |number: u32| home.beside(&format!("log{number}")));
        let args = ["--volumes", "copy"].map(str::to_owned);
        let (a, b, c) = (log(0), log(1), log(2));
        let (one, two, three) = tokio::join!(
            Daemon::spawn(EXE.as_ref(), &path, &args, &a),
            Daemon::spawn(EXE.as_ref(), &path, &args, &b),
            Daemon::spawn(EXE.as_ref(), &path, &args, &c),
        );
        let (serving, refused): (Vec<_>, Vec<_>) =
            [one, two, three].into_iter().partition(std::result::Result::is_ok);
        assert_eq!(serving.len(), 1, "{serving:?} {refused:?}");
        for refusal in refused {
            let error = refusal.unwrap_err().to_string();
            assert!(error.contains("exit status: 1") && error.contains("already serves"), "{error}");
        }
        for daemon in serving {
            daemon.unwrap().stop().await.expect("it stops in order");
        }
        assert_eq!(home.left_overs(), Vec::<String>::new());
    }
}

/// Port taken: what lies at the socket's path belongs to nobody who holds the lock, and is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_in_the_place_of_the_socket_is_replaced() {
    let home = Home::new();
    fs::create_dir(home.path()).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = socket_path(&home.path());
    let listed = home.run(&["branch", "list"]);
    assert!(text(&listed.stderr).contains("duramen serve --home"), "{}", text(&listed.stderr));

    drop(UnixListener::bind(&socket).unwrap());
    let listed = home.run(&["branch", "list"]);
    assert_eq!(listed.status.code(), Some(1));
    assert!(text(&listed.stderr).contains("duramen serve --home"), "{}", text(&listed.stderr));
    home.serve().await.stop().await.expect("a stale socket is replaced");

    fs::write(&socket, "a stray file").unwrap();
    home.serve().await.stop().await.expect("a stray file is replaced");
    assert!(!socket.exists());

    fs::create_dir(&socket).unwrap();
    fs::write(socket.join("mine"), "").unwrap();
    let output = ended(home.command(&["serve", "--until-stdin-ends"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot listen on") && said.contains("daemon.sock"), "{said}");
    assert!(socket.join("mine").exists(), "a directory is not removed");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// A client that disconnects in the middle of its query, of a wait, or of its own request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_disconnect_end_what_they_asked_for() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t (x int);", 1, 0).await;
    let url = create(&mut connection, "b").await.expect("a branch").url;
    let client = wire(&url).await;
    let active =
        "select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep(60)%' \
                  and pid <> pg_backend_pid()";
    let running = async || client.query_one(active, &[]).await.expect("the activity").get::<_, i64>(0);
    let socket = socket_path(&home.path());

    let sleep = post("/v1/branches/b/query", r#"{"sql": "insert into t select 1 from pg_sleep(60)"}"#);
    for _ in 0..3 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(sleep.as_bytes()).unwrap();
        until("the statement runs", async || running().await == 1).await;
        drop(stream);
        until("the statement is cancelled", async || running().await == 0).await;
        let rows = query(&mut connection, "b", "select count(*)::int from t").await.expect("an answer");
        assert_eq!(rows, serde_json::json!([[0]]));
    }
    // Half a request, and garbage.
    for bytes in [&sleep.as_bytes()[..sleep.len() - 9], b"\0\xff\r\n\r\n", b"GET / HTTP/9\r\n\r\n"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = stream.read(&mut [0; 512]);
    }
    // A create that nobody waits for any more leases nothing.
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(post("/v1/branches", r#"{"name": "late", "policy": "ddl"}"#).as_bytes()).unwrap();
    drop(stream);
    let status = settle(&mut connection).await;
    assert!(status.pools.iter().all(|pool| pool.waiting == 0), "{status:?}");
    let branches = connection.branches().await.expect("the branches");
    assert!(branches.iter().all(|branch| ["b", "late"].contains(&branch.name.as_str())), "{branches:?}");
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// The same for an import, in the middle of its copy: it went on, and held up the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_ends_with_its_client() {
    let home = Home::new();
    let daemon = home.serve().await;
    let script = home.beside("slow.sql");
    fs::write(&script, "create table t (x int); select pg_sleep(300);").unwrap();
    let body =
        format!(r#"{{"name": "slow", "origin": {{"kind": "script", "path": {:?}}}}}"#, script.display());
    let mut stream = UnixStream::connect(socket_path(&home.path())).unwrap();
    stream.write_all(post("/v1/sources", &body).as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut said = String::new();
    while !said.contains("running the script") {
        let mut part = [0; 1024];
        let length = stream.read(&mut part).expect("progress");
        assert!(length > 0, "{said}");
        said += &String::from_utf8_lossy(&part[..length]);
    }
    let imports = home.path().join("volumes/imports");
    until("a server runs it", async || !duramen_postgres::processes_below(&imports).is_empty()).await;
    drop(stream);
    let begin = duramen_base::clock::now();
    until("nothing of it is left", async || {
        let users = duramen_branches::users_of(&home.path());
        duramen_postgres::processes_below(&imports).is_empty()
            && support::entries(&imports).is_empty()
            && support::entries(&home.path().join("sources")).is_empty()
            && users.is_empty()
    })
    .await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let log = fs::read_to_string(home.beside("log")).unwrap();
    assert!(log.contains("its client has left, so the import was given up"), "{log}");
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t (x int);", 1, 0).await;
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// The program where an unprivileged user can run it, in a home of that user's own. Only root can play this
/// user.
fn unprivileged(home: &Home) -> Option<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let ids = Command::new("id").args(["-u", "postgres"]).output().ok().filter(|ids| ids.status.success())?;
    let uid: u32 = text(&ids.stdout).trim().parse().ok()?;
    fs::create_dir(home.path()).expect("the home");
    chown(home.path(), Some(uid), None).expect("its owner");
    let copy = home.beside("duramen");
    let copied = Command::new("install").args(["-m", "755", EXE]).arg(&copy).status();
    assert!(copied.expect("install starts").success(), "no copy of the program");
    let wrapper = home.beside("as-postgres");
    let script = format!(
        "#!/bin/sh\nexec setpriv --reuid=postgres --regid=postgres --clear-groups {} \"$@\"\n",
        copy.display()
    );
    support::install(&wrapper, &script);
    Some(wrapper)
}

fn run(program: &Path, home: &Home, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("--home").arg(home.path()).args(arguments);
    ended(command)
}

/// No permission to mount: with btrfs asked for it is an error that says why; else plain copies, said to be
/// degraded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_mount_gets_plain_copies_and_is_told() {
    let home = Home::new();
    let Some(program) = unprivileged(&home) else { return };
    if !Command::new("stat")
        .args(["-f", "-c", "%T"])
        .arg(home.path())
        .output()
        .is_ok_and(|kind| text(&kind.stdout).contains("ext"))
    {
        // On btrfs or XFS nobody needs to mount.
        return;
    }
    let output = run(&program, &home, &["serve", "--until-stdin-ends", "--volumes", "btrfs"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    println!("{said}");
    assert!(said.contains("btrfs snapshots do not work in"), "{said}");
    assert!(!home.path().join("volumes.btrfs").exists(), "the file that could not be mounted is left");

    let daemon = Daemon::spawn(&program, &home.path(), &[], &home.beside("log")).await.expect("it serves");
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t as select 4 as x;", 1, 0).await;
    let status = settle(&mut connection).await;
    assert!(status.degraded && status.volumes_reason.contains("not possible"), "{status:?}");
    let url = create(&mut connection, "b").await.expect("a branch").url;
    assert_eq!(query(&mut connection, "b", "select x from t").await.expect("rows"), serde_json::json!([[4]]));
    let printed = run(&program, &home, &["status"]);
    assert!(text(&printed.stdout).contains("degraded: plain copies"), "{}", text(&printed.stdout));
    assert!(url.contains("duramen_write"));
    let source = connection.source("app").await.expect("the source");
    assert_eq!(source.generation, 1);
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// What each user of a machine with a group `duramen` gets; runs in a mount namespace with users of its own, because the
/// machine's are none of a test's business. Prints one line a question.
const USERS: &str = r#"
set -eu
# Users are made and removed while this copies: the locks for that come and go, and are none of the copy.
cp -a /etc "$1/etc" 2>"$1/cp.log" || ! grep -v 'cannot stat' "$1/cp.log"
rm -f "$1"/etc/*.lock
cat "$1/group" >"$1/etc/group"; cat "$1/passwd" >"$1/etc/passwd"
mount --bind "$1/etc" /etc
mount --bind "$2" "$1/home/packages"
export DURAMEN_HOME="$1/home" home="$1/home"
"$1/duramen" serve --volume-size 1G >"$1/serve.log" 2>&1 &
trap 'kill $! 2>/dev/null || true; wait' EXIT
for i in $(seq 300); do "$1/duramen" status >/dev/null 2>&1 && break; sleep 0.1; done
"$1/duramen" source add app --script "$1/app.sql" --hot read-write=1 >/dev/null
"$1/duramen" source add other --script "$1/app.sql" --hot read-write=1 >/dev/null
"$1/duramen" branch create try --source app >/dev/null
user_of() { stat -c %U "$home/volumes/snapshots/$1.000001"; }
ask() { # ask WHO WHAT COMMAND...
  local who=$1 what=$2; shift 2
  case $who in
    root) set -- "$@" ;;
    server) set -- setpriv --reuid "$(user_of app)" --regid duramen-pg --clear-groups "$@" ;;
    other) set -- setpriv --reuid "$(user_of other)" --regid duramen-pg --clear-groups "$@" ;;
    stray) set -- setpriv --reuid duramen-pg --regid 64999 --clear-groups "$@" ;;
    *) set -- setpriv --reuid "$who" --regid "$(id -g "$who")" --init-groups "$@" ;;
  esac
  if said=$("$@" 2>&1); then echo "$who $what yes"; else echo "$who $what no: $said"; fi
}
url=$("$1/duramen" branch url try)
for who in root alice mallory server other stray; do
  ask $who url "$1/duramen" branch url try
  ask $who enter psql "$url" -Atc 'select x from t'
  ask $who administer "$1/duramen" branch url --administrator try
  ask $who import "$1/duramen" source add stolen --script /etc/shadow
  ask $who key cat "$1/home/key"
done
ask alice stop "$1/duramen" stop
ask alice destroy "$1/duramen" branch destroy try
"$1/duramen" stop >/dev/null; wait
"#;

/// Members of the system group `duramen` hold branches and do nothing else; others do not even that, nor do servers, nor
/// what only runs with that group.
#[test]
fn members_of_the_group_hold_branches_and_nothing_else() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    let dir = home.beside("users");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let at = |name: &str| dir.join(name);
    fs::write(at("group"), fs::read_to_string("/etc/group").unwrap() + "duramen:x:64999:alice\n").unwrap();
    let users = "alice:x:64001:64001::/:/bin/sh\nmallory:x:64002:64002::/:/bin/sh\n";
    fs::write(at("passwd"), fs::read_to_string("/etc/passwd").unwrap() + users).unwrap();
    fs::write(at("app.sql"), "create table t as select 7 as x;").unwrap();
    // Reached by everybody, wherever the build lies.
    fs::copy(EXE, at("duramen")).unwrap();
    let packages = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup");
    let usual = Command::new(packages).arg("--print-home").output().unwrap().stdout;
    let usual = PathBuf::from(String::from_utf8(usual).unwrap().trim()).join("packages");
    // Mounted, not linked to: the way to the usual home is closed to this one's servers once a daemon has opened it.
    fs::create_dir_all(at("home/packages")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "bash", "-c", USERS, "users"])
        .arg(&dir)
        .arg(usual)
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    let log = fs::read_to_string(at("serve.log")).unwrap_or_default();
    assert!(output.status.success(), "{said}{}\n{log}", String::from_utf8_lossy(&output.stderr));
    let answer = |question: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(question));
        found.unwrap_or_else(|| panic!("no answer to {question:?}: {said}")).trim().to_owned()
    };
    for question in
        ["root url", "root enter", "root administer", "root key", "alice url", "alice enter", "alice destroy"]
    {
        assert_eq!(answer(question), "yes", "{question}");
    }
    for question in
        ["alice administer", "alice import", "alice stop", "stray url", "stray administer", "stray import"]
    {
        assert!(answer(question).contains("is for the daemon's user"), "{question}: {}", answer(question));
    }
    for question in [
        "alice key",
        "mallory url",
        "mallory enter",
        "mallory administer",
        "mallory import",
        "mallory key",
        "server url",
        "server administer",
        "server import",
        "server key",
        "other url",
        "other enter",
        "other administer",
        "other key",
    ] {
        assert!(answer(question).contains("ermission denied"), "{question}: {}", answer(question));
    }
}
