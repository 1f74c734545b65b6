//! `duramen lab run replication --source`: a pair of a source is measured as one of the suite's own, and whichever process is
//! killed, nothing of it is left.

use crate::support::{add_script, connect, create, entries, query, settle, text, until, Home};
use duramen_api::model::{MakePair, PairLine};
use duramen_base::clock;
use duramen_postgres::processes_below;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

/// Each of these would keep a session of the suite from working, or be run by it, if it were heeded.
const SOURCE: &str = "
    create table t (id int primary key, v text);
    insert into t select g, repeat('x', 100) from generate_series(1, 1000) g;
    create table ran (what text);
    create function trap() returns event_trigger language plpgsql as $$ begin raise 'a trigger of the source ran'; end $$;
    create event trigger at_login on login execute function trap();
    alter event trigger at_login enable always;
    alter database app set session_preload_libraries = 'there_is_none';
    alter database app set default_transaction_read_only = on;
    create function lower(name) returns text language sql as $$ select 'shadowed' $$;
    alter database app set search_path = public, pg_catalog;
";
/// What a run with `--quick` asks for, and some more.
const STORE: &str = "6G";
/// Whoever asked for a pair is killed: so long after it everything of the pair is gone.
const GONE: Duration = Duration::from_secs(10);

fn pairs(home: &Home) -> Vec<String> {
    let branches = home.path().join("volumes/branches");
    let names = entries(&branches).into_iter();
    let volumes = names.filter(|name| name.starts_with("p-")).map(|name| branches.join(name));
    let mut found: Vec<String> = Vec::new();
    for volume in volumes {
        found.extend(processes_below(&volume).iter().map(|pid| format!("process {pid}")));
        found.push(volume.display().to_string());
    }
    let logs = entries(&home.path().join("logs")).into_iter().filter(|name| name.starts_with("p-"));
    found.extend(logs);
    // Other tests have pairs at the same time: those of this home's servers lie in its own group.
    let root = fs::canonicalize(home.path()).expect("the home");
    let own = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned();
    let all = groups(Path::new("/sys/fs/cgroup"), 8).into_iter();
    found.extend(all.filter(|group| group.contains(&own)));
    found
}

/// Control groups of pairs.
fn groups(dir: &Path, depth: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with("p-") {
            found.push(entry.path().display().to_string());
        } else if depth > 0 {
            found.extend(groups(&entry.path(), depth - 1));
        }
    }
    found
}

fn lab(home: &Home, more: &[&str]) -> std::process::Command {
    let all = [&["lab", "run", "replication", "S2", "--quick", "--source", "app"], more].concat();
    let mut command = home.command(&all);
    command.stdin(Stdio::null());
    command
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).expect("it runs");
}

/// Sockets beside those that there were before.
fn new_sockets(home: &Home, before: usize) -> bool {
    entries(&home.path().join("run")).len() > before
}

/// Waits until the suite has sessions in its own database on this home's standby: it is measuring. Other tests measure at the
/// same time.
async fn measuring(home: &Home, child: &mut Child) {
    let branches = home.path().join("volumes/branches");
    until("the suite is measuring", async || {
        assert!(child.try_wait().unwrap().is_none(), "the run was over before");
        let standby = entries(&branches).into_iter().find(|name| name.ends_with("-standby"));
        let servers = standby.map(|name| processes_below(&branches.join(name))).unwrap_or_default();
        servers.iter().any(|pid| {
            let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let title = text(&title);
            title.contains("duramen_lab") && title.contains("duramen_admin")
        })
    })
    .await;
}

