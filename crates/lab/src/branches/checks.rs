//! What must hold for the figures to mean anything: every branch worked, the source is as it was, nothing is
//! left.

use std::fs;
use std::path::{Path, PathBuf};

use duramen_api::model::{SourceFingerprint, Status};

/// Whether the live source is the same, and what was seen in words: contents by hash, rows written by the
/// server's statistics, and how far the write position moved.
#[must_use]
pub(crate) fn compare_fingerprints(before: &SourceFingerprint, after: &SourceFingerprint) -> (bool, String) {
    let mut differences: Vec<String> = Vec::new();
    for (name, content) in &before.contents {
        match after.contents.get(name) {
            None => differences.push(format!("{name} is gone")),
            Some(now) if now != content => {
                differences.push(format!("{name} differs ({} before, {} after)", content.count, now.count));
            }
            Some(_) => {}
        }
    }
    let added = after.contents.keys().filter(|name| !before.contents.contains_key(*name));
    differences.extend(added.map(|name| format!("{name} is new")));
    if let Some((name, why)) = after.left_out.first_key_value().filter(|_| after.contents.is_empty()) {
        differences.push(format!("nothing was read ({name}: {why})"));
    }
    if differences.is_empty() && before.content_hash != after.content_hash {
        differences.push("the hash over all contents differs".to_owned());
    }
    match (before.rows_written, after.rows_written) {
        (Some(before), Some(after)) if before != after => {
            // The counters may have been reset in between, so either may be the greater.
            let written = i128::from(after) - i128::from(before);
            differences.push(format!("{written} rows were written"));
        }
        (before, after) if before.is_some() != after.is_some() => {
            differences.push("the server's statistics are missing in one of the two".to_owned());
        }
        _ => {}
    }
    let position = position_moved(&before.write_position, &after.write_position);
    if differences.is_empty() {
        let items = after.contents.len();
        let rows = if after.rows_written.is_some() { ", 0 rows written" } else { "" };
        (true, format!("{items} tables or files with equal hashes{rows}; {position}"))
    } else {
        (false, format!("{}; {position}", differences.join("; ")))
    }
}

fn position_moved(before: &str, after: &str) -> String {
    match (wal_bytes(before), wal_bytes(after)) {
        (Some(from), Some(to)) if from == to => format!("the write position stayed at {after}"),
        (Some(from), Some(to)) => {
            let moved = i128::from(to) - i128::from(from);
            format!(
                "the write position moved by {moved} bytes, {before} to {after}, which a server does by itself \
                 (checkpoints, snapshots of running transactions)"
            )
        }
        _ => "the source does not run, so it has no write position".to_owned(),
    }
}

/// A WAL location such as `0/16B3748` as a number of bytes.
fn wal_bytes(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    Some(u64::from_str_radix(high, 16).ok()? << 32 | u64::from(u32::from_str_radix(low, 16).ok()?))
}

/// What a run left behind, in words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leftovers(Vec<String>);

impl Leftovers {
    /// Adds what was found.
    pub(crate) fn add(&mut self, found: impl IntoIterator<Item = String>) {
        self.0.extend(found);
    }

    /// Looks at a settled daemon: it must hold the leases that it held before, and have nothing to delete.
    pub(crate) fn look_at(&mut self, status: &Status, leases_before: u32) {
        if status.leases > leases_before {
            self.0.push(format!("{} leases", status.leases - leases_before));
        }
        if status.to_delete > 0 {
            self.0.push(format!("{} branches that wait to be deleted", status.to_delete));
        }
    }

    /// The check's outcome. `looked` says where it was looked.
    #[must_use]
    pub(crate) fn outcome(&self, looked: &str) -> (bool, String) {
        if self.0.is_empty() {
            (true, format!("nothing: {looked}"))
        } else {
            (false, self.0.join("; "))
        }
    }
}

/// What a stopped daemon left in its home: processes that work below its volumes, file systems mounted there,
/// and directories of branches.
#[must_use]
pub(crate) fn left_in_home(home: &Path) -> Vec<String> {
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    let volumes = home.join("volumes");
    let mut found: Vec<String> =
        processes_below(&volumes).into_iter().map(|pid| format!("the process {pid}")).collect();
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = mounted_below(&String::from_utf8_lossy(&table), &volumes);
    found.extend(mounts.into_iter().map(|point| format!("a file system mounted at {point}")));
    found.extend(
        branch_directories(&volumes).into_iter().map(|dir| format!("the directory {}", dir.display())),
    );
    found
}

/// Processes whose working directory is `dir` or below it, as that of a server is its data directory.
fn processes_below(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let cwd = fs::read_link(entry.path().join("cwd")).ok()?;
            cwd.starts_with(dir).then_some(pid)
        })
        .collect()
}

/// The mount points at or below `dir` in the text of a `mountinfo` (proc_pid_mountinfo(5)).
#[must_use]
pub(crate) fn mounted_below(mountinfo: &str, dir: &Path) -> Vec<String> {
    // The table escapes these four characters; the path is written the same way to be compared.
    let escaped = dir.display().to_string().replace('\\', "\\134").replace(' ', "\\040");
    let escaped = escaped.replace('\t', "\\011").replace('\n', "\\012");
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    points.filter(|point| Path::new(point).starts_with(&escaped)).map(str::to_owned).collect()
}

/// Directories of branches, and of imports that did not end.
fn branch_directories(volumes: &Path) -> Vec<PathBuf> {
    let below = |name: &str| fs::read_dir(volumes.join(name)).into_iter().flatten().flatten();
    ["branches", "imports"].into_iter().flat_map(below).map(|entry| entry.path()).collect()
}
