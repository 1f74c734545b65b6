//! Whether what a scenario is about has happened: without that its figures say nothing.
//!
//! What the startup process of the standby waits for does not depend on the level of the commits, because the WAL is the
//! same; so these expectations are held against every pass. Which commits stop ([`Expect::StallsFrom`]) is no
//! expectation of a pass but what a scenario is to show, and is judged over all of its passes.

use std::time::Duration;

use duramen_base::clock;

use super::outcome::{Block, BlockWal, Pass, Sample};
use super::pass::sample::PERIOD;
use super::pass::stall::EVIDENCE;
use super::scenario::{Expect, Wait};

/// One sample speaks for no more time than this: whoever was held up longer has not looked.
const SPEAKS_FOR: Duration = Duration::from_millis(300);

/// If a larger share of the operations of a block failed, its figures are not those of its commits.
const MOST_FAILED: f64 = 0.01;

/// A stage may take so long without anything that makes it slow.
const BY_ITSELF_MS: f64 = 5.0;
/// The same in a tenth of the samples.
const SOMETIMES_BY_ITSELF_MS: f64 = 20.0;

/// What is known of a pass beside what it brings back.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// The major version of the servers.
    pub major: u32,
    /// How long the startup process can wait before the reader is cancelled: the length of the blocker, or
    /// `max_standby_streaming_delay` if that is shorter. Of waits that are too short to be seen for sure none is expected.
    pub longest_wait: Duration,
}

/// The expectations that a pass did not meet, in words; one of every pass is that its load was committed.
#[must_use]
pub fn unmet(expect: &[Expect], pass: &Pass, circumstances: &Circumstances) -> Vec<String> {
    if pass.conditions.control {
        // Nothing was done: nothing of it may be seen, but for what is no wait.
        let broken = expect.iter().filter_map(|expect| match expect {
            Expect::Startup(wait) | Expect::Seen(wait) => {
                waited_not(pass, *wait, "although nothing was broken")
            }
            Expect::WriteLag(_) | Expect::SomeWriteLag(_) | Expect::FlushLag(_) => lagged(pass, expect),
            _ => None,
        });
        return broken.chain(pass.blocks.iter().filter_map(failures)).collect();
    }
    let helped =
        pass.conditions.feedback && expect.iter().any(|expect| matches!(expect, Expect::FeedbackHelps(true)));
    let reasons = expect.iter().filter_map(|expect| reason(expect, pass, circumstances, helped));
    reasons.chain(pass.blocks.iter().filter_map(failures)).collect()
}

/// Too many operations of a block that failed, in words.
fn failures(block: &Block) -> Option<String> {
    let (count, first) = block.failed.as_ref()?;
    let all = block.committed + count;
    if block.dropped == 0 && *count as f64 <= all as f64 * MOST_FAILED {
        return None;
    }
    let dropped = match block.dropped {
        0 => String::new(),
        dropped => format!(" ({dropped} of them because the queue was full)"),
    };
    Some(format!("{count} of {all} operations at {} failed{dropped}, the first: {first}", block.level))
}

/// Whether a pass is expected to bring about a wait, if it is no control.
#[must_use]
pub fn wait_expected(expect: &[Expect], major: u32, feedback: bool) -> bool {
    let helped = feedback && expect.iter().any(|expect| matches!(expect, Expect::FeedbackHelps(true)));
    let since = |expect: &Expect| match expect {
        Expect::StartupSince(first, _) => major >= *first,
        _ => true,
    };
    !helped && expect.iter().all(since)
}

