//! What makes runs alike: the machine and the settings.

use std::collections::{BTreeMap, BTreeSet};

use duramen_measure::evidence::{Evidence, PASSING_SETTINGS};
use duramen_measure::host::Machine;
use serde::Serialize;

/// Settings that say how something turned out, beside those of [`PASSING_SETTINGS`].
const OUTCOMES: [&str; 3] = ["snapshot_bytes", "snapshot_digest", "volumes_reason"];
/// How many hexadecimal digits name a machine or a configuration.
const DIGITS: usize = 16;
/// How many differences are told in words.
const MOST_NAMED: usize = 6;
/// How many characters of a value are told in words.
const LONGEST_VALUE: usize = 60;

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

/// Something that two runs do not have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is: `kernel`, or the name of a setting.
    pub what: String,
    /// What it is in one run; none where it is not set.
    pub here: Option<String>,
    /// What it is in the other.
    pub there: Option<String>,
}

/// The kernel and the file system of a run, which make its figures others on the same machine.
pub(crate) fn host_digest(evidence: &Evidence) -> String {
    digest(&format!("{}\n{}", evidence.host.kernel, evidence.host.file_system))
}

/// What keeps two runs of a suite out of one series: the machine, its kernel and file system, the version of Duramen, and every
/// setting, among which are the system identifier, the topology, the versions and the settings of servers.
#[must_use]
pub fn differences(here: &Evidence, there: &Evidence) -> Vec<Difference> {
    let machine = |of: &Evidence| {
        let machine = of.host.machine();
        format!("{}, {} cores, {} GiB", machine.cpu.trim(), machine.cores, machine.memory_gib())
    };
    let fixed: [(&str, String, String); 4] = [
        ("machine", machine(here), machine(there)),
        ("kernel", here.host.kernel.clone(), there.host.kernel.clone()),
        ("file system", here.host.file_system.clone(), there.host.file_system.clone()),
        ("version", here.version.clone(), there.version.clone()),
    ];
    let fixed = fixed.into_iter().filter(|(_, here, there)| here != there).map(|(what, here, there)| {
        Difference { what: what.to_owned(), here: Some(here), there: Some(there) }
    });
    let names: BTreeSet<&String> =
        here.config.keys().chain(there.config.keys()).filter(|name| is_chosen(name)).collect();
    let settings = names.into_iter().filter(|name| here.config.get(*name) != there.config.get(*name));
    let shown = |of: &Evidence, name: &String| {
        of.config.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let settings = settings.map(|name| Difference {
        what: name.clone(),
        here: shown(here, name),
        there: shown(there, name),
    });
    fixed.chain(settings).collect()
}

/// Differences in words, the first of them: `kernel Linux 6.2 (newest: Linux 6.1)`.
#[must_use]
pub fn in_words(differences: &[Difference]) -> String {
    let cut = |value: &Option<String>| match value {
        None => "not set".to_owned(),
        Some(value) if value.chars().count() > LONGEST_VALUE => {
            format!("{}...", value.chars().take(LONGEST_VALUE).collect::<String>())
        }
        Some(value) => value.clone(),
    };
    let word = |one: &Difference| format!("{} {} (newest: {})", one.what, cut(&one.here), cut(&one.there));
    let mut words: Vec<String> = differences.iter().take(MOST_NAMED).map(word).collect();
    if differences.len() > MOST_NAMED {
        words.push(format!("{} more", differences.len() - MOST_NAMED));
    }
    words.join("; ")
}

/// Whether a setting makes runs unlike.
pub(crate) fn is_chosen(name: &str) -> bool {
    !PASSING_SETTINGS.contains(&name) && !OUTCOMES.contains(&name)
}

pub(crate) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(DIGITS).collect()
}
