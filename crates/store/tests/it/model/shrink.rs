//! Cuts a plan down that fails (Zeller and Hildebrandt 2002, Simplifying and Isolating Failure-Inducing Input).

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::Duration;

use duramen_base::clock;

use super::plan::Plan;
use super::run::{run, Tally};

/// How long a plan is cut down.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a plan; a panic is a failure like others.
pub(crate) fn attempt(plan: &Plan) -> Result<Tally, String> {
    let result = catch_unwind(AssertUnwindSafe(|| run(plan, None)));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        Err(format!("panic: {text}"))
    })
}

/// The smallest plan found that fails, too, and how.
pub(crate) fn shrink(plan: &Plan, how: String) -> (Plan, String) {
    let deadline = clock::now() + PATIENCE;
    let (mut plan, mut how) = (plan.clone(), how);
    let mut chunk = plan.steps.len().div_ceil(2);
    while chunk > 0 && !plan.steps.is_empty() {
        let mut at = 0;
        let mut is_smaller = false;
        while at < plan.steps.len() {
            if clock::now() > deadline {
                return (plan, how);
            }
            let mut fewer = plan.clone();
            fewer.steps.drain(at..(at + chunk).min(plan.steps.len()));
            match attempt(&fewer) {
                Err(text) => {
                    (plan, how, is_smaller) = (fewer, text, true);
                }
                Ok(_) => at += chunk,
            }
        }
        chunk = if chunk == 1 && is_smaller { 1 } else { chunk / 2 };
    }
    (plan, how)
}

/// Runs a plan; if it fails, cuts it down, writes what is left to a file, and panics with it.
pub(crate) fn run_or_shrink(plan: &Plan) -> Tally {
    match attempt(plan) {
        Ok(tally) => tally,
        Err(first) => {
            println!("seed {} fails: {first}\ncutting it down ...", plan.seed);
            let (small, how) = shrink(plan, first);
            let text = format!("# {}\n{}", how.replace('\n', " "), small.to_text());
            let path: PathBuf = std::env::temp_dir().join(format!("duramen-model-{}.plan", plan.seed));
            let place = match std::fs::write(&path, &text) {
                Ok(()) => format!("written to {}", path.display()),
                Err(error) => format!("not written: {error}"),
            };
            panic!("seed {}: {how}\n{place}; keep it under tests/model/plans\n{text}", plan.seed);
        }
    }
}
