//! Outcomes whose truth is known.

use std::time::Duration;

use duramen_base::entropy;
use duramen_measure::evidence::Evidence;
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use duramen_replication::figures::add;
use duramen_replication::outcome::{Block, Conditions, Gap, Outcome, Pass, Sample, Staleness, Wal};
use duramen_replication::scenario::Wait;
use duramen_replication::{checks, Level, Options};

pub(crate) const PLAIN: Conditions = Conditions { feedback: false, rtt_ms: 0, control: false };
pub(crate) const FEEDBACK: Conditions = Conditions { feedback: true, rtt_ms: 0, control: false };

pub(crate) const CONTROL: Conditions = Conditions { feedback: false, rtt_ms: 0, control: true };

pub(crate) fn host() -> Host {
    Host {
        cpu: "a processor".to_owned(),
        cores: 2,
        memory_bytes: 1 << 34,
        kernel: "Linux 6".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.5; 3],
        fsync_floor_us: 800.0,
    }
}

pub(crate) fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

pub(crate) fn latencies(values_ms: impl IntoIterator<Item = f64>) -> LatencyHistogram {
    values_ms.into_iter().map(ms).collect()
}

/// The evidence of outcomes, on servers of this major version.
pub(crate) fn evidence_on(major: u32, outcomes: &[Outcome], staleness: &[Staleness]) -> Evidence {
    evidence_with(major, outcomes, staleness, &Options::new("unused", "unused"))
}

/// The same with other options.
pub(crate) fn evidence_with(
    major: u32,
    outcomes: &[Outcome],
    staleness: &[Staleness],
    options: &Options,
) -> Evidence {
    let mut evidence = Evidence::new("replication", host());
    evidence.configure(checks::MAJOR, major);
    add(outcomes, staleness, options, &mut entropy::rng(7), &mut evidence);
    evidence
}

pub(crate) fn evidence(outcomes: &[Outcome]) -> Evidence {
    evidence_on(18, outcomes, &[])
}

pub(crate) fn outcome(number: u32, passes: Vec<Pass>) -> Outcome {
    Outcome { number, passes, skipped: None, failed: None }
}

pub(crate) fn pass(conditions: Conditions, repeat: u32, blocks: Vec<Block>) -> Pass {
    Pass {
        conditions,
        repeat,
        blocks,
        blocker: None,
        samples: Vec::new(),
        wal: Wal::default(),
        held_up_at: Vec::new(),
        backlog_bytes: None,
        files_removed: None,
        mapping_files: None,
        cancelled: 0,
        unmet: Vec::new(),
    }
}

/// A second of closed loop of one client, whose median is this.
pub(crate) fn closed(level: Level, median_ms: f64) -> Block {
    Block {
        level,
        clients: 1,
        apply_delay: Duration::ZERO,
        begin: Duration::ZERO,
        elapsed: Duration::from_secs(1),
        response: LatencyHistogram::new(),
        service: latencies([median_ms * 0.5, median_ms, median_ms * 3.0]),
        commits: Vec::new(),
        committed: 3,
        failed: None,
        dropped: 0,
        gaps: Vec::new(),
        wal: None,
    }
}

/// A second of open loop, whose median response is this.
pub(crate) fn open(level: Level, median_ms: f64) -> Block {
    let response = latencies([median_ms * 0.5, median_ms, median_ms * 3.0]);
    Block { response, ..closed(level, median_ms) }
}

/// Repeats of blocks at three levels that take turns: remote_write at 2 ms, on `flush` above, remote_apply `replay` above
/// that. The machine gets slower from block to block, for all levels alike.
pub(crate) fn latency(number: u32, flush: f64, replay: f64) -> Outcome {
    let mut rng = entropy::rng(u64::from(number));
    let mut drift = 0.0;
    let passes = (0..3).map(|repeat| {
        let mut blocks = Vec::new();
        for turn in 0..8_u32 {
            drift += 0.5;
            for level in [Level::RemoteWrite, Level::On, Level::RemoteApply] {
                let own = match level {
                    Level::On => flush,
                    Level::RemoteApply => flush + replay,
                    _ => 0.0,
                };
                let block = open(level, 2.0 + own + drift + rng.f64() * 0.2);
                let begin = Duration::from_secs(blocks.len() as u64);
                let commits = (0..10).map(|commit| begin + ms(f64::from(commit) * 100.0)).collect();
                blocks.push(Block { begin, commits, committed: 10 + u64::from(turn), ..block });
            }
        }
        Pass {
            wal: Wal {
                bytes: 100_000,
                records: vec![
                    ("Btree/INSERT_LEAF".to_owned(), 500, 40_000, 0),
                    ("Heap/UPDATE".to_owned(), 100, 10_000, 5_000),
                ],
            },
            ..pass(PLAIN, repeat, blocks)
        }
    });
    outcome(number, passes.collect())
}

