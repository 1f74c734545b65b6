//! Random operations on a store and on a plain model of it, with crashes, compared.
//!
//! `DURAMEN_SEED` runs one seed, `DURAMEN_SOAK_STEPS` runs as many steps in the test `soak`. A plan that failed is cut
//! down and written to a file; under `tests/it/model/plans` it is run for ever.

pub(crate) mod check;
pub(crate) mod device;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod shadow;
mod shrink;

use std::path::Path;
use std::time::Duration;

use duramen_base::{clock, entropy};

use plan::{Device, Plan};
use run::Tally;
use shrink::run_or_shrink;

/// Runs plans from one seed on until the time is up or the steps are done.
fn run_many(device: Device, steps_each: usize, steps: u64, time: Duration) -> Tally {
    let first = entropy::seed();
    println!("DURAMEN_SEED={first}");
    let begin = clock::now();
    let mut all = Tally::default();
    let mut told = begin;
    for seed in first.. {
        let tally = run_or_shrink(&Plan::random(seed, device, steps_each));
        all.steps += tally.steps;
        all.commits += tally.commits;
        all.conflicts += tally.conflicts;
        all.crashes += tally.crashes;
        all.lost += tally.lost;
        all.checkpoints += tally.checkpoints;
        if told.elapsed() > Duration::from_secs(5) {
            println!("{:?} seed {seed}: {all:?}", begin.elapsed());
            told = clock::now();
        }
        if all.steps >= steps || begin.elapsed() > time {
            break;
        }
    }
    println!("{:?}: {all:?}", begin.elapsed());
    all
}

#[test]
fn a_store_on_doubles_is_what_its_model_is() {
    let all = run_many(Device::Doubles, 1500, u64::MAX, Duration::from_secs(12));
    assert!(all.commits > 1000 && all.conflicts > 0 && all.crashes > 10 && all.lost > 0, "{all:?}");
    assert!(all.checkpoints > 10, "{all:?}");
}

#[test]
fn a_store_in_a_folder_is_what_its_model_is() {
    let all = run_many(Device::Folder, 600, u64::MAX, Duration::from_secs(6));
    assert!(all.commits > 200, "{all:?}");
}

#[test]
fn plans_that_failed_once_do_not_fail_again() {
    // Another crate runs this, too.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/it/model/plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "plan") {
            let plan = Plan::read(&path).unwrap();
            // Threads of the store may come in another order each time.
            for _ in 0..5 {
                shrink::attempt(&plan).unwrap_or_else(|text| panic!("{}: {text}", path.display()));
            }
            count += 1;
        }
    }
    assert!(count > 0, "no plans were found");
}

#[test]
fn plans_are_read_as_they_are_written() {
    for seed in 0..20 {
        let plan = Plan::random(seed, Device::Doubles, 300);
        assert_eq!(Plan::parse(&plan.to_text()), Ok(plan));
    }
}

/// `DURAMEN_SOAK_STEPS=10000000 cargo test --release -p duramen-store --test it -- --nocapture model::soak`
#[test]
fn soak() {
    let steps = std::env::var("DURAMEN_SOAK_STEPS").ok();
    let Some(steps) = steps.map(|text| text.parse::<u64>().expect("a number of steps")) else {
        println!("DURAMEN_SOAK_STEPS is not set: nothing to do");
        return;
    };
    // One part in ten is done on real files. Plans are short: event logs grow, and each crash compares everything.
    run_many(Device::Doubles, 4_000, steps / 10 * 9, Duration::MAX);
    run_many(Device::Folder, 2_000, steps / 10, Duration::MAX);
}
