//! `duramen agent run`: a command finds its branch in its environment, and afterwards the branch is gone.

use crate::support::{add_script, connect, settle, text, until, Home, SOON};
use duramen_api::model::BranchView;
use duramen_client::Connection;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};
use std::{
    fs,
    path::Path,
    process::{Child, Output, Stdio},
    time::Duration,
};

const TABLES: &str = "create table t (x int primary key, y text); insert into t select i, 'y' from generate_series(1, 100) i;\n\
                      create table u (x int); create table v (x int); insert into v values (1);";

fn psql(sql: &str) -> Vec<String> {
    ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql].map(str::to_owned).to_vec()
}

fn run(home: &Home, options: &[&str], command: &[String]) -> Output {
    let mut words = vec!["agent", "run"];
    words.extend(options);
    words.push("--");
    words.extend(command.iter().map(String::as_str));
    home.command(&words)
        .env("PGSERVICE", "elsewhere")
        .env("PGHOSTADDR", "192.0.2.1")
        .output()
        .expect("it runs")
}

fn report(output: &Output) -> Value {
    let said = text(&output.stderr);
    let line = said.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn sh(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

async fn branches(connection: &mut Connection) -> Vec<BranchView> {
    connection.branches().await.expect("the branches")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_has_a_branch_and_leaves_nothing() {
    let home = Home::new();
    assert_eq!(run(&home, &[], &sh("exit 0")).status.code(), Some(1), "there is no daemon");
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, TABLES, 2, 0).await;
    settle(&mut connection).await;

    what_was_done_is_told(&home);
    assert!(branches(&mut connection).await.is_empty());
    how_it_ended_is_passed_on(&home);
    assert!(branches(&mut connection).await.is_empty());

    // Kept: an hour, and with what was done in it.
    let kept = run(&home, &["--keep", "--json"], &psql("delete from t"));
    let name = report(&kept)["branch"].as_str().expect("a name").to_owned();
    let branch = connection.branch(&name).await.expect("it is kept");
    assert!(branch.expires_at.as_second() - branch.created_at.as_second() > 3500, "{branch:?}");
    let left = crate::support::query(&mut connection, &name, "select count(*) from t").await.unwrap();
    assert_eq!(left, json!([[0]]));
    connection.destroy_branch(&name).await.expect("it can be given back");

    signals_reach_the_command(&home, &mut connection).await;
    a_killed_run_leaves_its_branch_for_a_short_time(&home, &mut connection).await;
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

fn what_was_done_is_told(home: &Home) {
    let sql = "insert into t select i, 'z' from generate_series(101, 110) i; update t set y = 'w' where x <= 5; \
               delete from t where x > 90; truncate v; create table w as select 1 x; drop table u; select count(*) from t";
    let output = run(home, &["--policy", "ddl", "--json"], &psql(sql));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "90\n"), "{output:?}");
    let report = report(&output);
    let tables = report["tables"].as_array().expect("tables").iter();
    let figures = ["name", "change", "inserted", "updated", "deleted", "rows"];
    let tables: Vec<Value> =
        tables.map(|table| figures.iter().map(|figure| table[*figure].clone()).collect()).collect();
    let expected = [
        json!(["public.t", "written", 10, 5, 20, 90]),
        json!(["public.u", "dropped", 0, 0, 0, null]),
        json!(["public.v", "rewritten", 0, 0, 0, 0]),
        json!(["public.w", "created", 1, 0, 0, 1]),
    ];
    assert_eq!(tables, expected);
    assert_eq!(
        (&report["source_state"], &report["fate"], &report["source"]),
        (&json!("unchanged"), &json!("destroyed"), &json!("app"))
    );

    // For people; the standard output is the command's alone.
    let output = run(home, &[], &psql("delete from t where x = 1; select 7"));
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "7\n");
    assert!(said.contains("public.t: 0 inserted, 0 updated, 1 deleted; 99 rows"), "{said}");
    assert!(said.contains("source app: unchanged") && said.contains("destroyed"), "{said}");

    // Every variable leads to the same branch, and no other.
    let script = "test \"$DATABASE_URL\" && test -z \"$PGSERVICE$PGHOSTADDR\" && echo \"$PGDATABASE $PGUSER $PGPORT\" && ls \"$PGHOST\" >/dev/null";
    let output = run(home, &[], &sh(script));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).starts_with("app duramen_write "), "{output:?}");
    let output = run(home, &["--policy", "read-only"], &psql("delete from t"));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("read-only transaction")
            && text(&output.stderr).contains("none changed")
    );
}

fn how_it_ended_is_passed_on(home: &Home) {
    for (script, code) in [("exit 0", 0), ("exit 42", 42), ("kill -KILL $$", 137), ("kill -TERM $$", 143)] {
        let output = run(home, &["--json"], &sh(script));
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        assert_eq!(report(&output)["exit_code"], code);
    }
    let none = run(home, &[], &["/no/such/program".to_owned()]);
    assert_eq!(none.status.code(), Some(127), "{none:?}");
    let file = home.beside("file");
    fs::write(&file, "").unwrap();
    assert_eq!(run(home, &[], &[file.display().to_string()]).status.code(), Some(126));
    assert_eq!(run(home, &["--source", "none"], &sh("exit 0")).status.code(), Some(1));
    assert_eq!(home.run(&["agent", "run"]).status.code(), Some(2));
}

fn spawn(home: &Home, options: &[&str], script: &str) -> Child {
    let words = [&["agent", "run"], options, &["--", "sh", "-c", script]].concat();
    home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

/// Until the command says that it runs.
async fn begun(file: &Path) {
    until("the command runs", async || file.exists()).await;
}

async fn signals_reach_the_command(home: &Home, connection: &mut Connection) {
    for (signal, word, code) in [
        (Signal::INT, "INT", 5),
        (Signal::TERM, "TERM", 6),
        (Signal::HUP, "HUP", 7),
        (Signal::QUIT, "QUIT", 8),
    ] {
        let file = home.beside(&format!("begun-{word}"));
        let script =
            format!("trap 'exit {code}' {word}; : > {}; while :; do sleep 0.02; done", file.display());
        let child = spawn(home, &["--json"], &script);
        begun(&file).await;
        assert_eq!(branches(connection).await.len(), 1);
        send(&child, signal);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{word}: {output:?}");
        assert_eq!(report(&output)["fate"], "destroyed");
        assert!(branches(connection).await.is_empty());
    }
}

async fn a_killed_run_leaves_its_branch_for_a_short_time(home: &Home, connection: &mut Connection) {
    let file = home.beside("begun-KILL");
    // The command goes on when its parent is killed, until there is no branch any more.
    let script = format!(": > {}; exec sleep 30", file.display());
    let mut child = spawn(home, &["--ttl", "2s"], &script);
    begun(&file).await;
    let grandchild =
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("children");
    // While it runs, the lease is renewed.
    let name = branches(connection).await[0].name.clone();
    tokio::time::sleep(Duration::from_millis(3000)).await;
    assert_eq!(branches(connection).await[0].name, name);
    send(&child, Signal::KILL);
    child.wait().expect("it is dead");
    let begin = duramen_base::clock::now();
    until("its branch ends", async || branches(connection).await.is_empty()).await;
    assert!(begin.elapsed() < SOON);
    for pid in grandchild.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
