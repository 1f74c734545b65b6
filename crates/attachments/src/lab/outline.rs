//! A run in short.

use super::words::{count, cut, path as path_words};
use duramen_api::attachments::lab::{LabRun, LabVerdict};
use duramen_measure::evidence::{Evidence, Severity, Verdict};
use duramen_reports::{config_digest, machine_id};
use std::{os::unix::ffi::OsStrExt, path::Path};

/// How many digits tell files apart.
const ID_DIGITS: usize = 32;

/// What a file is asked for by. It is compared, and leads nowhere by itself.
pub(super) fn id(path: &Path) -> String {
    blake3::hash(path.as_os_str().as_bytes()).to_hex().chars().take(ID_DIGITS).collect()
}

/// The run in short.
pub(super) fn of(path: &Path, evidence: &Evidence) -> LabRun {
    let missed = evidence.checks.iter().filter(|check| !check.passed).count();
    let found =
        |severity| count(evidence.findings.iter().filter(|finding| finding.severity == severity).count());
    let took_s = evidence.finished_at.duration_since(evidence.started_at).as_secs_f64();
    LabRun {
        id: id(path),
        file: path_words(path),
        suite: cut(&evidence.suite),
        started_at: evidence.started_at,
        took_s: took_s.max(0.0),
        version: cut(&evidence.version),
        machine: machine_id(&evidence.host.machine()),
        cpu: cut(&evidence.host.cpu),
        cores: evidence.host.cores as u64,
        config: config_digest(evidence),
        verdict: verdict(evidence.verdict),
        checks_met: count(evidence.checks.len() - missed),
        checks_missed: count(missed),
        problems: found(Severity::Problem),
        warnings: found(Severity::Warning),
        figures: count(evidence.measurements.len()),
        was_busy: evidence.host.load_average[0] > evidence.host.cores as f64,
    }
}

pub(super) fn verdict(verdict: Verdict) -> LabVerdict {
    match verdict {
        Verdict::Pass => LabVerdict::Pass,
        Verdict::Fail => LabVerdict::Fail,
        Verdict::Invalid => LabVerdict::Invalid,
    }
}