/// A pass of ten seconds at a level, with something that holds up the replay from the third second on for so long, and
/// commits that stop for it or not.
pub(crate) fn stall_pass(
    conditions: Conditions,
    repeat: u32,
    level: Level,
    stall: Option<(Wait, f64)>,
) -> Pass {
    let (begin, length) = (Duration::from_secs(3), stall.map_or(0.0, |(_, seconds)| seconds));
    let end = begin + Duration::from_secs_f64(length);
    let all = (0..1_000).map(|commit| Duration::from_millis(commit * 10));
    let commits: Vec<Duration> = all.filter(|at| *at < begin || *at >= end).collect();
    let waits = |at: Duration| stall.map(|(wait, _)| wait).filter(|_| at >= begin && at < end);
    let startup = |wait| match wait {
        Wait::Snapshot => "IPC:RecoveryConflictSnapshot",
        Wait::Lock => "Lock:relation",
        Wait::BufferPin => "BufferPin:BufferPin",
        Wait::ApplyDelay => "Timeout:RecoveryApplyDelay",
        Wait::Absent | Wait::Unreceived | Wait::Unflushed => "absent",
        Wait::Replaying => "IO:WalRead",
    };
    let samples = (0..100).map(|sample| {
        let at = Duration::from_millis(sample * 100);
        let written = at.as_millis() as u64 * 10;
        Sample {
            at,
            startup: waits(at).map(|wait| startup(wait).to_owned()),
            wait: waits(at),
            primary_lsn: written,
            received_lsn: written,
            replayed_lsn: if waits(at).is_some() { 30_000 } else { written },
            synchronous: true,
            ..Sample::default()
        }
    });
    let samples = samples.collect();
    let gaps = stall.map(|(wait, _)| Gap { begin, length: end - begin, cause: Some(wait) });
    let block = Block {
        elapsed: Duration::from_secs(10),
        committed: commits.len() as u64,
        commits,
        gaps: gaps.into_iter().collect(),
        ..open(level, 5.0)
    };
    Pass { blocker: Some(Duration::from_secs(6)), samples, ..pass(conditions, repeat, vec![block]) }
}

/// Three repeats at remote_write and remote_apply; commits at remote_apply stop for `stall` seconds, with feedback for
/// `with_feedback` seconds.
pub(crate) fn stall(number: u32, wait: Wait, stall: f64, with_feedback: f64) -> Outcome {
    let mut passes = Vec::new();
    for repeat in 0..3 {
        for (conditions, seconds) in [(PLAIN, stall), (FEEDBACK, with_feedback)] {
            passes.push(stall_pass(conditions, repeat, Level::RemoteWrite, None));
            let stall = (seconds > 0.0).then_some((wait, seconds + f64::from(repeat) * 0.01));
            passes.push(stall_pass(conditions, repeat, Level::RemoteApply, stall));
        }
    }
    outcome(number, passes)
}

/// Growing numbers of clients, which remote_apply serves at half the rate.
pub(crate) fn saturation(number: u32) -> Outcome {
    let passes = (0..3).map(|repeat| {
        let mut blocks = Vec::new();
        for clients in [1, 8, 64] {
            for (level, ceiling) in [(Level::RemoteWrite, 300.0), (Level::RemoteApply, 150.0)] {
                let rate = f64::min(f64::from(clients) * 60.0, ceiling) + f64::from(repeat);
                let committed = rate as u64;
                blocks.push(Block { clients, committed, ..closed(level, f64::from(clients) / rate * 1e3) });
            }
        }
        let wal = Wal { bytes: 10_000_000, records: Vec::new() };
        Pass { wal, ..pass(PLAIN, repeat, blocks) }
    });
    outcome(number, passes.collect())
}

/// Something of every kind: what a whole run brings back.
pub(crate) fn whole() -> Evidence {
    let mut invalid = stall(13, Wait::Snapshot, 0.0, 0.0);
    invalid.passes[1]
        .unmet
        .push("the startup process never waited in IPC:RecoveryConflictSnapshot".to_owned());
    let mut skipped = outcome(12, Vec::new());
    skipped.skipped = Some("wal_level is replica".to_owned());
    let stale = |level, stale, last| Staleness {
        level,
        commits: 100,
        stale,
        visible_after: latencies((0..100).map(|commit| if commit < stale { last } else { 0.0 })),
    };
    let outcomes = [
        latency(1, 3.0, 2.0),
        stall(2, Wait::Snapshot, 6.0, 0.0),
        latency(3, 0.0, 0.0),
        stall(8, Wait::Lock, 6.1, 6.1),
        skipped,
        invalid,
        saturation(14),
    ];
    let staleness = [stale(Level::RemoteWrite, 60, 4.0), stale(Level::RemoteApply, 0, 0.0)];
    let mut evidence = evidence_on(18, &outcomes, &staleness);
    let found =
        duramen_replication::findings::find(&duramen_replication::summary::Summary::from_evidence(&evidence));
    evidence.findings.extend(found);
    evidence.finish();
    evidence
}
