//! JSON documents: `duramen store json ...`.

use super::{
    handle::Handle,
    index::Find,
    listing::{self, Counted, Keys},
    rows,
};
use crate::{context::Outcome, failure::Failure, output};
use clap::Subcommand;
use duramen_store::json::{JsonError, Path};
use duramen_store::StoreError;
use serde_json::json;
use std::{process::ExitCode, str::FromStr};

const SET_EXAMPLES: &str = "\
Examples:
  duramen store json set user:1 '$' '{\"name\": \"Ada\", \"tags\": []}'
  duramen store json set user:1 '$.tags[0]' '\"admin\"'      only this place is written
  duramen store json set user:1 '$' - < user.json";
const GET_EXAMPLES: &str = "\
Examples:
  duramen store json get user:1
  duramen store json get user:1 '$.tags[0]'";
const DELETE_EXAMPLES: &str = "\
Examples:
  duramen store json delete user:1 tags
  duramen store json delete user:1                         the whole document";
const PATCH_EXAMPLES: &str = "\
Examples:
  duramen store json patch user:1 '{\"name\": \"Eva\", \"tags\": null}'";
const FIND_EXAMPLES: &str = "\
Examples:
  duramen store json find 'state = open and at > 100' --order at --limit 10
  duramen store json find 'state = open' --explain         which index it goes through";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store json list --prefix user: --limit 10";
const SCAN_EXAMPLES: &str = "\
Examples:
  duramen store json scan > documents.jsonl                      load reads it again
  duramen store json scan --format csv --fields name,address.city
  duramen store json scan --parquet documents.parquet            for DuckDB, Polars and others";
const LOAD_EXAMPLES: &str = "\
Examples:
  duramen store json load < documents.jsonl                      lines like {\"key\": \"user:1\", \"value\": {\"name\": \"Ada\"}}
  duramen store json load --key id --prefix user: < users.jsonl  the documents themselves
  duramen store json load --format csv --key id --infer < users.csv
  duramen store json load --parquet users.parquet --key id";
const COUNT_EXAMPLES: &str = "\
Examples:
  duramen store json count --prefix user:";

#[derive(Debug, Subcommand)]
pub(crate) enum Json {
    /// Set a part of a document; missing parents are created
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The document's key
        key: String,
        /// The path: `$` for the whole document, `$.a.b[0]` or `a.b[0]` for a part
        #[arg(value_parser = Path::from_str)]
        path: Path,
        /// JSON; `-` reads it from the standard input
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print a document, or a part of it
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The document's key
        key: String,
        /// The path [default: the whole document]
        #[arg(value_parser = Path::from_str)]
        path: Option<Path>,
    },
    /// Delete a document, or a part of it
    #[command(after_help = DELETE_EXAMPLES)]
    Delete {
        /// The document's key
        key: String,
        /// The path [default: the whole document]
        #[arg(value_parser = Path::from_str)]
        path: Option<Path>,
    },
    /// Change a document with a merge patch (RFC 7396): null removes a member
    #[command(after_help = PATCH_EXAMPLES)]
    Patch {
        /// The document's key
        key: String,
        /// The patch, JSON; `-` reads it from the standard input
        patch: String,
    },
    /// Print the documents that fulfil a filter, with their keys
    #[command(after_help = FIND_EXAMPLES)]
    Find(Find),
    /// Print documents with their keys, in order
    #[command(after_help = SCAN_EXAMPLES)]
    Scan(rows::Scan),
    /// Put many documents from the standard input
    #[command(after_help = LOAD_EXAMPLES)]
    Load(rows::Load),
    /// List the keys of documents
    #[command(after_help = LIST_EXAMPLES)]
    List(Keys),
    /// Count documents
    #[command(after_help = COUNT_EXAMPLES)]
    Count(Counted),
}

pub(crate) fn run(handle: &Handle, verb: Json) -> Outcome {
    match verb {
        Json::Set { key, path, value } => {
            let value = handle.input.json_argument("value", &value)?;
            handle.change(|space| {
                let version = space.json().set(&key, &path, &value)?;
                handle.say(&json!({ "key": key, "version": version }), format_args!("set, version {version}"))
            })
        }
        Json::Get { key, path } => handle.look(|space| {
            let path = path.unwrap_or_else(Path::root);
            let Some(found) = space.json().get(&key, &path)? else {
                let (what, where_) = match space.json().exists(&key)? {
                    true => (format!("nothing at {path} in document {key:?}"), String::new()),
                    false => (format!("no document {key:?}"), format!(" in space {:?}", space.name())),
                };
                return Err(Failure::Other(format!(
                    "there is {what}{where_}; `duramen store json list` shows the documents"
                )));
            };
            if handle.json {
                let value = found.to_value().map_err(|error| Failure::Other(error.to_string()))?;
                output::json(&json!({ "key": key, "path": path.to_string(), "value": value }))?;
            } else {
                output::line(found.as_str());
            }
            Ok(ExitCode::SUCCESS)
        }),
        Json::Delete { key, path } => handle.take(|space| {
            let deleted = space.json().delete(&key, path.unwrap_or_else(Path::root))?;
            let text = if deleted { "deleted" } else { "was not there" };
            handle.say(&json!({ "key": key, "deleted": deleted }), text)
        }),
        Json::Patch { key, patch } => {
            let patch = handle.input.json_argument("patch", &patch)?;
            handle.change(|space| {
                let version = space.json().merge_patch(&key, &patch)?;
                let answer = json!({ "key": key, "version": version });
                handle.say(&answer, format_args!("patched, version {version}"))
            })
        }
        Json::Find(find) => handle.look(|space| {
            let docs = space.json();
            find.run(
                handle,
                |query| Ok(docs.explain(query)?),
                |query, limit| {
                    let found = docs.find(query, limit)?;
                    let rows = found.try_map(|(key, text)| Ok((key, text.to_value()?)));
                    rows.map_err(|error: JsonError| StoreError::from(error).into())
                },
            )
        }),
        Json::Scan(scan) => rows::scan(handle, &scan),
        Json::Load(load) => rows::load(handle, &load),
        Json::List(keys) => handle.look(|space| {
            listing::page(handle, &space.json().list(&keys.prefix, keys.after.as_deref(), keys.limit)?)
        }),
        Json::Count(counted) => handle.look(|space| {
            let count = space.json().count(&counted.prefix)?;
            handle.say(&json!({ "count": count }), count)
        }),
    }
}