/// RS1, RS5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_would_be_changed_by_what_is_measured_or_its_code_run() {
    let home = Home::new();
    let daemon = home.serve_within(STORE).await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SOURCE, 1, 0).await;
    create(&mut connection, "beside").await.expect("a branch");
    settle(&mut connection).await;
    let digest = connection.source("app").await.unwrap().digest;
    let sockets = entries(&home.path().join("run")).len();

    let mut output = lab(&home, &["--json", "-"]).output().expect("the program runs");
    if output.status.code() == Some(1) && output.stdout.is_empty() {
        // A machine that is too busy ends a run with an error: nothing of the source was changed by that either.
        println!("once more, because: {}", text(&output.stderr));
        until("the pair is gone", async || pairs(&home).is_empty()).await;
        output = lab(&home, &["--json", "-"]).output().expect("the program runs");
    }
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() || output.status.code() == Some(3), "{said}\n{told}");
    let evidence: Value =
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}\n{said}"));
    let config = &evidence["config"];
    assert_eq!(
        (&config["pair"], &config["source"], &config["generation"]),
        (&json!("source"), &json!("app"), &json!(1))
    );
    assert_eq!(config["primary.fsync"], json!("on"), "{config}");
    for name in ["settings_restored", "mechanism/S2", "direction/S2"] {
        let check = evidence["checks"].as_array().unwrap().iter().find(|check| check["name"] == name);
        assert_eq!(check.expect(name)["passed"], json!(true), "{check:?}");
    }
    let ready = evidence["measurements"].as_array().unwrap().iter().find(|it| it["name"] == "pair_ready_s");
    let ready = ready.expect("the time to ready")["p50"].as_f64().unwrap();
    println!("both stream {ready:.3} s after the command");
    assert!(ready > 0.0, "{ready}");
    // As the command line is in the evidence, the secret must not be.
    assert!(!told.contains("password"), "{told}");

    let begin = clock::now();
    until("the pair is gone", async || pairs(&home).is_empty()).await;
    println!("gone {:.3} s after the end of the run", begin.elapsed().as_secs_f64());
    settle(&mut connection).await;
    // What a member of the pool that is given up meanwhile had is gone a little later.
    until("no socket is left", async || entries(&home.path().join("run")).len() == sockets).await;
    assert!(connection.verify_source("app").await.unwrap().intact);
    assert_eq!(connection.source("app").await.unwrap().digest, digest);
    assert_eq!(query(&mut connection, "beside", "select count(*) from t").await.unwrap(), json!([[1000]]));
    assert_eq!(query(&mut connection, "beside", "select count(*) from ran").await.unwrap(), json!([[0]]));

    // What is left out is said, and what makes no sense refused.
    let output = lab(&home, &["--primary", "host=a", "--standby", "host=b"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = lab(&home, &["--rtt-ms", "5"]).output().unwrap();
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--source"));
    let output = home.run(&["lab", "run", "replication", "S19", "--quick", "--source", "app"]);
    assert!(
        text(&output.stdout).contains("is only run on a pair of"),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let output = home.run(&["lab", "run", "replication", "S2", "--quick", "--source", "none"]);
    assert!(!output.status.success() && text(&output.stderr).contains("none"), "{}", text(&output.stderr));
    until("the pair is gone", async || pairs(&home).is_empty()).await;
    daemon.stop().await.expect("it stops");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// RS2: the asker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_killed_would_leave_its_servers_running() {
    let home = Home::new();
    let daemon = home.serve_within(STORE).await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SOURCE, 0, 0).await;
    let sockets = entries(&home.path().join("run")).len();
    for how in [Signal::KILL, Signal::TERM, Signal::KILL] {
        let mut child = lab(&home, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        measuring(&home, &mut child).await;
        signal(child.id(), how);
        let begin = clock::now();
        child.wait().expect("it ends");
        until("the pair is gone", async || pairs(&home).is_empty() && !new_sockets(&home, sockets)).await;
        println!("gone {:.3} s after {how:?}", begin.elapsed().as_secs_f64());
        assert!(begin.elapsed() < GONE, "{:?}", begin.elapsed());
    }
    // One that is killed before it has its answer.
    for delay in [20, 60, 100, 150, 200, 300] {
        let mut child = lab(&home, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the pair is begun", async || !pairs(&home).is_empty()).await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        signal(child.id(), Signal::KILL);
        child.wait().expect("it ends");
        until("the pair is gone", async || pairs(&home).is_empty() && !new_sockets(&home, sockets)).await;
    }
    // A server of the pair dies: the run ends, says so, and the other server goes as well.
    let child = lab(&home, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = child;
    measuring(&home, &mut child).await;
    let branches = home.path().join("volumes/branches");
    let primary =
        entries(&branches).into_iter().find(|name| name.ends_with("-primary")).expect("the primary");
    for pid in processes_below(&branches.join(primary)) {
        let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
    }
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("the primary of the pair ended by itself"), "{said}");
    until("the pair is gone", async || pairs(&home).is_empty()).await;
    daemon.stop().await.expect("it stops");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// RS2: the daemon, at each state; the last time with a damaged journal, after which volumes that nobody knows are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_would_leave_a_pair_that_nobody_removes() {
    let home = Home::new();
    let mut daemon = home.serve_within(STORE).await;
    add_script(&home, &mut connect(&daemon).await, SOURCE, 0, 0).await;
    create(&mut connect(&daemon).await, "beside").await.expect("a branch");
    settle(&mut connect(&daemon).await).await;
    let sockets = entries(&home.path().join("run")).len();
    let steps = [
        "cloning the generation",
        "making the clone a primary",
        "cloning the primary",
        "starting both servers",
        "waiting for the standby",
    ];
    for (at, step) in steps
        .iter()
        .map(|step| (0, *step))
        .chain(steps[1..].iter().map(|step| (30, *step)))
        .chain([(0, "ready"), (0, "damaged")])
    {
        let request = MakePair { source: Some("app".to_owned()), generation: None, space_bytes: 1 << 30 };
        let mut asking = connect(&daemon).await;
        let mut seen = Vec::new();
        let listening = asking.pair(&request, |line| {
            let is_it = match line {
                PairLine::Step { doing } => {
                    seen.push(doing.clone());
                    doing == step
                }
                PairLine::Ready(_) => true,
                _ => false,
            };
            if is_it {
                std::thread::sleep(Duration::from_millis(at));
                signal(daemon.pid(), Signal::KILL);
            }
            true
        });
        let ended = listening.await;
        assert!(ended.is_err(), "the daemon was not killed at {step}");
        println!("killed at {step}, {at} ms in: left {:?}", pairs(&home).len());
        daemon.kill();
        if step == "damaged" {
            assert!(
                pairs(&home).iter().any(|what| what.starts_with("process")),
                "the servers go on until the next daemon"
            );
            let journal = home.path().join("leases.jsonl");
            fs::OpenOptions::new().append(true).open(journal).unwrap().write_all(b"torn\nlines\n").unwrap();
        }
        daemon = home.serve_within(STORE).await;
        assert_eq!(pairs(&home), Vec::<String>::new(), "{step}, {at} ms: {seen:?}");
        let run = entries(&home.path().join("run"));
        assert_eq!(run.len(), sockets, "{step}: {run:?}");
        let mut connection = connect(&daemon).await;
        assert!(connection.verify_source("app").await.unwrap().intact, "{step}");
        assert_eq!(
            query(&mut connection, "beside", "select count(*) from t").await.unwrap(),
            json!([[1000]]),
            "{step}"
        );
    }
    let quarantine = home.path().join("volumes/quarantine");
    assert!(!quarantine.exists() || entries(&quarantine).is_empty(), "a pair is kept in quarantine");

    // A run notices that its daemon is gone, and one that is stopped in order leaves nothing.
    for how in [Signal::KILL, Signal::TERM] {
        let mut child = lab(&home, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        measuring(&home, &mut child).await;
        signal(daemon.pid(), how);
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains("the pair is gone in the midst of the run"),
            "{said}"
        );
        match how {
            Signal::KILL => daemon.kill(),
            _ => until("it has stopped", async || home.left_overs().is_empty()).await,
        }
        if how == Signal::KILL {
            daemon = home.serve_within(STORE).await;
            assert_eq!(pairs(&home), Vec::<String>::new());
        } else {
            break;
        }
    }
}
