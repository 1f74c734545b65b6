//! Where the store is, how it is opened for one command, and what every command answers with.

use super::{current, moment};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output, parse,
};
use clap::Args;
use duramen_pack::branch::BranchPack;
use duramen_store::{
    Branch, Counters, Durability, Options, Scope, Snapshot, Space, Store, StoreError, DEFAULT_SPACE,
};
use serde::Serialize;
use std::{fmt::Display, io::Write, path::PathBuf, process::ExitCode, time::Duration};

/// The options of every command of the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store options")]
pub(crate) struct Place {
    /// The store's folder, or a pack to read [default: store, in the home]
    #[arg(long, global = true, value_name = "DIR")]
    at: Option<PathBuf>,
    /// Make the store that --at names if it is not there
    #[arg(long, global = true)]
    create: bool,
    /// The branch, or a state of it to read: main@v1, main@1234, main@-5m [default: the current one, else main]
    #[arg(long, global = true, value_name = "NAME")]
    branch: Option<String>,
    /// The space, a part of the branch with keys of its own [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    space: Option<String>,
    /// When a write counts as done: memory, buffered or strict [default: buffered]
    #[arg(long, global = true, value_name = "LEVEL")]
    durability: Option<Durability>,
    /// Refuse to write anything
    #[arg(long, global = true)]
    read_only: bool,
    /// Read only what the last checkpoint holds, even if the log is lost
    #[arg(long, global = true)]
    checkpoint_only: bool,
    /// How long a command that writes waits while another process writes the store
    #[arg(long, global = true, value_name = "SPAN", value_parser = parse::span, default_value = "5s")]
    wait: Duration,
    /// Print the work that the command caused, on the standard error
    #[arg(long, global = true)]
    counters: bool,
}

/// A store that is opened when a command has all that it needs, and closed behind it.
#[derive(Debug)]
pub(crate) struct Handle {
    path: PathBuf,
    place: Place,
    /// Whether to print JSON.
    pub(crate) json: bool,
}

impl Handle {
    pub(crate) fn new(context: &Context, place: Place) -> Result<Handle, Failure> {
        let path = place.at.clone().unwrap_or_else(|| context.home.join("store"));
        if path.as_os_str().is_empty() {
            return Err(Failure::Usage("--at is empty; name a directory".to_owned()));
        }
        Ok(Handle { path, place, json: context.json })
    }

    /// The store's folder.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// How long a command waits for a process that writes the store.
    pub(crate) fn wait(&self) -> Duration {
        self.place.wait
    }

    /// Opens the store for reading: nothing is written, and a store that is not there is not made.
    pub(crate) fn read(&self, work: impl FnOnce(&Store) -> Outcome) -> Outcome {
        self.with(true, work)
    }

    /// Opens the store for writing, and makes it if it is not there.
    pub(crate) fn write(&self, work: impl FnOnce(&Store) -> Outcome) -> Outcome {
        self.refuse_if_read_only()?;
        self.refuse_if_pack()?;
        // Nobody makes a store by a slip in a name.
        if self.place.at.is_some() && !self.place.create && !Store::is_in(&self.path)? {
            return Err(Failure::Other(format!(
                "no store at {0}: create one with `duramen store init --at {0}`, or repeat the command with --create",
                self.path.display()
            )));
        }
        self.with(false, work)
    }

    /// Makes a store where there is none. Whether it was made now.
    pub(crate) fn init(&self, work: impl FnOnce(&Store, bool) -> Outcome) -> Outcome {
        self.refuse_if_read_only()?;
        self.refuse_if_pack()?;
        let is_new = !Store::is_in(&self.path)?;
        self.with(false, |store| work(store, is_new))
    }

