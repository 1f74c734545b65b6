//! All scenarios there are, and how they are found.

use super::{broken, lock, pin, snapshot, special, statement, throughput, Scenario};

/// All, in the order of their numbers.
const CATALOG: &[Scenario] = &[
    throughput::INDEX_HEAVY,
    snapshot::BY_VACUUM,
    throughput::GIN,
    statement::AFTER_MIGRATION,
    throughput::BULK_INSERT,
    throughput::FULL_PAGE_IMAGES,
    snapshot::ON_ANOTHER_TABLE,
    lock::BY_VACUUM_FULL,
    pin::BY_FREEZE,
    statement::LARGE_TRANSACTION,
    statement::DROP_PARTITIONS,
    statement::REWRITE,
    snapshot::BY_HASH_INDEX,
    throughput::SATURATION,
    throughput::FREEZE,
    snapshot::BY_PRUNING,
    pin::BY_VACUUM,
    special::CALIBRATION,
    special::STANDBY_DOWN,
    special::CANCELLED_WAIT,
    statement::PLAIN_REWRITE,
    broken::RECEIVER,
    broken::RECEIVER_FOR_LONG,
    broken::NETWORK,
    broken::DISK,
    broken::JITTER,
    broken::FLUSH_1,
    broken::FLUSH_5,
    broken::FLUSH_40,
    statement::DROP_LARGE,
    statement::REWRITE_LARGE,
    broken::LOSS,
    statement::DROP_MANY,
];

/// All scenarios, in the order of their numbers.
#[must_use]
pub fn catalog() -> &'static [Scenario] {
    CATALOG
}

/// The scenario that `S7`, `7` or its name means, in upper or lower case.
///
/// # Errors
/// There is none; the text tells which there are.
pub fn find(text: &str) -> Result<&'static Scenario, String> {
    let wanted = text.trim().to_lowercase();
    let number = wanted.strip_prefix('s').unwrap_or(&wanted).parse::<u32>().ok();
    catalog()
        .iter()
        .find(|scenario| number == Some(scenario.number) || scenario.name.to_lowercase() == wanted)
        .ok_or_else(|| {
            let all: Vec<String> = catalog()
                .iter()
                .map(|scenario| format!("S{} ({})", scenario.number, scenario.name))
                .collect();
            format!("there is no scenario {text:?}; there are {}", all.join(", "))
        })
}
