//! The store as a whole: `duramen store info`, `checkpoint`, `compact`, `upgrade`.

use super::handle::Handle;
use crate::{context::Outcome, failure::Failure, output};
use jiff::Timestamp;
use serde_json::json;
use std::{fs, path::Path, process::ExitCode};

pub(crate) fn info(handle: &Handle) -> Outcome {
    handle.read(|store| {
        let info = store.info();
        let branch = handle.branch_name(store)?;
        let disk = disk_bytes(handle.path());
        if handle.json {
            output::json(&json!({
                "path": handle.path(),
                "created_ms": info.created_ms,
                "version": info.version,
                "branches": info.branches,
                "branch": branch,
                "node_bytes": info.node_bytes,
                "disk_bytes": disk,
            }))?;
        } else {
            output::print(output::pairs([
                ("store", handle.path().display().to_string()),
                ("created", moment(info.created_ms)?),
                ("version", info.version.to_string()),
                ("branches", info.branches.to_string()),
                ("branch", branch),
                ("nodes", output::bytes(info.node_bytes)),
                ("on disk", output::bytes(disk)),
            ]));
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn checkpoint(handle: &Handle) -> Outcome {
    handle.needs_store()?;
    handle.write(|store| {
        store.checkpoint()?;
        let version = store.info().version;
        handle
            .say(&json!({ "version": version }), format_args!("everything up to version {version} is stored"))
    })
}

pub(crate) fn compact(handle: &Handle) -> Outcome {
    handle.needs_store()?;
    handle.write(|store| {
        let before = store.info().node_bytes;
        store.compact()?;
        let after = store.info().node_bytes;
        let (shown_before, shown_after) = (output::bytes(before), output::bytes(after));
        handle.say(
            &json!({ "before_bytes": before, "after_bytes": after }),
            format_args!("{shown_before} of nodes before, {shown_after} after"),
        )
    })
}

pub(crate) fn upgrade(handle: &Handle) -> Outcome {
    handle.refuse_if_read_only()?;
    handle.needs_store()?;
    let carried = duramen_store_legacy::upgrade(handle.path())?;
    let json = json!({ "upgraded": carried.is_some(), "nodes": carried.map(|carried| carried.nodes) });
    match carried {
        None => handle.say(&json, "it has the present format already"),
        Some(carried) => handle.say(
            &json,
            format_args!(
                "it has the present format now: {} of nodes were carried over and read again",
                output::bytes(carried.bytes)
            ),
        ),
    }
}

/// A moment that the store noted.
pub(crate) fn moment(ms: i64) -> Result<String, Failure> {
    let moment = Timestamp::from_millisecond(ms);
    moment.map(output::time).map_err(|error| Failure::Other(format!("the store noted no real time: {error}")))
}

/// Bytes that the files of a folder take, as far as they can be seen.
fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else {
        // A pack is a file.
        return fs::metadata(folder).map_or(0, |metadata| metadata.len());
    };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}
