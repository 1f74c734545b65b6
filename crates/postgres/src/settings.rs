//! Server settings, and quoting for the places that they are written to.

use std::collections::BTreeMap;

/// Settings of one server: names to values, rendered into `postgresql.conf` or `-c name=value` arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, String>);

/// A disposable server that starts fast and is small: nothing is flushed, no optional process runs, few
/// descriptors are probed at start. Measured against the defaults this halves the time from a clone to the
/// first query.
const MINIMAL: &[(&str, &str)] = &[
    ("listen_addresses", ""),
    ("fsync", "off"),
    // Without flushing it costs one write to the operating system a commit, and what was acknowledged survives the
    // end of its server.
    ("synchronous_commit", "on"),
    ("full_page_writes", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("max_replication_slots", "0"),
    ("max_logical_replication_workers", "0"),
    ("max_worker_processes", "0"),
    ("max_parallel_workers", "0"),
    ("max_parallel_workers_per_gather", "0"),
    ("autovacuum", "off"),
    ("jit", "off"),
    ("shared_buffers", "16MB"),
    ("wal_buffers", "256kB"),
    ("wal_init_zero", "off"),
    ("wal_recycle", "off"),
    ("max_connections", "20"),
    ("superuser_reserved_connections", "2"),
    ("max_files_per_process", "64"),
    ("huge_pages", "off"),
    ("dynamic_shared_memory_type", "posix"),
    ("bgwriter_lru_maxpages", "0"),
    ("checkpoint_timeout", "1d"),
    ("max_wal_size", "1GB"),
    ("archive_mode", "off"),
    ("logging_collector", "off"),
    ("log_checkpoints", "off"),
    ("update_process_title", "off"),
    // A statement whose client is gone ends within this time.
    ("client_connection_check_interval", "2s"),
    ("max_pred_locks_per_transaction", "10"),
];

/// From PostgreSQL 18 on: no worker processes for I/O, and no more than one operation in flight.
const MINIMAL_18: &[(&str, &str)] = &[("io_method", "sync"), ("io_max_concurrency", "1")];

/// What a primary and its standby that are measured are set to, beside what a new cluster has. The standby must have as many
/// sessions, slots and senders as the primary.
const PAIR: &[(&str, &str)] = &[
    // Nobody is to reach the servers but through sockets in the private folder.
    ("listen_addresses", ""),
    // Nothing around us is to make commits less durable than they are said to be.
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("synchronous_standby_names", "*"),
    ("wal_level", "logical"),
    ("max_wal_senders", "10"),
    ("max_replication_slots", "10"),
    ("max_connections", "200"),
    ("shared_buffers", "256MB"),
    // The scenarios decide when tables are vacuumed: an autovacuum in between would be a conflict that nobody asked for.
    ("autovacuum", "off"),
    // They decide when there are checkpoints, too.
    ("checkpoint_timeout", "1h"),
    ("max_wal_size", "4GB"),
    ("hot_standby", "on"),
    ("log_recovery_conflict_waits", "on"),
    // Its timer goes on in standbys and cuts short the pauses in which a startup process waits for snapshots to end.
    ("log_startup_progress_interval", "0"),
    // What the primary knows of the standby is no older than this while nothing is written.
    ("wal_receiver_status_interval", "1s"),
    // A standby that finds no primary (it is starting too, or the way to it changes) tries again at once, not after 5 s.
    ("wal_retrieve_retry_interval", "100ms"),
    ("timezone", "UTC"),
];

impl Settings {
    /// No settings.
    #[must_use]
    pub fn new() -> Settings {
        Settings::default()
    }

    /// The settings of a disposable branch under a server of one major version: fast to start, small, **not
    /// durable** (`fsync=off`).
    #[must_use]
    pub fn minimal(major: u32) -> Settings {
        let mut settings = Settings::new();
        let newer: &[(&str, &str)] = if major >= 18 { MINIMAL_18 } else { &[] };
        for (name, value) in MINIMAL.iter().chain(newer) {
            settings.set(name, value);
        }
        settings
    }

    /// The settings of a primary and its standby that are measured. They belong into `postgresql.conf`, where ALTER SYSTEM can
    /// change them.
    #[must_use]
    pub fn of_a_pair() -> Settings {
        let mut settings = Settings::new();
        for (name, value) in PAIR {
            settings.set(name, value);
        }
        settings
    }

    /// Turns flushing back on: an acknowledged commit survives a crash of the machine as far as the volume
    /// below keeps what it was told to flush.
    #[must_use]
    pub fn durable(mut self) -> Settings {
        for (name, value) in [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")] {
            self.set(name, value);
        }
        self
    }

    /// Sets one value, replacing an earlier one.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Settings {
        self.0.insert(name.to_ascii_lowercase(), value.to_owned());
        self
    }

    /// One value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// Adds every setting of `other`, which wins.
    pub fn merge(&mut self, other: &Settings) -> &mut Settings {
        self.0.extend(other.0.iter().map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// Names and values in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The text of a `postgresql.conf`.
    #[must_use]
    pub fn to_conf(&self) -> String {
        self.iter().map(|(name, value)| format!("{name} = {}\n", quote_literal(value))).collect()
    }

    /// Server arguments: `-c name=value` pairs.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        self.iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]).collect()
    }

    /// Reads the plain `name = value` lines of a `postgresql.conf`; the last of a repeated name wins, as in
    /// the server. Includes are not followed: the caller imports settings by name and misses nothing it needs.
    #[must_use]
    pub fn from_conf(text: &str) -> Settings {
        let mut settings = Settings::new();
        for line in text.lines() {
            let line = line.trim();
            let name_end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
            let Some(name_end) = name_end.filter(|&end| end > 0) else { continue };
            let (name, rest) = line.split_at(name_end);
            let rest = rest.trim_start();
            let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
            let value = match rest.strip_prefix('\'') {
                Some(quoted) => unquote(quoted),
                None => rest.split(|c: char| c == '#' || c.is_whitespace()).next().unwrap_or("").to_owned(),
            };
            settings.set(name, &value);
        }
        settings
    }
}

/// The inside of a quoted value, up to its closing quote; `''` and `\'` stand for a quote.
fn unquote(quoted: &str) -> String {
    let mut value = String::new();
    let mut chars = quoted.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' if chars.peek() == Some(&'\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => break,
            '\\' => value.extend(chars.next()),
            other => value.push(other),
        }
    }
    value
}

/// An SQL (and `postgresql.conf`) string literal. Backslashes are doubled in an `E` string so that the
/// result does not depend on `standard_conforming_strings`.
#[must_use]
pub fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// A value of a libpq connection string.
#[must_use]
pub fn quote_parameter(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// An SQL identifier in quotes.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
