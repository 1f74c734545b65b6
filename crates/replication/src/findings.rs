//! Rules over what was seen that say what it means and what to do. They look at waits, WAL and intervals, never at the
//! name of a scenario. What was invalid means nothing, and is left out; only what happened all the same (cancelled
//! queries, gaps of the machine) is told of it.

use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_measure::target;

use super::advice;
use super::checks;
use super::level::Level;
use super::summary::{AddedInterval, AtLevel, ScenarioSummary, Seen, Summary};
use super::targets;
use duramen_base::words::number;

/// A level that stops for at least so long is worth a word; what a stall is begins there too.
const STALL_S: f64 = 1.0;
/// A throughput below this share of that at remote_write is bound by the replay.
const CEILING: f64 = 0.8;
/// Full-page images are told when they are more than this share of the WAL.
const IMAGES: f64 = 0.5;
/// Index records are told when they are more than this share of the records' bytes.
const INDEXES: f64 = 0.4;
/// A share of stale reads is told from here on, in percent.
const STALE_PERCENT: f64 = 1.0;
/// The flush on the standby is told when it is at least this share of what remote_apply adds.
const FLUSH: f64 = 0.4;
/// Index resource managers, as WAL records name them.
const INDEX_MANAGERS: [&str; 6] = ["Btree", "Gin", "Gist", "Hash", "SPGist", "BRIN"];

/// Everything that the rules find.
#[must_use]
pub fn find(summary: &Summary<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    stalls(summary, &mut found);
    feedback(summary, &mut found);
    apply_bound(summary, &mut found);
    flush_share(summary, &mut found);
    round_trip(summary, &mut found);
    wal(summary, &mut found);
    statements(summary, &mut found);
    controls(summary, &mut found);
    slowed(summary, &mut found);
    cancelled(summary, &mut found);
    stale_reads(summary, &mut found);
    replaying(summary, &mut found);
    host_noise(summary, &mut found);
    no_difference(summary, &mut found);
    found
}

/// Commits that stopped, by cause.
fn stalls(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for (rule, cause) in advice::CAUSES {
        let mut worst: Option<(f64, String)> = None;
        let mut places = Vec::new();
        for (entry, seen) in summary.valid() {
            let is_so = |at: &&AtLevel| at.cause.as_deref() == Some(cause) && at.stall_s >= STALL_S;
            // The weakest level that stops; all stronger ones do, too.
            let Some(at) = seen.levels.iter().find(is_so) else { continue };
            let place = format!("{}{}", entry.id, seen.suffix);
            if worst.as_ref().is_none_or(|(stall_s, _)| at.stall_s > *stall_s) {
                let blocker = summary.p50(&seen.name("blocker_s", entry, None));
                let blocker =
                    blocker.map_or_else(String::new, |s| format!("; what held it up lasted {} s", number(s)));
                let record = seen.held_up_at.iter().max_by_key(|(_, samples)| **samples);
                let record = record.map_or_else(String::new, |(record, _)| {
                    format!(" to replay a record {record}{}", advice::on_record(record))
                });
                let first = format!(
                    "{place}: commits at {} stopped for {} s while {}{record}{blocker}",
                    at.level,
                    number(at.stall_s),
                    advice::wait_in_words(cause)
                );
                worst = Some((at.stall_s, first));
            }
            places.push(place);
        }
        if let Some((stall_s, first)) = worst {
            let also = if places.len() > 1 {
                format!(" (the same in: {})", places.join(", "))
            } else {
                String::new()
            };
            let text = format!("{first}{also}. {}", advice::on_cause(cause));
            found.push(Finding::new(rule, Severity::Warning, Some(stall_s), text));
        }
    }
}

/// Whether `hot_standby_feedback` prevents a stall: from the same scenario with and without.
fn feedback(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for entry in &summary.scenarios {
        let with = |feedback| entry.nearest(feedback).filter(|seen| seen.unmet.is_empty());
        let (Some(off), Some(on)) = (with(false), with(true)) else { continue };
        let longest = |seen: &Seen| seen.levels.iter().map(|at| at.stall_s).fold(0.0, f64::max);
        let (without_s, with_s) = (longest(off), longest(on));
        if without_s < STALL_S {
            continue;
        }
        let figures = format!("{}: {} s without hot_standby_feedback, ", entry.title(), number(without_s));
        if with_s < STALL_S {
            let text = format!("{figures}none with it. {}", advice::FEEDBACK_COST);
            found.push(Finding::new("feedback_prevents_stall", Severity::Info, Some(without_s), text));
        } else {
            let text = format!(
                "{figures}{} s with it: feedback keeps rows that readers need; it does not keep a {} from being \
                 waited for.",
                number(with_s),
                on.levels.iter().rev().find_map(|at| at.cause.as_deref()).unwrap_or("wait")
            );
            found.push(Finding::new("feedback_does_not_help", Severity::Warning, Some(with_s), text));
        }
    }
}

