//! Whole runs: what they leave behind, and what becomes of those that cannot do their work.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use duramen_measure::evidence::{Evidence, Verdict};
use duramen_postgres::processes_below;
use duramen_replication::Options;
use duramen_reports::suite::{run, Output, SuiteError};

/// A folder that the servers' user can reach.
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

#[test]
fn a_run_tells_what_it_has_found_and_leaves_nothing() {
    let (dir, out) = (folder(), folder());
    let json = out.path().join("evidence.json");
    let html = out.path().join("page.html");
    let options = Options {
        scenarios: vec![2, 20],
        quick: true,
        output: Output {
            json: Some(json.clone()),
            html: Some(html.clone()),
            progress: true,
            ..Output::default()
        },
        ..Options::new(dir.path(), "duramen")
    };
    let evidence = run(&options, &|doing| eprintln!("{doing}")).unwrap();
    assert_eq!(Evidence::read(&json).unwrap(), evidence);
    assert!(std::fs::read_to_string(&html).unwrap().contains("snapshot"));
    for name in ["mechanism/S2", "mechanism/S20", "direction/S2", "settings_restored"] {
        let check = evidence.checks.iter().find(|check| check.name == name);
        let check = check.unwrap_or_else(|| panic!("{name} is missing: {:?}", evidence.checks));
        assert!(check.passed, "{check:?}");
    }
    assert_ne!(evidence.verdict, Verdict::Invalid, "{:?}", evidence.findings);
    let stall = evidence.measurement("stall_s/S2/remote_apply").expect("it was measured");
    assert!(stall.max > 2.0, "{stall:?}");
    assert!(evidence.measurement("pair_ready_s").is_some());
    assert!(evidence.config["timelines"].get("S2/remote_apply").is_some());
    assert!(evidence.config["seed"].is_u64());
    assert_nothing_left(dir.path());
}

#[test]
fn an_unknown_scenario_is_named_before_anything_is_done() {
    let dir = folder();
    let options = Options { scenarios: vec![2, 99], ..Options::new(dir.path(), "duramen") };
    let error = run(&options, &|_| {}).unwrap_err();
    assert!(matches!(error, SuiteError::Options(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("S99") && text.contains("S16"), "{text}");
    assert_nothing_left(dir.path());
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let dir = folder();
    let options = Options { major: Some(9), ..Options::new(dir.path(), "duramen") };
    let error = run(&options, &|_| {}).unwrap_err();
    assert!(
        matches!(&error, SuiteError::Other(cause) if cause.is::<duramen_postgres::InstallationError>()),
        "{error:?}"
    );
    assert!(error.to_string().contains("major version 9"), "{error}");
    assert_nothing_left(dir.path());
}
