//! B3 under kills: what a server was dumped to, and the programs that did it, are gone with the next start of the daemon.

use crate::{
    running_origin::RunningOrigin,
    support::{text, until, Home},
};
use duramen_postgres::processes_below;
use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
};

/// Whether a program of this name works below a directory.
fn runs(dir: &Path, program: &str) -> bool {
    processes_below(dir).iter().any(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim_end() == program
    })
}

fn import(home: &Home, origin: &RunningOrigin) -> Child {
    let url = format!("postgresql://boss@/postgres?host={}", origin.socket.display());
    home.command(&["source", "add", "app", "--logical", &url])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an import")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_leaves_nothing_of_a_dump() {
    let home = Home::new();
    let origin = RunningOrigin::start(&home);
    let client = origin.client().await;
    // Slow where it is restored, which has a role that the origin does not have.
    let shop = "create function slow(int) returns int immutable language sql as 'select $1'; create table t (x int); \
                insert into t values (1); create index on t (slow(x)); \
                create or replace function slow(int) returns int immutable language plpgsql as $$ begin \
                  if exists (select from pg_catalog.pg_roles where rolname = 'postgres') then perform pg_catalog.pg_sleep(300); end if; \
                  return $1; end $$";
    client.batch_execute(shop).await.expect("a shop");
    let imports = home.path().join("volumes/imports");
    for program in ["pg_dump", "pg_restore"] {
        let daemon = home.serve().await;
        if program == "pg_dump" {
            client.batch_execute("begin; lock table t in access exclusive mode").await.expect("a lock");
        }
        let mut import = import(&home, &origin);
        until(program, async || runs(&imports, program)).await;
        daemon.kill();
        let _ = import.wait();
        if program == "pg_dump" {
            client.batch_execute("rollback").await.expect("no lock");
        }
        let daemon = home.serve().await;
        until("nothing is left", async || {
            let left =
                |place: &str| fs::read_dir(home.path().join(place)).is_ok_and(|mut it| it.next().is_some());
            processes_below(&imports).is_empty()
                && !["volumes/imports", "volumes/snapshots", "sources"].into_iter().any(left)
        })
        .await;
        let there = "select count(*) from pg_stat_activity where application_name = 'pg_dump' or application_name = 'duramen'";
        until("the origin is left alone", async || {
            client.query_one(there, &[]).await.expect("an answer").get::<_, i64>(0) == 0
        })
        .await;
        daemon.stop().await.expect("it stops in order");
        assert_eq!(home.left_overs(), Vec::<String>::new(), "{program}");
    }

    client.batch_execute("drop index t_slow_idx").await.expect("nothing is slow");
    let daemon = home.serve().await;
    let url = format!("postgresql://boss@/postgres?host={}", origin.socket.display());
    let added = home.run(&["source", "add", "app", "--logical", &url, "--hot", "1"]);
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert!(text(&added.stdout).contains("logical"), "{}", text(&added.stdout));
    daemon.stop().await.expect("it stops in order");
}