/// The ceiling of the throughput at remote_apply, from scenarios with growing numbers of clients.
fn apply_bound(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for (entry, seen) in summary.valid() {
        let ceiling = |level: Level| {
            let curve = curve(summary, "throughput_per_s", &entry.id, level, &seen.suffix);
            curve.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let (Some(weak), Some(strong)) = (ceiling(Level::RemoteWrite), ceiling(Level::RemoteApply)) else {
            continue;
        };
        let share = strong.1 / weak.1;
        if share < CEILING {
            let wal = summary.p50(&seen.name("wal_bytes_per_commit", entry, None));
            let rate = wal.map_or_else(String::new, |bytes| {
                format!(", which is {} MB of WAL replayed a second", number(bytes * strong.1 / 1e6))
            });
            let text = format!(
                "{}: at most {} commits/s at remote_apply{rate} ({} clients), {} at remote_write ({} clients). {}",
                entry.title(),
                number(strong.1),
                strong.0,
                number(weak.1),
                weak.0,
                advice::APPLY_BOUND
            );
            found.push(Finding::new("apply_bound", Severity::Warning, Some(share), text));
        }
    }
}

/// A figure at growing numbers of clients: the clients and the median.
#[must_use]
pub fn curve(summary: &Summary<'_>, figure: &str, id: &str, level: Level, suffix: &str) -> Vec<(u32, f64)> {
    let prefix = format!("{figure}/{id}/{level}/c=");
    let point = |name: &str, p50: f64| {
        let clients = name.strip_prefix(prefix.as_str())?.strip_suffix(suffix)?;
        Some((clients.parse().ok()?, p50))
    };
    let measurements = &summary.evidence().measurements;
    let mut points: Vec<(u32, f64)> =
        measurements.iter().filter_map(|measured| point(&measured.name, measured.p50)).collect();
    points.sort_by_key(|(clients, _)| *clients);
    points
}

fn is_above_zero(interval: Option<AddedInterval>) -> Option<AddedInterval> {
    interval.filter(|interval| interval.low > 0.0)
}

/// How much of what remote_apply adds is the flush on the standby, and not the replay.
fn flush_share(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    let mut shares = Vec::new();
    for (entry, seen) in summary.valid() {
        let of = |figure: &str| is_above_zero(summary.interval(&seen.name(figure, entry, None)));
        if let (Some(added), Some(flush)) = (of("added_ms"), of("flush_ms")) {
            let share = flush.estimate / added.estimate;
            if share >= FLUSH {
                shares.push((share.min(1.0), format!("{}{}", entry.id, seen.suffix)));
            }
        }
    }
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((share, _)) = shares.first() else { return };
    let places: Vec<&str> = shares.iter().map(|(_, place)| place.as_str()).collect();
    let text = format!(
        "In {} at least {:.0} % of what remote_apply adds to remote_write, up to {:.0} %, is the standby's flush, which \
         level on has to wait for as well: going back from remote_apply to on would not save it. A faster disk of the \
         standby would.",
        places.join(", "),
        FLUSH * 100.0,
        share * 100.0
    );
    found.push(Finding::new("flush_not_replay", Severity::Info, Some(*share), text));
}

/// How the levels come closer to each other with the distance between the servers.
fn round_trip(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for entry in &summary.scenarios {
        let ratio = |seen: &Seen| {
            let p50 = |level: Level| summary.p50(&seen.name("latency_ms", entry, Some(level.name())));
            Some(p50(Level::RemoteApply)? / p50(Level::RemoteWrite)?.max(1e-6))
        };
        let Some(near) = entry.nearest(false) else { continue };
        let far = |seen: &&Seen| seen.rtt_ms > near.rtt_ms && !seen.feedback;
        let Some(far) = entry.seen.iter().rev().find(far) else { continue };
        if !near.unmet.is_empty() || !far.unmet.is_empty() {
            continue;
        }
        let (Some(before), Some(after)) = (ratio(near), ratio(far)) else { continue };
        if entry.kind == "latency" && after < before * 0.8 {
            let text = format!(
                "{}: remote_apply takes {} times as long as remote_write with a round trip of {} ms, {} times with {} \
                 ms: the farther the standby, the less of a commit's time the level decides.",
                entry.title(),
                number(before),
                near.rtt_ms,
                number(after),
                far.rtt_ms
            );
            found.push(Finding::new("distance_levels_out", Severity::Info, Some(after), text));
        }
    }
}

/// Whether it was seen without feedback, and with the servers as near to each other as they were.
fn is_plain((entry, seen): &(&ScenarioSummary, &Seen)) -> bool {
    entry.nearest(false).is_some_and(|nearest| nearest.suffix == seen.suffix)
}

/// What the WAL consists of.
fn wal(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for (entry, seen) in summary.valid().filter(is_plain) {
        let added = is_above_zero(summary.interval(&seen.name("added_ms", entry, None)));
        let Some(added) = added.filter(|_| entry.kind == "latency" || entry.kind == "saturation") else {
            continue;
        };
        let share = seen.image_bytes as f64 / seen.wal_bytes.max(1) as f64;
        if share > IMAGES {
            let text = format!(
                "{}: {:.0} % of the WAL are full-page images, and remote_apply adds {} ms. {}",
                entry.title(),
                share * 100.0,
                number(added.estimate),
                advice::IMAGES
            );
            found.push(Finding::new("full_page_images", Severity::Info, Some(share), text));
        }
        let bytes = |wanted: &dyn Fn(&str) -> bool| {
            let of = seen.records.iter().filter(|(name, ..)| wanted(name.split('/').next().unwrap_or(name)));
            of.map(|(_, _, bytes)| *bytes).sum::<u64>() as f64
        };
        let share = bytes(&|manager| INDEX_MANAGERS.contains(&manager)) / bytes(&|_| true).max(1.0);
        if share > INDEXES {
            let text = format!(
                "{}: {:.0} % of the bytes of WAL records maintain indexes, and remote_apply adds {} ms. {}",
                entry.title(),
                share * 100.0,
                number(added.estimate),
                advice::INDEXES
            );
            found.push(Finding::new("index_maintenance", Severity::Info, Some(share), text));
        }
    }
}

/// Statements that wait for much to be replayed, or for files to be removed.
fn statements(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for (entry, seen) in summary.valid().filter(is_plain) {
        let Some(added) = is_above_zero(summary.interval(&seen.name("added_ms", entry, None))) else {
            continue;
        };
        if let Some(backlog) = seen.backlog_bytes.filter(|backlog| *backlog > 0) {
            let text = format!(
                "{}: a commit at remote_apply waits {} ms longer than at remote_write, behind up to {} MB that the \
                 standby had still to replay. {}",
                entry.title(),
                number(added.estimate),
                number(backlog as f64 / 1e6),
                advice::BACKLOG
            );
            found.push(Finding::new("waits_for_backlog", Severity::Warning, Some(added.estimate), text));
        }
        if let Some(files) = seen.files_removed.filter(|files| *files > 0) {
            let text = format!(
                "{}: the standby removes {files} files before it has replayed the commit, which adds {} ms at \
                 remote_apply. {}",
                entry.title(),
                number(added.estimate),
                advice::UNLINK
            );
            found.push(Finding::new("removes_files", Severity::Info, Some(added.estimate), text));
        }
    }
}

/// What a commit takes where something on its way is slow, and what it takes in the control, where nothing is.
fn slowed(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for (entry, slow) in summary.valid().filter(|(entry, seen)| entry.kind == "latency" && !seen.control) {
        let is_its = |seen: &&Seen| {
            seen.control
                && seen.unmet.is_empty()
                && (seen.feedback, seen.rtt_ms) == (slow.feedback, slow.rtt_ms)
        };
        let Some(control) = entry.seen.iter().find(is_its) else { continue };
        let took =
            |seen: &Seen, level: Level| summary.p50(&seen.name("latency_ms", entry, Some(level.name())));
        let words = Level::ALL.into_iter().filter_map(|level| {
            let (slow, control) = (took(slow, level)?, took(control, level)?);
            Some(format!("at {level} {} ms instead of {} ms", number(slow), number(control)))
        });
        let words: Vec<String> = words.collect();
        if !words.is_empty() {
            let text = format!("{}: a commit takes {}.", entry.title(), words.join(", "));
            found.push(Finding::new("slower_than_control", Severity::Info, None, text));
        }
    }
}

/// What a scenario takes more than its control, which is the same without what it is about.
fn controls(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    for (control, without) in summary.valid().filter(is_plain) {
        let Some(id) = &control.control_of else { continue };
        let Some((entry, with)) = summary.valid().filter(is_plain).find(|(entry, _)| entry.id == *id) else {
            continue;
        };
        let at = Some(Level::RemoteApply.name());
        let took = |entry: &ScenarioSummary, seen: &Seen| summary.p50(&seen.name("latency_ms", entry, at));
        let (Some(with_ms), Some(without_ms)) = (took(entry, with), took(control, without)) else { continue };
        let mappings = with.mapping_files.filter(|files| *files > 0);
        let mappings = mappings
            .map_or_else(String::new, |files| format!(" and writes {files} files of logical mappings"));
        let text = format!(
            "{} takes {} ms at remote_apply{mappings}; its control {}, {} ms. Of the first, no more than the difference is \
             what the scenario is about.",
            entry.title(),
            number(with_ms),
            control.title(),
            number(without_ms)
        );
        found.push(Finding::new("held_against_control", Severity::Info, Some(with_ms - without_ms), text));
    }
}

/// Queries that were cancelled on the standby, and commits that were cancelled while they waited.
fn cancelled(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    let cancelled: u64 = summary.seen().map(|(_, seen)| seen.cancelled).sum();
    if cancelled > 0 {
        let text = format!(
            "{cancelled} queries of the standby were cancelled because they conflicted with the replay: that is the \
             price of a finite max_standby_streaming_delay. {}",
            advice::REPORTING
        );
        found.push(Finding::new("queries_cancelled", Severity::Warning, Some(cancelled as f64), text));
    }
    for entry in
        summary.scenarios.iter().filter(|entry| entry.kind == "cancelled wait" && !entry.is_invalid())
    {
        if entry.seen.iter().any(|seen| seen.passes > 0) {
            let text = format!("{}: {}", entry.title(), advice::CANCELLED_WAIT);
            found.push(Finding {
                rule: "committed_locally".to_owned(),
                severity: Severity::Warning,
                figure: None,
                text,
            });
        }
    }
}

fn stale_reads(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    let share = |level: Level| {
        let percent = summary.p50(&format!("stale_percent/{level}"))?;
        let p95 = summary.evidence().measurement(&format!("staleness_ms/{level}")).map_or(0.0, |m| m.p95);
        Some((level, percent, p95))
    };
    let all: Vec<_> = Level::ALL.into_iter().filter_map(share).collect();
    let Some((level, percent, p95)) =
        all.iter().rev().find(|(level, percent, _)| *level < Level::RemoteApply && *percent >= STALE_PERCENT)
    else {
        return;
    };
    let at_apply = all.iter().find(|(level, ..)| *level == Level::RemoteApply);
    let at_apply = at_apply
        .map_or_else(String::new, |(_, percent, _)| format!(", {} % at remote_apply", number(*percent)));
    let text = format!(
        "{} % of the reads of the standby right after a commit at {level} did not see it (the last one after {} ms at \
         p95){at_apply}. Reading one's own writes on a standby is what remote_apply is paid for; where only some reads \
         need it, let those commits alone use it, or wait on the standby for the commit's LSN.",
        number(*percent),
        number(*p95)
    );
    found.push(Finding::new("stale_reads", Severity::Info, Some(*percent), text));
}

/// Gaps in which the standby waited for nobody, and was replaying.
fn replaying(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    let gaps = summary.seen().flat_map(|(entry, seen)| {
        let long = seen.levels.iter().filter(|at| at.replaying_s >= STALL_S);
        long.map(move |at| (at.replaying_s, format!("{}/{}{}", entry.id, at.level, seen.suffix)))
    });
    let gaps: Vec<(f64, String)> = gaps.collect();
    let Some((longest, place)) = gaps.iter().max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    let text = format!(
        "In {} passes there were gaps of a second and more between commits while the standby was replaying what it had \
         received, the longest {} s in {place}: nobody was in the way, the replay was slower than the load. They are not \
         counted as stalls. {}",
        gaps.len(),
        number(*longest),
        advice::APPLY_BOUND
    );
    found.push(Finding::new("replay_behind", Severity::Warning, Some(*longest), text));
}

/// Gaps in which nothing on the standby waited.
fn host_noise(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    let gaps = summary.seen().flat_map(|(entry, seen)| {
        seen.levels
            .iter()
            .filter(|at| at.noise_s >= STALL_S)
            .map(move |at| (at.noise_s, format!("{}/{}{}", entry.id, at.level, seen.suffix)))
    });
    let gaps: Vec<(f64, String)> = gaps.collect();
    let Some((longest, place)) = gaps.iter().max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    let text = format!(
        "In {} passes there were gaps of a second and more between commits without any wait or replay on the standby, the longest \
         {} s in {place}: the machine or its disk was busy otherwise. They are not counted as stalls.",
        gaps.len(),
        number(*longest)
    );
    found.push(Finding::new("host_noise", Severity::Warning, Some(*longest), text));
}

/// Where remote_apply cannot be told from remote_write.
fn no_difference(summary: &Summary<'_>, found: &mut Vec<Finding>) {
    // Of what stops, the stall is what is asked for; what a delay adds that was set is no difference of levels, and has a target.
    let is_asked = |kind: &str| !matches!(kind, "stall" | "calibration");
    let same = summary.valid().filter(|(entry, _)| is_asked(&entry.kind)).filter_map(|(entry, seen)| {
        let interval = summary.interval(&seen.name("added_ms", entry, None))?;
        (interval.low <= 0.0 && interval.high >= 0.0).then(|| format!("{}{}", entry.id, seen.suffix))
    });
    let same: Vec<String> = same.collect();
    if !same.is_empty() {
        let text = format!(
            "No detectable difference between remote_apply and remote_write in {}: the intervals of what it adds hold \
             zero. More repeats make them narrower.",
            same.join(", ")
        );
        found.push(Finding::new("no_detectable_difference", Severity::Info, Some(same.len() as f64), text));
    }
}

/// The scenarios whose figures say nothing.
#[must_use]
pub fn invalid(summary: &Summary<'_>) -> Vec<Finding> {
    let text = |(entry, seen): (&ScenarioSummary, &Seen)| Finding {
        rule: "invalid".to_owned(),
        severity: Severity::Problem,
        figure: None,
        text: format!(
            "{}{}: what was to be measured was not seen to happen, so its figures say nothing of it: {}",
            entry.title(),
            seen.suffix,
            seen.unmet.join("; ")
        ),
    };
    summary.seen().filter(|(_, seen)| !seen.unmet.is_empty()).map(text).collect()
}

/// Both servers on one machine.
fn one_machine(evidence: &Evidence) -> Option<Finding> {
    let text = "Both servers and the load ran on one machine and shared its processors and its disk: what the replay takes \
                away from the primary is in the figures. Between two machines, differences are smaller.";
    let pair = evidence.config.get("pair").and_then(|pair| pair.as_str());
    matches!(pair, Some("own" | "source")).then(|| Finding::new("one_machine", Severity::Info, None, text))
}

/// Commits that do not need the standby that was measured.
fn optional(evidence: &Evidence) -> Option<Finding> {
    let text = "synchronous_standby_names names more standbys than must acknowledge a commit (ANY n), so another one can do so \
                in the place of the one that was measured. Where it does, what holds up this one stops nothing: that is what \
                such a setting is for. What a level adds is what it takes the fastest of them.";
    let is_so = evidence.config.get(checks::OPTIONAL).and_then(|optional| optional.as_bool()) == Some(true);
    is_so.then(|| Finding::new("others_acknowledge", Severity::Info, None, text))
}

/// Everything that can be found in a document: what its scenarios mean, the conditions of the run, and missed targets.
#[must_use]
pub fn of_document(evidence: &Evidence) -> Vec<Finding> {
    let mut found = find(&Summary::from_evidence(evidence));
    found.extend(one_machine(evidence));
    found.extend(optional(evidence));
    found.extend(target::missed(&targets::standings(evidence)));
    found
}
