//! A whole run against a daemon that is made of answers only: what the suite makes of right and of wrong ones.

mod daemon;

use std::path::Path;

use daemon::{FakeDaemon, Habit};
use duramen_api::model::{Policy, Refill};
use duramen_lab::branches::{run, Options, Runner, Write};
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_postgres::volume::Choice;
use duramen_reports::suite::{write, Output, SuiteError};

fn options(home: &Path) -> Options {
    Options {
        home: home.to_owned(),
        exe: "/nowhere/duramen".into(),
        rounds: 2,
        concurrency: 3,
        write: Write::Events,
        runner: Runner::Session,
        source: "flights".to_owned(),
        rows: None,
        pool: None,
        settings: vec![("work_mem".to_owned(), "1MB".to_owned())],
        durable: false,
        refill: Refill::Phased,
        scale: Vec::new(),
        sweep: Vec::new(),
        cold: 2,
        volumes: Choice::Auto,
        volume_size: None,
        output: Output {
            progress: true,
            command: vec!["duramen".to_owned(), "lab".to_owned()],
            ..Output::default()
        },
    }
}

async fn measure(
    habit: Habit,
    change: impl FnOnce(&mut Options),
) -> (Result<Evidence, SuiteError>, FakeDaemon) {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = FakeDaemon::start(home, habit);
    let mut options = options(daemon.home());
    change(&mut options);
    let evidence = run(&options, &|_| {}).await.and_then(|measured| write(&options, measured));
    let evidence = evidence.map(|measured| measured.evidence);
    (evidence, daemon)
}

fn check<'a>(evidence: &'a Evidence, name: &str) -> (bool, &'a str) {
    let check = evidence.checks.iter().find(|check| check.name == name).expect("the check was made");
    (check.passed, &check.detail)
}

