//! What is printed, and what is drawn.

use crate::functions::{report::page, table::print_table};
use duramen_measure::evidence::{Evidence, Severity};

use super::{evidence, set, spread};

fn outcome() -> Evidence {
    let mut evidence = evidence(0.25);
    spread(&mut evidence, "start_ms", 0.9);
    for rung in [1, 4, 32] {
        spread(&mut evidence, &format!("end_to_end_ms/c={rung}"), 2.0 + f64::from(rung));
        set(&mut evidence, &format!("completed_per_s/c={rung}"), "1/s", 300.0 * f64::from(rung));
    }
    spread(&mut evidence, "mixed_ms/timer", 203.0);
    spread(&mut evidence, "soak_ms/q1", 3.0);
    set(&mut evidence, "soak_completed_per_s/q1", "1/s", 4_100.0);
    set(&mut evidence, "commits_per_instance", "commits", 3.5);
    evidence.check("nothing_lost", true, "none");
    evidence.check("nothing_twice", false, "one effect in excess");
    evidence.find("what_limits", Severity::Info, None, "the processors");
    evidence.find("not_measured", Severity::Problem, None, "the phase restart");
    evidence.decide();
    evidence
}

#[test]
fn the_table_has_figures_targets_checks_and_findings() {
    let table = print_table(&outcome());
    for words in [
        "One fsync of this disk takes 0.25 ms",
        "PostgreSQL 18.6",
        "end_to_end_ms/c=32",
        "trivial instances completed, concurrency 32",
        "22.9/s",
        "pass  nothing_lost: none",
        "FAIL  nothing_twice: one effect in excess",
        "info what_limits: the processors",
        "verdict: fail",
    ] {
        assert!(table.contains(words), "{words} is not in\n{table}");
    }
    let line = |word: &str| table.lines().find(|line| line.contains(word)).unwrap_or_default().to_owned();
    // The disk stands beside what waits for it, and beside nothing else.
    assert!(line("| start_ms").contains("0.25 ms"), "{}", line("| start_ms"));
    assert!(!line("completed_per_s/c=4").contains("0.25 ms"), "{}", line("completed_per_s/c=4"));
    assert!(line("commits per trivial instance").contains("missed"));
    assert!(line("df.start, serial").contains("met"));
    let problem = table.find("problem not_measured").unwrap();
    assert!(problem < table.find("info what_limits").unwrap(), "the worst comes first");
}

#[test]
fn the_page_draws_what_was_measured() {
    let page = page(&outcome()).render();
    for words in [
        "Durable functions",
        "End to end by concurrency",
        "Trivial instances completed per second",
        "End to end by kind",
        "by quarter of the soak",
        "commits per trivial instance: 3.5 commits, 75 % above the target of 2 commits.",
    ] {
        assert!(page.contains(words), "{words} is not in the page");
    }
    let empty = crate::functions::report::page(&evidence(0.25)).render();
    assert!(!empty.contains("<svg"), "nothing was measured and nothing is drawn");
}
