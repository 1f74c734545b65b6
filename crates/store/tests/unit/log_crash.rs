//! The power is cut at every call, and nothing that was promised is lost.

use std::sync::atomic::{AtomicU64, Ordering};

use duramen_base::entropy;

use super::memory_directory::MemoryDirectory;
use super::round_trip_tests::{assert_bodies, body, open, read};
use super::*;

/// What the log had promised when the disk went away.
#[derive(Default, Debug)]
struct Promised {
    buffered: AtomicU64,
    strict: AtomicU64,
    /// What a checkpoint holds, and what the log was told to forget.
    checkpoint: AtomicU64,
}

fn wait(log: &Log, version: u64, level: Durability, promised: &Promised) -> Result<(), LogError> {
    log.wait(version, level)?;
    match level {
        Durability::Memory => {}
        Durability::Buffered => drop(promised.buffered.fetch_max(version, Ordering::SeqCst)),
        Durability::Strict => {
            promised.buffered.fetch_max(version, Ordering::SeqCst);
            promised.strict.fetch_max(version, Ordering::SeqCst);
        }
    }
    Ok(())
}

/// A life of a log: commits of all levels, and two checkpoints with rotation and release.
fn live(dir: &MemoryDirectory, after: u64, commits: u64, promised: &Promised) -> Result<(), LogError> {
    let (log, found) = open(dir, after)?;
    assert_bodies(&found, after + 1);
    for index in 1..=commits {
        let version = log.last() + 1;
        assert_eq!(log.append(1, &body(version))?, version);
        let level = Durability::ALL[(index * 7 % 5).min(2) as usize];
        wait(&log, version, level, promised)?;
        if index % (commits / 2) == 0 {
            log.rotate()?;
            promised.checkpoint.store(version, Ordering::SeqCst);
            log.release(version)?;
        }
    }
    log.close()?;
    promised.strict.store(log.last(), Ordering::SeqCst);
    promised.buffered.store(log.last(), Ordering::SeqCst);
    Ok(())
}

/// Asserts that what was promised is in the image, and that the log in it goes on. Returns its last version.
fn assert_kept(image: &MemoryDirectory, promised: u64, checkpoint: u64, what: &str) -> u64 {
    let (last, found) = read(image, checkpoint).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(last >= promised, "{what}: {promised} was promised, and {last} is the last");
    assert_bodies(&found, checkpoint + 1);
    let (log, found) = open(image, checkpoint).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(found.len() as u64, last - checkpoint, "{what}");
    assert_eq!(log.durable(), last, "{what}");
    last
}

#[test]
fn a_cut_at_every_call_keeps_what_was_promised() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let whole = MemoryDirectory::default();
    live(&whole, 0, 200, &Promised::default()).unwrap();
    let calls = whole.calls();
    assert!(calls > 100, "{calls}");
    for cut in 0..calls {
        let dir = MemoryDirectory::default();
        dir.cut_after(cut);
        let promised = Promised::default();
        assert!(live(&dir, 0, 200, &promised).is_err() || cut + 1 >= calls);
        let checkpoint = promised.checkpoint.load(Ordering::SeqCst);
        let what = format!("seed {seed}, call {cut}, {promised:?}");
        assert_kept(
            &dir.after_kill(),
            promised.buffered.load(Ordering::SeqCst),
            checkpoint,
            &format!("L3, {what}"),
        );
        for _ in 0..3 {
            let image = dir.after_power_cut(&mut rng);
            let strict = promised.strict.load(Ordering::SeqCst);
            assert_kept(&image, strict.max(checkpoint), checkpoint, &format!("L2, {what}"));
        }
    }
}

#[test]
fn cut_after_cut_keeps_what_was_promised() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    for round in 0..40 {
        let mut dir = MemoryDirectory::default();
        let (mut last, mut checkpoint) = (0, 0);
        for life in 0..12 {
            dir.cut_after(rng.u64(..120));
            let promised = Promised::default();
            promised.checkpoint.store(checkpoint, Ordering::SeqCst);
            // An opening that is cut short promises nothing new, but must not lose what was there.
            live(&dir, checkpoint, 60, &promised).ok();
            let what = format!("seed {seed}, round {round}, life {life}, {promised:?}");
            checkpoint = promised.checkpoint.load(Ordering::SeqCst);
            let strict = promised.strict.load(Ordering::SeqCst).max(checkpoint).max(last);
            dir = dir.after_power_cut(&mut rng);
            let image = dir.after_kill();
            // Opening makes durable what it found, so from here on it is promised.
            last = assert_kept(&image, strict, checkpoint, &format!("L2, L4, {what}"));
            if rng.bool() {
                dir = image;
            } else {
                last = strict;
            }
        }
    }
}

#[test]
fn what_an_opening_found_survives_a_power_cut() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    for round in 0..20 {
        let dir = MemoryDirectory::default();
        let (log, _) = open(&dir, 0).unwrap();
        for version in 1..=20 {
            log.append(1, &body(version)).unwrap();
            log.wait(version, Durability::Buffered).unwrap();
        }
        let next = dir.after_kill_unsynced();
        drop(log);
        let (reopened, found) = open(&next, 0).unwrap();
        assert_eq!((found.len(), reopened.durable()), (20, 20), "L3");
        let (last, found) = read(&next.after_power_cut(&mut rng), 0).unwrap();
        assert_eq!(last, 20, "L2, seed {seed}, round {round}");
        assert_bodies(&found, 1);
    }
}

#[test]
fn eight_threads_lose_nothing_that_they_were_promised() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    for round in 0..60 {
        let dir = MemoryDirectory::default();
        let (log, _) = open(&dir, 0).unwrap();
        dir.cut_after(rng.u64(1..400));
        let promised = Promised::default();
        let promised_each: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8_u64)
                .map(|thread| {
                    let (log, promised) = (&log, &promised);
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        let level = if thread < 6 { Durability::Strict } else { Durability::Buffered };
                        for index in 0_u64.. {
                            let body = [thread.to_le_bytes(), index.to_le_bytes()].concat();
                            let Ok(version) = log.append(1, &body) else { break };
                            if wait(log, version, level, promised).is_err() {
                                break;
                            }
                            mine.push((level, version, body));
                        }
                        mine
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        drop(log);
        let check = |image: &MemoryDirectory, kept: &dyn Fn(Durability) -> bool, what: &str| {
            let (_, found) = read(image, 0).unwrap_or_else(|error| panic!("{what}: {error}"));
            for (level, version, body) in promised_each.iter().filter(|(level, ..)| kept(*level)) {
                let record = found.get(*version as usize - 1);
                assert_eq!(record, Some(&(*version, 1, body.clone())), "{what}: {level} version {version}");
            }
        };
        check(&dir.after_kill(), &|_| true, &format!("L3, seed {seed}, round {round}"));
        for _ in 0..3 {
            let image = dir.after_power_cut(&mut rng);
            check(&image, &|level| level == Durability::Strict, &format!("L2, seed {seed}, round {round}"));
        }
    }
}