fn has_finding(evidence: &Evidence, rule: &str) -> bool {
    evidence.findings.iter().any(|finding| finding.rule == rule)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_counts_every_step_of_every_branch() {
    let (evidence, daemon) = measure(Habit::Right, |_| {}).await;
    let evidence = evidence.unwrap();
    let count = |name: &str| evidence.measurement(name).map(|measurement| measurement.count);
    for name in ["lease_ms", "first_query_ms", "second_query_ms", "write_ms", "write_server_ms", "destroy_ms"]
    {
        assert_eq!(count(name), Some(6), "{name}");
    }
    assert_eq!(count("point_read_ms"), Some(3));
    assert_eq!(count("wall_ms"), Some(2));
    assert_eq!(count("refill_ms"), Some(2));
    assert_eq!(count("cold_branch_ms"), Some(2));
    assert_eq!(count("idle_branch_pss_bytes"), Some(3));
    // No PostgreSQL listens behind these branches, so the burst over the wire fails, and is not hidden.
    let (passed, detail) = check(&evidence, "all_branches_succeeded");
    assert!(!passed && detail.starts_with("6 of 6; beside the rounds, 3 connections"), "{detail}");
    assert!(check(&evidence, "source_unchanged").0);
    assert!(check(&evidence, "no_deadlocks").0);
    assert!(check(&evidence, "nothing_left_behind").0);
    assert!(check(&evidence, "audit_chain_intact").0);
    assert!(has_finding(&evidence, "fsync_off") && has_finding(&evidence, "running_daemon"));
    assert_eq!(evidence.config["flights"], 1000);
    assert_eq!(daemon.leases(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refills_are_compared_and_their_settings_put_back() {
    let (evidence, daemon) = measure(Habit::Right, |options| options.sweep = vec![3, 8]).await;
    let evidence = evidence.unwrap();
    for name in ["sweep_phased_3_ms", "sweep_phased_8_ms", "sweep_pipelined_3_ms", "sweep_pipelined_8_ms"] {
        assert_eq!(evidence.measurement(name).expect(name).count, 3, "{name}");
    }
    assert!(evidence.findings.iter().any(|finding| finding.rule == "sweep"));
    let changes = daemon.changes();
    let tried = changes
        .iter()
        .filter(|change| change.refill.way == Some(Refill::Pipelined) && change.refill.clones == Some(8));
    assert_eq!(tried.count(), 3);
    let restored = changes.last().unwrap().refill;
    assert_eq!((restored.way, restored.clones), (Some(Refill::Phased), Some(0)), "what is usual");
    assert_eq!((restored.starts, restored.connects), (Some(0), Some(0)), "what is usual");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_of_two_sizes_are_compared_in_turns() {
    let (evidence, daemon) = measure(Habit::TwoSizes, |options| options.scale = vec![1000, 2000]).await;
    let evidence = evidence.unwrap();
    for cost in ["lease", "first_query", "row_read", "clone"] {
        for rows in [1000, 2000] {
            let name = format!("scale_{cost}_ms_rows_{rows}");
            assert_eq!(evidence.measurement(&name).expect(&name).count, 300, "{name}");
        }
        for percentile in ["p50", "p95"] {
            let name = format!("scale_{cost}_{percentile}_ratio");
            assert!(evidence.measurement(&name).expect(&name).p50 > 0.0, "{name}");
        }
    }
    assert_eq!(evidence.findings.iter().filter(|finding| finding.rule == "scale").count(), 8);
    let pools: Vec<u32> =
        daemon.changes().iter().filter_map(|it| it.hot.get(&Policy::ReadWrite)).copied().collect();
    assert!(
        pools.windows(4).any(|some| some == [20, 20, 0, 0]),
        "both pools are filled, and emptied: {pools:?}"
    );
    assert_eq!(daemon.leases(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_is_that_of_the_write_and_is_put_back() {
    let (evidence, daemon) = measure(Habit::Right, |options| options.write = Write::Ddl).await;
    assert_eq!(evidence.unwrap().measurement("write_ms").unwrap().count, 6);
    let changes = daemon.changes();
    let [prepared, emptied, restored] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(emptied.hot[&Policy::Ddl], 0, "what is made without the pool is measured without it");
    assert_eq!(prepared.hot[&Policy::Ddl], 3);
    assert_eq!((prepared.hot[&Policy::ReadWrite], prepared.cold), (0, Some(0)));
    assert_eq!(prepared.server["work_mem"], "1MB");
    assert_eq!(restored.hot[&Policy::ReadWrite], 10);
    assert_eq!((restored.hot[&Policy::Ddl], restored.cold), (0, Some(2)));
    assert_eq!(restored.server["work_mem"], "", "an empty value removes the setting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_answer_is_a_failed_branch_and_is_shown() {
    let (evidence, daemon) = measure(Habit::WrongRows, |options| options.rounds = 1).await;
    let evidence = evidence.unwrap();
    assert!(check(&evidence, "all_branches_succeeded").1.starts_with("0 of 3"));
    assert!(evidence.measurement("first_query_ms").is_none(), "a wrong answer has no latency");
    assert!(has_finding(&evidence, "branch_failed"));
    assert_eq!(evidence.verdict, Verdict::Fail);
    assert_eq!(daemon.leases(), 0, "failed branches are destroyed too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocks_and_a_changed_source_fail_their_checks() {
    let (evidence, _daemon) = measure(Habit::Deadlocks, |options| options.write = Write::Ddl).await;
    let evidence = evidence.unwrap();
    assert_eq!(check(&evidence, "no_deadlocks"), (false, "6 deadlocks, 0 clients without an answer in time"));
    let (evidence, _daemon) = measure(Habit::ChangesSource, |_| {}).await;
    assert!(!check(&evidence.unwrap(), "source_unchanged").0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_copies_make_a_run_invalid() {
    let (evidence, _daemon) = measure(Habit::Degraded, |options| options.write = Write::None).await;
    let evidence = evidence.unwrap();
    assert_eq!(evidence.verdict, Verdict::Invalid);
    assert!(evidence.measurement("write_ms").is_none());
    assert!(!has_finding(&evidence, "fsync_off"), "nothing was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_measured_is_an_error_with_the_next_step() {
    let (evidence, _daemon) = measure(Habit::Right, |options| options.source = "orders".to_owned()).await;
    let error = evidence.unwrap_err().to_string();
    assert!(error.contains("\"orders\"") && error.contains("known: flights"), "{error}");
    let (evidence, daemon) = measure(Habit::Right, |options| options.rows = Some(5)).await;
    let error = evidence.unwrap_err().to_string();
    assert!(error.contains("has 1000 flights, not 5") && error.contains("leave --rows out"), "{error}");
    assert_eq!(daemon.changes().len(), 2, "the pool is put back after a failure too");
    let (evidence, _daemon) = measure(Habit::NoEvents, |_| {}).await;
    let error = evidence.unwrap_err().to_string();
    assert!(error.contains("cannot take the write `events`") && error.contains("--write ddl"), "{error}");
    let (evidence, _daemon) = measure(Habit::Right, |options| options.scale = vec![20, 10]).await;
    assert!(matches!(evidence, Err(SuiteError::Options(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documents_are_written_where_they_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let (json, html) = (dir.path().join("run.json"), dir.path().join("run.html"));
    let (evidence, _daemon) = measure(Habit::Right, |options| {
        (options.output.json, options.output.html) = (Some(json.clone()), Some(html.clone()));
    })
    .await;
    assert_eq!(Evidence::read(&json).unwrap(), evidence.unwrap());
    assert!(std::fs::read_to_string(&html).unwrap().contains("The phases of a refill"));
}