fn reason(expect: &Expect, pass: &Pass, circumstances: &Circumstances, helped: bool) -> Option<String> {
    match *expect {
        Expect::Startup(wait) if helped => waited_not(pass, wait, "although hot_standby_feedback was on"),
        Expect::Startup(wait) => waited(pass, wait, circumstances),
        Expect::StartupSince(major, wait) if circumstances.major < major => {
            waited_not(pass, wait, &format!("which is not expected before PostgreSQL {major}"))
        }
        Expect::StartupSince(_, wait) if helped => {
            waited_not(pass, wait, "although hot_standby_feedback was on")
        }
        Expect::StartupSince(_, wait) => waited(pass, wait, circumstances),
        Expect::WriteLag(_) | Expect::SomeWriteLag(_) | Expect::FlushLag(_) => lagged(pass, expect),
        Expect::Seen(wait) => {
            let count = pass.samples.iter().filter(|sample| sample.names(wait)).count();
            (count < EVIDENCE).then(|| {
                format!("{count} samples saw that {}, and at least {EVIDENCE} were expected", clause(wait))
            })
        }
        Expect::Since(major, inner) => {
            (circumstances.major >= major).then(|| reason(inner, pass, circumstances, helped)).flatten()
        }
        Expect::Before(major, inner) => {
            (circumstances.major < major).then(|| reason(inner, pass, circumstances, helped)).flatten()
        }
        // What would conflict is not written then.
        Expect::Records(..) | Expect::HeldUpAt(_) if helped => None,
        Expect::HeldUpAt(records) => held_up_at(pass, records, circumstances),
        Expect::NoRecords(name) => {
            let count = records(pass, name);
            (count > 0).then(|| format!("the WAL has {count} records {name}, and none was expected"))
        }
        Expect::Records(name, least, per_thousand) => {
            let count = records(pass, name);
            let commits: u64 = pass.blocks.iter().map(|block| block.committed).sum();
            if !per_thousand {
                return (count < least).then(|| {
                    format!("the WAL has {count} records {name}, and at least {least} were expected")
                });
            }
            let rate = (count * 1_000).checked_div(commits).unwrap_or(0);
            (rate < least).then(|| {
                format!(
                    "the WAL has {count} records {name} for {commits} commits, and at least {least} for each 1,000 were \
                     expected"
                )
            })
        }
        Expect::BlockRecords(name, least, own) => in_each_block(pass, name, least, |block, wal| {
            let counted = wal.records.iter().map(|(found, count)| (found.as_str(), *count));
            count_of(counted, name).saturating_sub(own * block.committed)
        }),
        Expect::BlockImages(least, per_thousand) => {
            let what = if per_thousand {
                "with full-page images for 1,000 commits"
            } else {
                "with full-page images"
            };
            in_each_block(pass, what, least, |block, wal| match per_thousand {
                true => (wal.with_images * 1_000).checked_div(block.committed).unwrap_or(0),
                false => wal.with_images,
            })
        }
        Expect::Backlog(least) => {
            let bytes = pass.backlog_bytes.unwrap_or(0);
            (bytes < least).then(|| {
                format!(
                    "the standby had {bytes} B to replay when the statement began, and at least {least} B were \
                     expected"
                )
            })
        }
        Expect::FilesRemoved(least) => {
            let count = pass.files_removed.unwrap_or(0);
            (count < least).then(|| {
                format!("{count} files went away on the standby, and at least {least} were expected")
            })
        }
        Expect::MappingFiles(least) => {
            let count = pass.mapping_files.unwrap_or(0);
            (count < least).then(|| {
                format!(
                    "the replay wrote {count} files of logical mappings, and at least {least} were expected"
                )
            })
        }
        Expect::NoMappingFiles => {
            let count = pass.mapping_files.unwrap_or(0);
            (count > 0)
                .then(|| format!("the replay wrote {count} files of logical mappings, and none was expected"))
        }
        // Feedback is held against the wait above; who stalls is judged over all passes.
        Expect::FeedbackHelps(_) | Expect::StallsFrom(_) => None,
    }
}

fn waited(pass: &Pass, wait: Wait, circumstances: &Circumstances) -> Option<String> {
    let least = circumstances.longest_wait / 2;
    if least < PERIOD * EVIDENCE as u32 {
        // Over before the samplers could be sure of it: that a reader was cancelled is all there is to be seen.
        return None;
    }
    let seen = time_in(&pass.samples, wait);
    (seen < least).then(|| {
        let others: Vec<String> = [
            Wait::Snapshot,
            Wait::Lock,
            Wait::BufferPin,
            Wait::ApplyDelay,
            Wait::Absent,
            Wait::Unreceived,
            Wait::Unflushed,
        ]
        .into_iter()
        .filter(|other| *other != wait)
        .map(|other| (other, time_in(&pass.samples, other)))
        .filter(|(_, time)| !time.is_zero())
        .map(|(other, time)| format!("for {:.1} s {}", time.as_secs_f64(), clause(other)))
        .collect();
        let others =
            if others.is_empty() { String::new() } else { format!(" (seen was that {})", others.join(", ")) };
        format!(
            "for {:.1} s it was seen that {}, and at least {:.1} s were expected{others}",
            seen.as_secs_f64(),
            clause(wait),
            least.as_secs_f64()
        )
    })
}

/// That a stage lags as it must: by so much at least, or in a control by less.
fn lagged(pass: &Pass, expect: &Expect) -> Option<String> {
    const MEDIAN: (f64, &str, f64) = (0.5, "the median", BY_ITSELF_MS);
    const TAIL: (f64, &str, f64) = (0.9, "in a tenth of the samples", SOMETIMES_BY_ITSELF_MS);
    let samples = &pass.samples;
    let of_each = |lag: fn(&Sample) -> Option<f64>| samples.iter().filter_map(lag).collect();
    let (what, least, (share, of, by_itself), mut lags): (_, _, _, Vec<f64>) = match *expect {
        Expect::WriteLag(least) => ("to write", least, MEDIAN, of_each(|sample| sample.write_lag_ms)),
        Expect::SomeWriteLag(least) => ("to write", least, TAIL, unwritten(samples)),
        Expect::FlushLag(least) => (
            "to flush what it had written",
            least,
            MEDIAN,
            of_each(|sample| Some(sample.flush_lag_ms? - sample.write_lag_ms?)),
        ),
        _ => return None,
    };
    lags.sort_by(f64::total_cmp);
    let Some(seen) = lags.get((lags.len() as f64 * share) as usize) else {
        return Some(format!("it is not known how long the standby took {what}"));
    };
    // Disks and machines are not that even by themselves.
    let (wanted, limit) = match pass.conditions.control {
        true => ("less than", least.max(by_itself)),
        false => ("at least", least),
    };
    ((*seen >= limit) == pass.conditions.control).then(|| {
        format!("the standby took {seen:.1} ms {what} ({of}), and {wanted} {limit:.1} ms were expected")
    })
}

