//! What the servers of a pair are set to, and whom they admit.

use crate::{
    error::EngineError,
    generation::Generation,
    source::{
        connection::LOGIN_TRIGGERS_SINCE,
        sanitise::{self, ADMIN},
        tablespaces,
    },
};
use duramen_postgres::Settings;

/// The part of the space that the log of one server takes between two checkpoints: of half of it, two thirds.
const WAL_PART: u64 = 3;
const WAL_MIN: u64 = 64 << 20;
const WAL_MAX: u64 = 4 << 30;

/// What neither the source nor its settings decide: nothing is run that one of them names, and nothing reaches out.
const FIXED: &[(&str, &str)] = &[
    // No process of a library, and none of a subscription: both would run what the source holds.
    ("max_worker_processes", "0"),
    ("max_logical_replication_workers", "0"),
    ("session_preload_libraries", ""),
    ("local_preload_libraries", ""),
    ("dynamic_library_path", "$libdir"),
    ("archive_mode", "off"),
    ("archive_command", ""),
    ("restore_command", ""),
    ("archive_cleanup_command", ""),
    ("recovery_end_command", ""),
    ("recovery_target_timeline", "latest"),
    ("recovery_min_apply_delay", "0"),
    ("primary_conninfo", ""),
    ("primary_slot_name", ""),
    ("ssl", "off"),
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
    ("allow_system_table_mods", "off"),
];

/// The settings of both servers, for `postgresql.conf`: ALTER SYSTEM must be able to change them.
/// What the generation has is read in its snapshot, which nobody changes.
pub(super) fn of(generation: &Generation, id: &str, space: u64) -> Result<Settings, EngineError> {
    let (mut settings, _) = sanitise::carry_settings(&generation.snapshot, &generation.installation);
    settings.merge(&generation.server);
    settings.merge(&Settings::of_a_pair());
    for (name, value) in FIXED {
        settings.set(name, value);
    }
    let wal = (space / WAL_PART).clamp(WAL_MIN, WAL_MAX);
    settings.set("max_wal_size", &format!("{}MB", wal >> 20));
    // They are one cluster.
    settings.set("duramen.identity", id);
    if generation.installation.version.major >= LOGIN_TRIGGERS_SINCE {
        settings.set("event_triggers", "off");
    }
    if tablespaces::are_inside(&generation.snapshot)? {
        tablespaces::allow(&mut settings);
    }
    Ok(settings)
}

/// Who may enter: the administrator alone, and as a standby.
pub(super) fn access_rules() -> String {
    format!("local all {ADMIN} scram-sha-256\nlocal replication {ADMIN} scram-sha-256\n")
}
