//! The embedded store: `duramen store ...`. One noun a file; the handle opens and closes the store for all of them.

mod blob;
pub(crate) mod branch;
mod current;
mod elsewhere;
mod event;
mod handle;
mod history;
mod index;
pub(crate) mod input;
mod interrupt;
mod json;
pub(crate) mod kv;
pub(crate) mod listing;
mod moment;
mod pack;
mod parquet;
mod rows;
mod session;
mod shell;
mod space;
mod state;
pub(crate) mod upkeep;
mod value;
mod vector;
mod watch;

use crate::{
    context::{Context, Outcome},
    failure::Failure,
};
use clap::{Args, Subcommand};
use duramen_store::StoreError;
use handle::{Handle, Place};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen store kv put greeting hello           the store is made in the home by the first write
  duramen store branch fork try --ttl 1h        a copy that shares everything
  duramen store kv put greeting hi --branch try
  duramen store branch diff main try
  duramen store branch merge try
  duramen store info --at ./elsewhere           a store in another folder
  duramen store info --at s3://bucket/path      a store in object storage";

const KV_EXAMPLES: &str = "\
Examples:
  duramen store kv put user:1 Ada
  duramen store kv get user:1";
const BLOB_EXAMPLES: &str = "\
Examples:
  duramen store blob put films/7 film.mp4
  duramen store blob get films/7 > film.mp4";
const STATE_EXAMPLES: &str = "\
Examples:
  duramen store state init leader alice
  duramen store state cas leader bob --expect 1";
const EVENT_EXAMPLES: &str = "\
Examples:
  duramen store event append login '{\"user\": 1}'
  duramen store event range --limit 10";
const JSON_EXAMPLES: &str = "\
Examples:
  duramen store json set user:1 '$' '{\"name\": \"Ada\"}'
  duramen store json get user:1 name";
const VECTOR_EXAMPLES: &str = "\
Examples:
  duramen store vector create words --dimension 3
  duramen store vector upsert words oak '[1, 0, 0]'
  duramen store vector search words '[0.9, 0.1, 0]' --k 5";
const INDEX_EXAMPLES: &str = "\
Examples:
  duramen store index create by-state state at
  duramen store json find 'state = open' --order at --limit 10";
const SPACE_EXAMPLES: &str = "\
Examples:
  duramen store kv put greeting moin --space tenant-7
  duramen store space list";
const BRANCH_EXAMPLES: &str = "\
Examples:
  duramen store branch fork try
  duramen store branch switch try
  duramen store branch merge try --into main";
const HISTORY_EXAMPLES: &str = "\
Examples:
  duramen store history keep                       each commit of the branch
  duramen store history key greeting
  duramen store kv get greeting --branch main@-5m";
const TAG_EXAMPLES: &str = "\
Examples:
  duramen store tag create v1
  duramen store branch diff main@v1 main";
const WATCH_EXAMPLES: &str = "\
Examples:
  duramen store watch                              until it is interrupted
  duramen store watch --kind kv --prefix user: --json
  duramen store watch --from v1 --count 1          what changed since the tag, at once";
const EXPORT_EXAMPLES: &str = "\
Examples:
  duramen store export main.dpack
  duramen store export monday.dpack --base main.dpack      only what changed since
  duramen store kv get greeting --at main.dpack            read it in place";
const IMPORT_EXAMPLES: &str = "\
Examples:
  duramen store import main.dpack --as theirs
  duramen store import monday.dpack --as theirs --base main.dpack";
const BACKUP_EXAMPLES: &str = "\
Examples:
  duramen store backup /backups/monday
  duramen store backup /backups/tuesday --since /backups/monday    what is the same is linked, not copied
  duramen store kv get greeting --at /backups/monday               a backup is a store";
const INFO_EXAMPLES: &str = "\
Examples:
  duramen store info
  duramen store info --at ./elsewhere --json";
const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  duramen store checkpoint         store what changed and release the log before it";
const COMPACT_EXAMPLES: &str = "\
Examples:
  duramen store compact            a checkpoint that also gives back what no branch needs";
const SHELL_EXAMPLES: &str = "\
Examples:
  duramen store shell                               Tab completes, \\help lists the commands
  duramen store shell --read-only                   beside a process that writes
  duramen store shell < lines.txt                   ends at the first line that fails
  echo 'kv get greeting' | duramen store shell --json";
const INIT_EXAMPLES: &str = "\
Examples:
  duramen store init               in the home; the first write makes it there, too
  duramen store init --at ./data";
const VERIFY_EXAMPLES: &str = "\
Examples:
  duramen store verify             exit status 1 if something is damaged
  duramen store verify --json --at ./copy";
const REPAIR_EXAMPLES: &str = "\
Examples:
  duramen store repair             the old log is kept, as log.lost in the store's folder";
const UPGRADE_EXAMPLES: &str = "\
Examples:
  duramen store upgrade            the store in the home, if version 0.1 wrote it
  duramen store upgrade --at ./elsewhere";

