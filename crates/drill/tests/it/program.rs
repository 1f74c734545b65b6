//! Programs that are held and killed with all that they have started (DR5), and found in their folder alone.

use duramen_base::clock;
use duramen_drill::{Network, Program};
use duramen_postgres::ServerUser;
use std::path::Path;
use std::time::Duration;

/// A shell that starts another process, which is no child of it by the time it is looked for.
const SCRIPT: &str = "(sleep 300 &) ; echo begun; exec sleep 300";

fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").map(|(_, rest)| rest[..1].to_owned()).unwrap_or_default()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = clock::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_program_has_started_is_held_and_killed_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let network = Network::loopback(1);
    let user = ServerUser::of_this_process().unwrap();
    let program =
        Program::new("a shell", Path::new("/bin/sh"), &dir.path().join("one"), &user, Some(0)).unwrap();
    let program = program.arguments(["-c", SCRIPT]).variable("WORD", "a word");
    let other =
        Program::new("another", Path::new("/bin/sleep"), &dir.path().join("one-more"), &user, None).unwrap();
    let other = other.arguments(["300"]);
    program.start(&network).unwrap();
    other.start(&network).unwrap();
    until("two processes", || program.processes().len() == 2 && program.log().contains("begun"));
    program.hold(true);
    until("both are held", || program.processes().iter().all(|pid| state(*pid) == "T"));
    program.hold(false);
    until("both go on", || program.processes().iter().all(|pid| state(*pid) == "S"));
    // Killed while it is held, too.
    program.hold(true);
    program.kill().unwrap();
    assert!(program.processes().is_empty() && !program.is_running());
    assert!(other.is_running(), "a neighbour was killed");
    program.start(&network).unwrap();
    until("it is there again", || program.processes().len() == 2);
    program.stop(Duration::from_secs(1));
    assert!(program.processes().is_empty());
    drop(other);
    assert!(duramen_postgres::processes_below(&dir.path().canonicalize().unwrap()).is_empty());
}
