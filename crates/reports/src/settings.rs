//! What makes runs alike: the machine and the settings.

use std::collections::BTreeMap;

use duramen_measure::evidence::{Evidence, PASSING_SETTINGS};
use duramen_measure::host::Machine;

/// Settings that say how something turned out, beside those of [`PASSING_SETTINGS`].
const OUTCOMES: [&str; 3] = ["snapshot_bytes", "snapshot_digest", "volumes_reason"];
/// How many hexadecimal digits name a machine or a configuration.
const DIGITS: usize = 16;

/// The name of a machine: a digest of its processor, cores and memory. Another kernel does not change it, other cores
/// that the process may use do.
#[must_use]
pub fn machine_id(machine: &Machine) -> String {
    digest(&format!("{}\n{}\n{}", machine.cpu.trim(), machine.cores, machine.memory_gib()))
}

/// The name of a configuration: a digest of all settings but those that differ from run to run by themselves.
#[must_use]
pub fn config_digest(evidence: &Evidence) -> String {
    let settings: BTreeMap<&String, String> = evidence
        .config
        .iter()
        .filter(|(name, _)| is_chosen(name))
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    digest(&format!("{settings:?}"))
}

/// Whether a setting makes runs unlike.
pub(crate) fn is_chosen(name: &str) -> bool {
    !PASSING_SETTINGS.contains(&name) && !OUTCOMES.contains(&name)
}

pub(crate) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(DIGITS).collect()
}