#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Key-value pairs
    #[command(subcommand, after_help = KV_EXAMPLES)]
    Kv(kv::Kv),
    /// Blobs: values of up to 1 GiB, written and read as streams
    #[command(subcommand, after_help = BLOB_EXAMPLES)]
    Blob(blob::Blob),
    /// State cells: values with versions, for compare-and-swap
    #[command(subcommand, after_help = STATE_EXAMPLES)]
    State(state::State),
    /// The event log: appended, numbered, chained by hashes
    #[command(subcommand, after_help = EVENT_EXAMPLES)]
    Event(event::Event),
    /// JSON documents
    #[command(subcommand, after_help = JSON_EXAMPLES)]
    Json(json::Json),
    /// Vector collections, with exact search
    #[command(subcommand, after_help = VECTOR_EXAMPLES)]
    Vector(vector::Vector),
    /// Indexes on documents and pairs, for `find`
    #[command(subcommand, after_help = INDEX_EXAMPLES)]
    Index(index::Index),
    /// Spaces: parts of a branch with keys of their own
    #[command(subcommand, after_help = SPACE_EXAMPLES)]
    Space(space::Space),
    /// Branches: fork, compare, merge, delete
    #[command(subcommand, after_help = BRANCH_EXAMPLES)]
    Branch(branch::Branch),
    /// What the branch was: states that are retained, and how keys changed
    #[command(subcommand, after_help = HISTORY_EXAMPLES)]
    History(history::History),
    /// Names of states, which are retained as long as they have one
    #[command(subcommand, after_help = TAG_EXAMPLES)]
    Tag(history::Tag),
    /// Print what changes, as it is written by this or another process
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(watch::Watch),
    /// Write the branch into a pack: one compressed, verified file
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(pack::Export),
    /// Make a branch from a pack
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(pack::Import),
    /// Open the store once, and run commands on it line by line
    #[command(after_help = SHELL_EXAMPLES)]
    Shell(shell::Shell),
    /// Make a store where there is none, in a folder that is empty or not there
    #[command(after_help = INIT_EXAMPLES)]
    Init,
    /// Copy the store into another folder as it is at one moment, also while it is written
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(upkeep::Backup),
    /// Show information about the store
    #[command(after_help = INFO_EXAMPLES)]
    Info,
    /// Make a checkpoint
    #[command(after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint,
    /// Make a checkpoint and free the space that no branch needs
    #[command(after_help = COMPACT_EXAMPLES)]
    Compact,
    /// Read all of it, and tell what is damaged; exit status 1 if something is
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify,
    /// Put a store in order of whose log something is missing or broken, and tell what is lost
    #[command(after_help = REPAIR_EXAMPLES)]
    Repair,
    /// Bring a store that version 0.1 wrote to the present format
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade,
}

pub(crate) fn run(context: &Context, store: Store) -> Outcome {
    let handle = Handle::new(context, store.place)?;
    match store.noun {
        Noun::Shell(shell) => shell::run(handle, &shell),
        noun => run_on(&handle, noun),
    }
}

/// Runs a command, on a store of its own or on that of a shell.
fn run_on(handle: &Handle, noun: Noun) -> Outcome {
    match noun {
        Noun::Kv(verb) => kv::run(handle, verb),
        Noun::Blob(verb) => blob::run(handle, verb),
        Noun::State(verb) => state::run(handle, verb),
        Noun::Event(verb) => event::run(handle, verb),
        Noun::Json(verb) => json::run(handle, verb),
        Noun::Vector(verb) => vector::run(handle, verb),
        Noun::Index(verb) => index::run(handle, verb),
        Noun::Space(verb) => space::run(handle, verb),
        Noun::Branch(verb) => branch::run(handle, verb),
        Noun::History(verb) => history::run(handle, verb),
        Noun::Tag(verb) => history::tag(handle, verb),
        Noun::Watch(watch) => watch::run(handle, &watch),
        Noun::Export(export) => pack::export(handle, &export),
        Noun::Import(import) => pack::import(handle, &import),
        Noun::Shell(_) => Err(Failure::Usage("this is a shell already".to_owned())),
        Noun::Init => upkeep::init(handle),
        Noun::Backup(backup) => upkeep::backup(handle, &backup),
        Noun::Info => upkeep::info(handle),
        Noun::Checkpoint => upkeep::checkpoint(handle),
        Noun::Compact => upkeep::compact(handle),
        Noun::Verify => upkeep::verify(handle),
        Noun::Repair => upkeep::repair(handle),
        Noun::Upgrade => upkeep::upgrade(handle),
    }
}

/// The store's own words, with the options of this command where those fix it.
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Other(match &error {
            StoreError::StoreNotFound { path } => {
                format!(
                    "there is no store at {}; the first write makes one, and --at names another",
                    path.display()
                )
            }
            StoreError::MergeConflict { .. } => {
                format!("{error}; `--dry-run` lists them, `--strategy ours` or `theirs` decides them")
            }
            StoreError::BranchNotFound { hint: None, .. } => {
                format!("{error}; list the branches with `duramen store branch list`")
            }
            StoreError::CollectionNotFound { hint: None, .. } => {
                format!("{error}; list the collections with `duramen store vector collections`")
            }
            StoreError::VersionConflict { key, expected, actual } => {
                let at = |version: &Option<u64>| match version {
                    Some(version) => format!("at version {version}"),
                    None => "not there".to_owned(),
                };
                let wanted =
                    expected.map_or_else(|| "none".to_owned(), |version| format!("version {version}"));
                format!("cell {key:?} is {}, and {wanted} was expected; read it again and retry", at(actual))
            }
            StoreError::NotRetained { name, asked, oldest } => {
                let asked = moment::said(asked);
                let then = oldest.map_or_else(
                    || "`duramen store history keep` retains what comes from now on".to_owned(),
                    |version| format!("the oldest state is that of version {version}"),
                );
                format!("nothing of branch {name:?} is retained at {asked}; {then}")
            }
            StoreError::Legacy { path } => format!(
                "{0} was written by version 0.1; `duramen store upgrade --at {0}` brings it to the present format, and keeps \
                 all that is in it",
                path.display()
            ),
            _ => error.to_string(),
        })
    }
}
