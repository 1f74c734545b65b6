//! The store as a whole: `duramen store init`, `info`, `backup`, `checkpoint`, `compact`, `verify`, `repair`, `upgrade`.

use super::{elsewhere, handle::Handle, listing::several};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
    output,
    progress::Steps,
};
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(crate) fn init(handle: &Handle) -> Outcome {
    handle.init(|_, is_new| {
        let at = handle.path().display();
        let text = if is_new { format!("made a store in {at}") } else { format!("{at} is a store already") };
        handle.say(&json!({ "path": handle.path(), "made": is_new }), text)
    })
}

pub(crate) fn info(handle: &Handle) -> Outcome {
    handle.read(|store| {
        let info = store.info();
        let branch = handle.branch_name(store)?;
        // What a bucket holds is told by the tables: nothing lists it.
        let disk = (!elsewhere::is_url(handle.path())).then(|| disk_bytes(handle.path()));
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
                ("on disk", disk.map_or_else(|| "-".to_owned(), output::bytes)),
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

pub(crate) fn verify(handle: &Handle) -> Outcome {
    if handle.is_pack() {
        let pack = handle.path().display();
        return Err(Failure::Usage(format!("{pack} is a pack; verify it with `duramen pack verify {pack}`")));
    }
    handle.read(|store| {
        let all = store.info().node_bytes;
        let mut steps = Steps::new("reading all of the store");
        let verified = store.verify(&mut |bytes| steps.step(bytes.min(all), all))?;
        drop(steps);
        if handle.json {
            output::json(&json!({
                "whole": verified.is_whole(),
                "nodes": verified.nodes,
                "bytes": verified.bytes,
                "branches": verified.branches,
            }))?;
        } else {
            let (nodes, bytes) = (verified.nodes, output::bytes(verified.bytes));
            for branch in &verified.branches {
                if let Some(damage) = &branch.damage {
                    output::line(format_args!("branch {}: {damage}", branch.name));
                }
                if let Some(damage) = &branch.base_damage {
                    output::line(format_args!("merge base of branch {}: {damage}", branch.name));
                }
                if let Some(damage) = &branch.history_damage {
                    output::line(format_args!("history of branch {}: {damage}", branch.name));
                }
            }
            output::line(format_args!("{}, {bytes}, as they were written", several(nodes, "node")));
        }
        Ok(if verified.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    })
}

/// Where a backup goes.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The folder of the backup, which is made
    to: PathBuf,
    /// An earlier backup: files that are the same are linked to its own
    #[arg(long, value_name = "DIR")]
    since: Option<PathBuf>,
}

pub(crate) fn backup(handle: &Handle, backup: &Backup) -> Outcome {
    handle.refuse_if_pack()?;
    elsewhere::refuse(handle.path(), "`store backup`")?;
    let mut steps = Steps::new("copying the store");
    let made = duramen_store::Store::backup(
        handle.path(),
        &backup.to,
        backup.since.as_deref(),
        &mut |done, all| {
            steps.step(done, all);
        },
    )?;
    drop(steps);
    let (copied, linked) = (output::bytes(made.copied), output::bytes(made.linked));
    let linked = if made.linked > 0 { format!(", {linked} linked") } else { String::new() };
    let to = backup.to.display();
    handle.say(
        &made,
        format_args!("{to} holds the store up to version {}: {copied} copied{linked}", made.version),
    )
}

pub(crate) fn repair(handle: &Handle) -> Outcome {
    handle.refuse_if_read_only()?;
    handle.refuse_if_pack()?;
    elsewhere::refuse(handle.path(), "`store repair`")?;
    let Some(done) = duramen_store::Store::repair(handle.path(), handle.wait())? else {
        return handle.say(&json!({ "repaired": false }), "nothing is wrong with its log");
    };
    let json = json!({
        "repaired": true,
        "damage": done.damage,
        "kept_version": done.kept,
        "known_version": done.known,
        "old_log": done.old_log,
    });
    let lost = match done.known {
        Some(known) => format!("those after it are lost, up to version {known} at least"),
        None => "if there were later ones, they are lost".to_owned(),
    };
    let old = done.old_log.map_or_else(String::new, |old| format!("; the old log is now {}", old.display()));
    handle.say(&json, format_args!("every commit up to version {} is there; {lost}{old}", done.kept))
}

pub(crate) fn upgrade(handle: &Handle) -> Outcome {
    handle.refuse_if_read_only()?;
    elsewhere::refuse(handle.path(), "`store upgrade`")?;
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