    pub(crate) fn refuse_if_read_only(&self) -> Result<(), Failure> {
        let given =
            [(self.place.read_only, "--read-only"), (self.place.checkpoint_only, "--checkpoint-only")];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(Failure::Usage(format!("this command writes; leave out {option}"))),
            None => Ok(()),
        }
    }

    /// Whether a pack is to be read, which is a file.
    pub(crate) fn is_pack(&self) -> bool {
        self.path.is_file()
    }

    pub(crate) fn refuse_if_pack(&self) -> Result<(), Failure> {
        if !self.is_pack() {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{0} is a pack, which is never written; `duramen store import {0}` makes a branch of it in a store",
            self.path.display()
        )))
    }

    /// Refuses a store that is not there: only the first write of data makes one, and a wrong `--at` must not.
    pub(crate) fn needs_store(&self) -> Result<(), Failure> {
        self.refuse_if_pack()?;
        match Store::is_in(&self.path)? {
            true => Ok(()),
            false => Err(StoreError::StoreNotFound { path: self.path.clone() }.into()),
        }
    }

    /// As [`read`](Self::read), in the space of the branch that is meant.
    pub(crate) fn look(&self, work: impl FnOnce(Space<'_, Snapshot>) -> Outcome) -> Outcome {
        self.read(|store| {
            let snapshot = moment::snapshot(store, &self.branch_name(store)?)?;
            work(snapshot.space(self.space_name())?)
        })
    }

    /// As [`write`](Self::write), in the space of the branch that is meant.
    pub(crate) fn change(&self, work: impl FnOnce(Space<'_, Branch>) -> Outcome) -> Outcome {
        self.write(|store| self.in_space(store, work))
    }

    /// As [`change`](Self::change), where there is nothing to do without a store.
    pub(crate) fn take(&self, work: impl FnOnce(Space<'_, Branch>) -> Outcome) -> Outcome {
        self.needs_store()?;
        self.change(work)
    }

    fn in_space(&self, store: &Store, work: impl FnOnce(Space<'_, Branch>) -> Outcome) -> Outcome {
        let branch = self.branch(store)?;
        work(branch.space(self.space_name())?)
    }

    fn with(&self, read_only: bool, work: impl FnOnce(&Store) -> Outcome) -> Outcome {
        let durability = self.place.durability.unwrap_or_default();
        let checkpoint_only = self.place.checkpoint_only;
        let lock_wait = self.place.wait;
        let options = Options { durability, read_only, checkpoint_only, lock_wait, ..Options::default() };
        let store = match self.is_pack() {
            true => BranchPack::open(&self.path)?.store(options)?,
            false => Store::open(&self.path, options)?,
        };
        let outcome = work(&store);
        let closed = store.close();
        if self.place.counters {
            // Who has left hears nothing.
            let _ = write!(std::io::stderr().lock(), "{}", counted(&store.counters()));
        }
        let code = outcome?;
        closed?;
        Ok(code)
    }

    /// The name of the branch that is meant.
    pub(crate) fn branch_name(&self, store: &Store) -> Result<String, Failure> {
        match &self.place.branch {
            Some(name) => Ok(name.clone()),
            None => current::name(&self.path, store),
        }
    }

    /// The branch that is meant.
    pub(crate) fn branch(&self, store: &Store) -> Result<Branch, Failure> {
        let name = self.branch_name(store)?;
        if name.contains('@') {
            return Err(Failure::Usage(format!(
                "{name} is what a branch was; fork it to write: `duramen store branch fork NAME --from {name}`"
            )));
        }
        Ok(store.branch(&name)?)
    }

    /// The space that is meant.
    pub(crate) fn space_name(&self) -> &str {
        self.place.space.as_deref().unwrap_or(DEFAULT_SPACE)
    }

    /// The space, if one was named.
    pub(crate) fn space_given(&self) -> Option<&str> {
        self.place.space.as_deref()
    }

    /// Prints an answer in the form that was asked for.
    pub(crate) fn say(&self, value: &impl Serialize, text: impl Display) -> Outcome {
        if self.json {
            output::json(value)?;
        } else {
            output::line(text);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Says something beside the answer, on the standard error.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "note: {text}");
}

fn counted(counters: &Counters) -> String {
    output::pairs([
        ("log appends", counters.log_appends.to_string()),
        ("log writes", counters.log_writes.to_string()),
        ("log syncs", counters.log_syncs.to_string()),
        ("log bytes", counters.log_bytes.to_string()),
        ("checkpoints", counters.checkpoints.to_string()),
        ("node reads", counters.node_reads.to_string()),
        ("cache hits", counters.cache_hits.to_string()),
        ("node copies", counters.node_copies.to_string()),
        ("nodes in memory", output::bytes(counters.resident_bytes)),
    ])
}
