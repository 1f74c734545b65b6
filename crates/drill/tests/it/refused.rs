//! Who may not make namespaces holds no drill: etcd takes no password, and what Patroni reads there is run.

use duramen_drill::failover::Options;
use duramen_drill::Failover;
use duramen_reports::suite::{run, Suite, SuiteError};
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Tells the process that it is the user without rights, and where its folder is.
const THERE: &str = "DURAMEN_TEST_DRILL_WITHOUT_ROOT";

const NOBODY: u32 = 65_534;

fn refused(dir: &Path) {
    let options = Options { home: dir.join("home"), ..Options::new(dir) };
    match run(&options, &|doing| assert_eq!(doing, "describing the machine")) {
        Err(SuiteError::Preconditions(reasons)) => {
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains("need root"), "{reasons:?}");
        }
        other => panic!("it was not refused: {:?}", other.map(|evidence| Failover.table(&evidence))),
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "something was made");
}

#[test]
fn without_root_a_drill_is_refused_before_anything_is_started() {
    if let Some(dir) = std::env::var_os(THERE) {
        return refused(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    if !rustix::process::geteuid().is_root() {
        return refused(&theirs);
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    // What builds lie in may be closed to others.
    let program = dir.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = Command::new(&program);
    child.args([
        "--exact",
        "refused::without_root_a_drill_is_refused_before_anything_is_started",
        "--nocapture",
    ]);
    child.env(THERE, &theirs).uid(NOBODY).gid(NOBODY).current_dir("/");
    let output = child.output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
