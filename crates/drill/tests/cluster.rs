//! Drills on real clusters: `make test-cluster`. (DR1, DR5, DR6, DR7 of `docs/design/drills.md`.)
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

use duramen_base::clock;
use duramen_drill::failover::{repetitions, Drill, Given, Options};
use duramen_drill::patroni::{Patroni, Programs, Settings};
use duramen_drill::{Failover, Network};
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_postgres::{processes_below, Scratch, ServerUser};
use duramen_reports::suite::{run, Output, Suite};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    dir
}

fn assert_nothing_left(dir: &Path) {
    assert_eq!(std::fs::read_dir(dir).expect("it is there").count(), 0, "something is left in the folder");
    let dir = dir.canonicalize().expect("it is there");
    assert_eq!(processes_below(&dir), [0_u32; 0], "something still runs");
}

fn held(drills: &[Drill], cluster: Settings) -> Evidence {
    let dir = folder();
    let options = Options {
        drills: drills.to_vec(),
        cluster,
        home: duramen_base::home::usual(),
        output: Output { progress: true, ..Output::default() },
        ..Options::new(dir.path())
    };
    let evidence = run(&options, &|doing| eprintln!("{doing}")).unwrap();
    eprintln!("{}", Failover.table(&evidence));
    assert_nothing_left(dir.path());
    assert!(Failover.page(&evidence).render().contains("Where the time goes"));
    evidence
}

/// DR1, DR6: with a synchronous standby nothing that was acknowledged is lost, whatever happens to the leader, and no two
/// leaders acknowledge beside each other.
#[test]
fn nothing_that_was_acknowledged_is_lost_with_a_synchronous_standby() {
    let drills = [Drill::Switchover, Drill::Kill, Drill::Stop, Drill::Cut, Drill::Disk];
    let evidence = held(&drills, Settings::default());
    assert_eq!(evidence.verdict, Verdict::Pass, "{:?} {:?}", evidence.checks, evidence.findings);
    for drill in drills.into_iter().filter(|drill| drill.obstacle().is_none()) {
        let name = drill.name();
        for check in ["nothing_lost", "one_leader", "ledger", "commits_go_on"] {
            let name = format!("{check}/{name}");
            assert!(evidence.checks.iter().any(|check| check.name == name && check.passed), "{name}");
        }
        let gap = evidence.median(&format!("gap_s/{name}")).unwrap();
        // Nobody is elected before the key of a leader that is gone has run out; one whose server cannot start gives it back.
        let least = if matches!(drill, Drill::Switchover | Drill::Disk) { 0.0 } else { 8.0 };
        assert!(gap > least && gap < 45.0, "{name}: {gap}");
        assert_eq!(evidence.median(&format!("lost_rows/{name}")), Some(0.0));
    }
    for view in repetitions(&evidence) {
        assert!(view.account.acknowledged > 100, "{view:?}");
        assert_ne!(view.leaders[0], view.leaders[1], "{view:?}");
        assert!(view.elected_s <= view.first_commit_s && view.first_commit_s.is_some(), "{view:?}");
    }
}

/// Without a synchronous standby a leader that was held acknowledges rows when it goes on, and loses them: the ledger sees it.
#[test]
fn what_an_asynchronous_cluster_loses_is_measured() {
    let cluster = Settings { is_synchronous: false, nodes: 2, ..Settings::default() };
    let evidence = held(&[Drill::Stop], cluster);
    assert_ne!(evidence.verdict, Verdict::Invalid, "{:?}", evidence.findings);
    let view = repetitions(&evidence).remove(0);
    assert!(
        view.account.split > 0,
        "a leader that goes on took no row before it saw that another one leads: {view:?}"
    );
    assert!(
        view.account.lost >= view.account.split,
        "rows of two leaders, and not all of them lost: {view:?}"
    );
    assert!(evidence.checks.iter().all(|check| check.passed), "{:?}", evidence.checks);
}

/// DR8: the leadership of a cluster of somebody is handed over, and nothing is left in it. (On the loopback interface.)
#[test]
fn a_cluster_of_somebody_is_switched_over_and_nothing_is_made_in_it() {
    let dir = folder();
    let home = duramen_base::home::usual();
    let programs = Programs::find(&home, None, None).unwrap();
    let user = ServerUser::current().unwrap();
    let scratch = Scratch::make(dir.path(), "theirs", &user).unwrap();
    let network = Network::loopback(2);
    let settings = Settings { nodes: 2, ..Settings::default() };
    let cluster = Patroni::start(scratch.path(), &programs, settings, &user, &network).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let old = runtime.block_on(cluster.healthy(Duration::from_secs(120))).unwrap();
    let relations = |node: usize| {
        runtime.block_on(async {
            let client = cluster.nodes()[node].by_socket().unwrap().connect().await.unwrap();
            let row = client.query_one("SELECT count(*) FROM pg_class", &[]).await.unwrap();
            row.get::<_, i64>(0)
        })
    };
    let before = relations(old);
    let options = Options {
        drills: vec![Drill::Switchover],
        given: Some(Given {
            rest: cluster.nodes()[1 - old].rest().clone(),
            nodes: cluster.nodes().iter().map(|node| node.dsn()).collect(),
        }),
        output: Output { progress: true, ..Output::default() },
        ..Options::new(dir.path().join("out"))
    };
    let evidence = run(&options, &|doing| eprintln!("{doing}")).unwrap();
    eprintln!("{}", Failover.table(&evidence));
    assert_eq!(evidence.verdict, Verdict::Pass, "{:?} {:?}", evidence.checks, evidence.findings);
    let view = repetitions(&evidence).remove(0);
    assert!(view.account.acknowledged > 50 && view.account.lost == 0 && view.gap_s < 30.0, "{view:?}");
    assert_eq!(view.leaders[0], cluster.nodes()[old].name());
    assert_eq!(runtime.block_on(cluster.healthy(Duration::from_secs(60))).unwrap(), 1 - old);
    assert_eq!(relations(1 - old), before);
    cluster.stop(Duration::from_secs(10));
    drop((cluster, scratch));
    std::fs::remove_dir(dir.path().join("out")).unwrap();
    assert_nothing_left(dir.path());
}

/// Tells the process that it is to hold a cluster in this folder until it is killed.
const HOLD: &str = "DURAMEN_TEST_HOLD_CLUSTER";

/// DR7: when the lab is killed, nothing of a cluster is left: no process, no namespace, no file.
#[test]
fn a_drill_whose_lab_is_killed_leaves_nothing() {
    if let Ok(dir) = std::env::var(HOLD) {
        let options = Options {
            drills: vec![Drill::Quorum],
            home: duramen_base::home::usual(),
            output: Output { progress: true, ..Output::default() },
            ..Options::new(dir)
        };
        let _ = run(&options, &|doing| eprintln!("{doing}"));
        return;
    }
    let dir = folder();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_drill_whose_lab_is_killed_leaves_nothing", "--nocapture"])
        .env(HOLD, dir.path())
        .spawn()
        .unwrap();
    let real = dir.path().canonicalize().unwrap();
    let servers = || {
        let names = processes_below(&real).into_iter();
        names.filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()).collect::<Vec<_>>()
    };
    let begin = clock::now();
    while servers().iter().filter(|name| name.trim() == "postgres").count() < 12 {
        assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", servers());
        std::thread::sleep(Duration::from_millis(200));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let begin = clock::now();
    while std::fs::read_dir(dir.path()).unwrap().count() > 0 || !processes_below(&real).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", servers());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_nothing_left(dir.path());
}
