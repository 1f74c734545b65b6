//! Where the store is, how a command gets at it, and what every command answers with.

use super::{
    current,
    elsewhere::{self, Remote},
    input::Input,
    moment,
    session::Session,
};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output, parse,
};
use clap::Args;
use duramen_pack::branch::BranchPack;
use duramen_store::{
    Branch, Counters, Durability, Follower, Options, Scope, Snapshot, Space, Store, StoreError, DEFAULT_SPACE,
};
use serde::Serialize;
use std::{
    fmt::Display,
    path::{Path, PathBuf},
    process::ExitCode,
    rc::Rc,
    time::Duration,
};

/// The options of every command of the store.
#[derive(Debug, Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) opening: Opening,
    #[command(flatten)]
    pub(crate) meant: Meant,
}

/// Which store is opened, and how. A shell has opened it when it reads its lines, so they have none of these options.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Store options")]
pub(crate) struct Opening {
    /// The store's folder, its URL (s3://bucket/path), or a pack to read [default: store, in the home]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) at: Option<PathBuf>,
    /// Make the store that --at names if it is not there
    #[arg(long, global = true)]
    pub(crate) create: bool,
    /// When a write counts as done: memory, buffered or strict [default: buffered]
    #[arg(long, global = true, value_name = "LEVEL")]
    durability: Option<Durability>,
    /// Read only what the last checkpoint holds, even if the log is lost
    #[arg(long, global = true)]
    checkpoint_only: bool,
    /// How long a command that writes waits while another process writes the store
    #[arg(long, global = true, value_name = "SPAN", value_parser = parse::span, default_value = "5s")]
    wait: Duration,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// What is meant in the store, and how the command behaves.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Store options")]
pub(crate) struct Meant {
    /// The branch, or a state of it to read: main@v1, main@1234, main@-5m [default: the current one, else main]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// The space, a part of the branch with keys of its own [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) space: Option<String>,
    /// Refuse to write anything
    #[arg(long, global = true)]
    pub(crate) read_only: bool,
    /// Print the work that the command caused, on the standard error
    #[arg(long, global = true)]
    pub(crate) counters: bool,
}

impl Opening {
    /// Opens a store in a folder or at a URL. Packs are opened elsewhere.
    pub(crate) fn open(&self, path: &Path, read_only: bool) -> Result<Store, Failure> {
        let options = self.options(read_only);
        match elsewhere::is_url(path) {
            true => elsewhere::open(path, options, &self.remote),
            false => Ok(Store::open(path, options)?),
        }
    }

    /// Opens it to be read on.
    pub(crate) fn follow(&self, path: &Path, options: Options) -> Result<Follower, Failure> {
        match elsewhere::is_url(path) {
            true => elsewhere::follow(path, options, &self.remote),
            false => Ok(Follower::open(path, options)?),
        }
    }

    /// Whether there is a store.
    fn finds(&self, path: &Path) -> Result<bool, Failure> {
        match elsewhere::is_url(path) {
            true => elsewhere::exists(path, &self.remote),
            false => Ok(Store::is_in(path)?),
        }
    }

    pub(crate) fn is_checkpoint_only(&self) -> bool {
        self.checkpoint_only
    }

    /// How the store is opened.
    pub(crate) fn options(&self, read_only: bool) -> Options {
        Options {
            durability: self.durability.unwrap_or_default(),
            read_only,
            checkpoint_only: self.checkpoint_only,
            lock_wait: self.wait,
            ..Options::default()
        }
    }
}

/// How a command comes to its store.
#[derive(Debug)]
enum Held {
    /// It is opened when the command has all that it needs, and closed behind it.
    Anew(Opening),
    /// A shell has it open, and keeps it so.
    Open(Rc<Session>),
}

/// The store of a command, and what is meant in it.
#[derive(Debug)]
pub(crate) struct Handle {
    path: PathBuf,
    held: Held,
    meant: Meant,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Where the command reads what it is fed with.
    pub(crate) input: Input,
}

impl Handle {
    pub(crate) fn new(context: &Context, place: Place) -> Result<Handle, Failure> {
        let Place { opening, meant } = place;
        let path = opening.at.clone().unwrap_or_else(|| context.home.join("store"));
        if path.as_os_str().is_empty() {
            return Err(Failure::Usage("--at is empty; name a directory".to_owned()));
        }
        let held = Held::Anew(opening);
        Ok(Handle { path, held, meant, json: context.json, input: Input::Standard })
    }

    /// For a line of a shell, which may say what it means other than the shell does.
    pub(crate) fn in_session(session: &Rc<Session>, meant: Meant, json: bool, input: Input) -> Handle {
        let space = meant.space.or_else(|| session.chosen().space);
        let (path, held) = (session.path().to_owned(), Held::Open(Rc::clone(session)));
        Handle { path, held, meant: Meant { space, ..meant }, json, input }
    }

    /// The store's folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a store. One that is open is there.
    fn finds(&self) -> Result<bool, Failure> {
        match &self.held {
            Held::Anew(opening) => opening.finds(&self.path),
            Held::Open(_) => Ok(true),
        }
    }

    /// Opens the store to be read on.
    pub(crate) fn follow(&self, options: Options) -> Result<Follower, Failure> {
        match &self.held {
            Held::Anew(opening) => opening.follow(&self.path, options),
            Held::Open(session) => session.follow(options),
        }
    }

