//! Blobs: `duramen store blob ...`.

use super::{
    handle::Handle,
    listing::{self, Counted, Keys},
};
use crate::{context::Outcome, failure::Failure};
use clap::Subcommand;
use duramen_base::words;
use duramen_store::blob::BlobInfo;
use serde_json::json;
use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

const PUT_EXAMPLES: &str = "\
Examples:
  duramen store blob put films/7 film.mp4
  tar c photos | duramen store blob put photos -";
const GET_EXAMPLES: &str = "\
Examples:
  duramen store blob get films/7 > film.mp4
  duramen store blob get photos | tar x";
const INFO_EXAMPLES: &str = "\
Examples:
  duramen store blob info films/7";
const DELETE_EXAMPLES: &str = "\
Examples:
  duramen store blob delete films/7";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store blob list --prefix films/";
const COUNT_EXAMPLES: &str = "\
Examples:
  duramen store blob count --prefix films/";

#[derive(Debug, Subcommand)]
pub(crate) enum Blob {
    /// Put a file under a key, up to 1 GiB
    #[command(after_help = PUT_EXAMPLES)]
    Put {
        /// The blob's key
        key: String,
        /// The file; `-` reads the standard input
        file: PathBuf,
    },
    /// Write a blob to the standard output
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The blob's key
        key: String,
    },
    /// Print the length and the hash of a blob
    #[command(after_help = INFO_EXAMPLES)]
    Info {
        /// The blob's key
        key: String,
    },
    /// Delete a blob
    #[command(after_help = DELETE_EXAMPLES)]
    Delete {
        /// The blob's key
        key: String,
    },
    /// List the keys of blobs
    #[command(after_help = LIST_EXAMPLES)]
    List(Keys),
    /// Count blobs
    #[command(after_help = COUNT_EXAMPLES)]
    Count(Counted),
}

pub(crate) fn run(handle: &Handle, verb: Blob) -> Outcome {
    match verb {
        Blob::Put { key, file } => {
            // Before a store is made for it.
            let reader: Box<dyn Read> = if file == Path::new("-") {
                handle.input.open()?
            } else {
                let open = File::open(&file);
                Box::new(open.map_err(|error| Failure::Other(format!("{}: {error}", file.display())))?)
            };
            handle.change(|space| tell(handle, &key, &space.blobs().put(&key, reader)?))
        }
        Blob::Get { key } => handle.look(|space| {
            let mut reader = space.blobs().open(&key)?.ok_or_else(|| no_blob(&key, space.name()))?;
            let mut out = io::stdout().lock();
            let mut buffer = vec![0; 128 << 10];
            loop {
                let len = reader.read(&mut buffer).map_err(|error| Failure::Other(error.to_string()))?;
                // A reader that has left is not an error.
                if len == 0 || out.write_all(&buffer[..len]).and_then(|()| out.flush()).is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }),
        Blob::Info { key } => handle.look(|space| {
            let info = space.blobs().info(&key)?.ok_or_else(|| no_blob(&key, space.name()))?;
            tell(handle, &key, &info)
        }),
        Blob::Delete { key } => handle.take(|space| {
            let deleted = space.blobs().delete(&key)?;
            let text = if deleted { "deleted" } else { "was not there" };
            handle.say(&json!({ "key": key, "deleted": deleted }), text)
        }),
        Blob::List(keys) => handle.look(|space| {
            listing::page(handle, &space.blobs().list(&keys.prefix, keys.after.as_deref(), keys.limit)?)
        }),
        Blob::Count(counted) => handle.look(|space| {
            let count = space.blobs().count(&counted.prefix)?;
            handle.say(&json!({ "count": count }), count)
        }),
    }
}

fn tell(handle: &Handle, key: &str, info: &BlobInfo) -> Outcome {
    let hash = info.hash_hex();
    let answer = json!({ "key": key, "bytes": info.bytes, "blake3": hash });
    handle.say(&answer, format_args!("{}, blake3 {hash}", words::bytes(info.bytes)))
}

fn no_blob(key: &str, space: &str) -> Failure {
    let hint = "list the blobs with `duramen store blob list`";
    Failure::Other(format!("there is no blob {key:?} in space {space:?}; {hint}"))
}