/// For how long the standby has not written, at each sample that knows it, what the primary has flushed: `write_lag` is told when that
/// is over, and by the next commit forgotten.
fn unwritten(samples: &[Sample]) -> Vec<f64> {
    let mut flushed = samples.iter().peekable();
    let late = samples.iter().filter_map(|sample| {
        // The first sample in which more was flushed than is written now.
        while flushed
            .next_if(|before| before.at < sample.at && before.flushed_lsn <= sample.written_lsn)
            .is_some()
        {}
        let since = flushed.peek().map_or(sample.at, |before| before.at.min(sample.at));
        let late_ms =
            if sample.written_lsn < sample.flushed_lsn { clock::ms(sample.at - since) } else { 0.0 };
        Some(sample.write_lag_ms?.max(late_ms))
    });
    late.collect()
}

/// That the replay was held up at one of these records. That it was held up at all is another expectation.
fn held_up_at(pass: &Pass, records: &[&str], circumstances: &Circumstances) -> Option<String> {
    if circumstances.longest_wait / 2 < PERIOD * EVIDENCE as u32 {
        return None;
    }
    let wanted = records.join(" or ");
    match pass.held_up_at.first() {
        Some((found, _)) if records.contains(&found.as_str()) => None,
        Some((found, _)) => {
            Some(format!("the replay was held up at a record {found}, and {wanted} was expected"))
        }
        None => {
            Some(format!("it is not known at which record the replay was held up ({wanted} was expected)"))
        }
    }
}

fn waited_not(pass: &Pass, wait: Wait, but: &str) -> Option<String> {
    let seen = pass.samples.iter().filter(|sample| sample.names(wait)).count();
    (seen >= EVIDENCE).then(|| {
        let time = time_in(&pass.samples, wait).as_secs_f64();
        format!("for {time:.1} s it was seen that {}, {but}", clause(wait))
    })
}

/// How long samples in a row name a wait.
#[must_use]
pub fn time_in(samples: &[Sample], wait: Wait) -> Duration {
    samples
        .iter()
        .zip(samples.iter().skip(1).map(|next| next.at).chain([Duration::MAX]))
        .filter(|(sample, _)| sample.names(wait))
        .map(|(sample, next)| match next.checked_sub(sample.at) {
            Some(step) if next != Duration::MAX => step.min(SPEAKS_FOR),
            _ => PERIOD,
        })
        .sum()
}

/// That a count is reached in every block: what is to run beside the load must have run beside all of it, or some of the
/// figures are of something else.
fn in_each_block(
    pass: &Pass,
    what: &str,
    least: u64,
    count: impl Fn(&Block, &BlockWal) -> u64,
) -> Option<String> {
    let counts: Vec<(u64, &Block)> = pass
        .blocks
        .iter()
        .map(|block| (block.wal.as_ref().map_or(0, |wal| count(block, wal)), block))
        .collect();
    let short = counts.iter().filter(|(count, _)| *count < least).count();
    let (fewest, block) = counts.iter().min_by_key(|(count, _)| *count)?;
    (short > 0).then(|| {
        format!(
            "while the load of {short} of {} blocks ran, fewer than {least} WAL records {what} were written beside it \
             (the fewest, at {}: {fewest})",
            counts.len(),
            block.level
        )
    })
}

/// Records of a resource manager, or of those of its types whose names begin so: `Heap2/PRUNE` are three types since 17.
fn records(pass: &Pass, name: &str) -> u64 {
    count_of(pass.wal.records.iter().map(|(found, count, ..)| (found.as_str(), *count)), name)
}

fn count_of<'a>(records: impl Iterator<Item = (&'a str, u64)>, name: &str) -> u64 {
    let is_meant = |found: &str| match name.split_once('/') {
        Some(_) => found.starts_with(name),
        None => found.split('/').next() == Some(name),
    };
    records.filter(|(found, _)| is_meant(found)).map(|(_, count)| count).sum()
}

/// What a wait is in sentences.
fn clause(wait: Wait) -> &'static str {
    match wait {
        Wait::Snapshot => "the startup process waited for a reader's snapshot",
        Wait::Lock => "the startup process waited for a reader's lock",
        Wait::BufferPin => "the startup process waited for a reader's pin of a page",
        Wait::ApplyDelay => "the startup process waited for recovery_min_apply_delay",
        Wait::Absent => "there was no standby",
        Wait::Unreceived => "the standby did not write what it was sent",
        Wait::Unflushed => "the standby did not flush what it had received",
        Wait::Replaying => "the startup process was busy",
    }
}