    /// How long a command waits for a process that writes the store.
    pub(crate) fn wait(&self) -> Duration {
        match &self.held {
            Held::Anew(opening) => opening.wait,
            Held::Open(_) => Duration::ZERO,
        }
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
        match &self.held {
            Held::Anew(opening) if opening.at.is_some() && !opening.create => self.refuse_if_missing()?,
            Held::Anew(_) | Held::Open(_) => {}
        }
        self.with(false, work)
    }

    /// Refuses a store that is not there, and that nobody said to make.
    pub(crate) fn refuse_to_make(&self) -> Result<(), Failure> {
        match &self.held {
            Held::Anew(opening) if !opening.create && !self.is_pack() => self.refuse_if_missing(),
            Held::Anew(_) | Held::Open(_) => Ok(()),
        }
    }

    /// Whether the work of commands is counted.
    pub(crate) fn counts(&self) -> bool {
        self.meant.counters
    }

    /// Refuses a store that is not there, and says how it is made.
    fn refuse_if_missing(&self) -> Result<(), Failure> {
        if self.finds()? {
            return Ok(());
        }
        Err(Failure::Other(format!(
            "no store at {0}: create one with `duramen store init --at {0}`, or repeat the command with --create",
            self.path.display()
        )))
    }

    /// Makes a store where there is none. Whether it was made now.
    pub(crate) fn init(&self, work: impl FnOnce(&Store, bool) -> Outcome) -> Outcome {
        self.refuse_if_read_only()?;
        self.refuse_if_pack()?;
        let is_new = !self.finds()?;
        self.with(false, |store| work(store, is_new))
    }

    pub(crate) fn refuse_if_read_only(&self) -> Result<(), Failure> {
        let option = match &self.held {
            _ if self.meant.read_only => "--read-only",
            Held::Anew(opening) if opening.checkpoint_only => "--checkpoint-only",
            Held::Open(session) if session.is_read_only() => {
                let reason = "this command writes, and the shell was started to read only; start one without that option";
                return Err(Failure::Usage(reason.to_owned()));
            }
            Held::Anew(_) | Held::Open(_) => return Ok(()),
        };
        Err(Failure::Usage(format!("this command writes; leave out {option}")))
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
        match self.finds()? {
            true => Ok(()),
            false => Err(StoreError::StoreNotFound { path: self.path.clone() }.into()),
        }
    }

    /// As [`read`](Self::read), the state of the branch that is meant.
    pub(crate) fn see(&self, work: impl FnOnce(&Snapshot) -> Outcome) -> Outcome {
        self.read(|store| work(&moment::snapshot(store, &self.branch_name(store)?)?))
    }

    /// As [`see`](Self::see), in the space that is meant.
    pub(crate) fn look(&self, work: impl FnOnce(Space<'_, Snapshot>) -> Outcome) -> Outcome {
        self.see(|snapshot| work(snapshot.space(self.space_name())?))
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
        let opening = match &self.held {
            Held::Anew(opening) => opening,
            Held::Open(session) => {
                let store = session.store()?;
                let before = store.counters();
                let outcome = work(&store);
                if self.meant.counters {
                    output::told(counted(&since(&before, &store.counters())));
                }
                return outcome;
            }
        };
        let store = match self.is_pack() {
            true => BranchPack::open(&self.path)?.store(opening.options(read_only))?,
            false => opening.open(&self.path, read_only)?,
        };
        let outcome = work(&store);
        let closed = store.close();
        if self.meant.counters {
            output::told(counted(&store.counters()));
        }
        let code = outcome?;
        closed?;
        Ok(code)
    }

    /// Opens the store for the lines of a shell.
    pub(crate) fn keep_open(self) -> Result<Session, Failure> {
        let Handle { path, held, meant, .. } = self;
        match held {
            Held::Anew(opening) => Session::open(path, &opening, meant),
            Held::Open(_) => Err(Failure::Usage("this is a shell already".to_owned())),
        }
    }

    /// The branch that is meant by whoever names none.
    pub(crate) fn current(&self, store: &Store) -> Result<String, Failure> {
        match &self.held {
            Held::Anew(_) => current::name(&self.path, store),
            Held::Open(session) => session.current(store),
        }
    }

    /// The name of the branch that is meant.
    pub(crate) fn branch_name(&self, store: &Store) -> Result<String, Failure> {
        match &self.meant.branch {
            Some(name) => Ok(name.clone()),
            None => self.current(store),
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
        self.meant.space.as_deref().unwrap_or(DEFAULT_SPACE)
    }

    /// The space, if one was named.
    pub(crate) fn space_given(&self) -> Option<&str> {
        self.meant.space.as_deref()
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
    output::told(format_args!("note: {text}\n"));
}

/// What was done between two counts. The memory that is held is that of now.
fn since(before: &Counters, after: &Counters) -> Counters {
    // A reader that was opened anew meanwhile counts from nothing again.
    let less = |count: fn(&Counters) -> u64| count(after).saturating_sub(count(before));
    Counters {
        log_appends: less(|c| c.log_appends),
        log_writes: less(|c| c.log_writes),
        log_syncs: less(|c| c.log_syncs),
        log_bytes: less(|c| c.log_bytes),
        log_sync_ns: less(|c| c.log_sync_ns),
        checkpoints: less(|c| c.checkpoints),
        node_reads: less(|c| c.node_reads),
        cache_hits: less(|c| c.cache_hits),
        node_copies: less(|c| c.node_copies),
        resident_bytes: after.resident_bytes,
    }
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
