//! B36: a machine that is short of memory gives no lease, says what to do, and gives leases again when it is not.

use crate::support::{self, connect, create, query, settle, until, Home, EXE};
use duramen_client::ClientError;
use duramen_server::process::Daemon;
use std::fs;

/// The machine's memory as the kernel tells it, with another figure for what is available.
fn with_available(meminfo: &str, kib: u64) -> String {
    let lines = meminfo.lines().map(|line| match line.split_once(':') {
        Some(("MemAvailable", _)) => format!("MemAvailable: {kib} kB\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lease_is_given_while_memory_is_short() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root puts another file in the place of /proc/meminfo");
        return;
    }
    let home = Home::new();
    let real = fs::read_to_string("/proc/meminfo").expect("the machine's memory");
    let (meminfo, program) = (home.beside("meminfo"), home.beside("duramen"));
    fs::write(&meminfo, &real).expect("a copy");
    // The daemon in a mount namespace in which the kernel tells what the test wants.
    let script = format!(
        "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {} /proc/meminfo && exec {EXE} \"$@\"' duramen \"$@\"\n",
        meminfo.display()
    );
    support::install(&program, &script);
    let args = ["--volume-size", "3G"].map(str::to_owned);
    let daemon =
        Daemon::spawn(&program, &home.path(), &args, &home.beside("log")).await.expect("the daemon serves");
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t (v text);", 2, 0).await;
    settle(&mut connection).await;
    create(&mut connection, "before").await.expect("there is memory");

    fs::write(&meminfo, with_available(&real, 100 << 10)).expect("less memory");
    let mut refusal = None;
    until("no lease is given", async || {
        match create(&mut connection, "short").await {
            Ok(_) => drop(connection.destroy_branch("short").await.expect("destroyed")),
            Err(ClientError::Refused { body, .. }) => refusal = Some(body),
            Err(error) => panic!("{error}"),
        }
        refusal.is_some()
    })
    .await;
    let refusal = refusal.expect("a refusal");
    assert_eq!(refusal.code, "too_many_leases");
    for said in ["100 MiB of memory are available", "destroy branches"] {
        assert!(refusal.message.contains(said), "{}", refusal.message);
    }
    // What is leased works on, and a create that is repeated finds its lease.
    query(&mut connection, "before", "select count(*) from t").await.expect("rows");
    create(&mut connection, "before").await.expect("it has it already");

    fs::write(&meminfo, &real).expect("the memory is back");
    until("leases are given again", async || create(&mut connection, "after").await.is_ok()).await;
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
