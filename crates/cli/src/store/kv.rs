//! Key-value pairs: `duramen store kv ...`.

use super::{
    handle::Handle,
    index::Find,
    input::{self, Input},
    listing::{self, Counted, Keys, Lines},
    value::{self, Given, Kind},
};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
    output, parse,
};
use clap::{Args, Subcommand, ValueEnum};
use duramen_store::{kv::Key, Branch, Primitive, Scope, Snapshot, Space, Value};
use serde::Deserialize;
use serde_json::json;
use std::{
    io::Write,
    ops::{Bound, ControlFlow},
    process::ExitCode,
    time::Duration,
};

/// Pairs of one commit of `load`.
const BATCH_PAIRS: usize = 10_000;

const PUT_EXAMPLES: &str = "\
Examples:
  duramen store kv put user:1 Ada
  duramen store kv put hits -5 --type int
  duramen store kv put photo --type bytes --stdin < photo.jpg
  duramen store kv put settings '{\"dark\": true}' --type json
  duramen store kv put session:7 alice --ttl 30m   gone after half an hour";
const GET_EXAMPLES: &str = "\
Examples:
  duramen store kv get user:1
  duramen store kv get photo --raw > photo.jpg";
const ADD_EXAMPLES: &str = "\
Examples:
  duramen store kv add visits
  duramen store kv add stock/apples -3             merged with --rule kv:default:stock/=add, branches add up";
const TTL_EXAMPLES: &str = "\
Examples:
  duramen store kv ttl session:7";
const EXPIRE_EXAMPLES: &str = "\
Examples:
  duramen store kv expire session:7 --ttl 30m
  duramen store kv expire session:7 --never";
const DELETE_EXAMPLES: &str = "\
Examples:
  duramen store kv delete user:1 user:2";
const DELETE_RANGE_EXAMPLES: &str = "\
Examples:
  duramen store kv delete-range --from user: --to 'user;'
  duramen store kv delete-range --from 00 --to 00ff --hex";
const EXISTS_EXAMPLES: &str = "\
Examples:
  duramen store kv exists user:1 && echo there     exit status 1 if it is not";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store kv list --prefix user: --limit 10
  duramen store kv list --prefix user: --after user:10";
const SCAN_EXAMPLES: &str = "\
Examples:
  duramen store kv scan --from user: --to 'user;'
  duramen store kv scan --json > pairs.jsonl       what `load` reads";
const COUNT_EXAMPLES: &str = "\
Examples:
  duramen store kv count --prefix user:";
const FIND_EXAMPLES: &str = "\
Examples:
  duramen store kv find '$ >= 20' --order '$' --limit 10      `$` is the value itself
  duramen store kv find 'age > 30 and name contains \"a\"'";
const LOAD_EXAMPLES: &str = "\
Examples:
  duramen store kv load < pairs.jsonl              lines like {\"key\": \"user:1\", \"value\": \"Ada\"}
  duramen store kv load --type int < counts.tsv    lines of a key, a tab and a value";

#[derive(Debug, Subcommand)]
pub(crate) enum Kv {
    /// Put a value under a key
    #[command(after_help = PUT_EXAMPLES)]
    Put {
        /// The key
        key: String,
        #[command(flatten)]
        digits: Digits,
        #[command(flatten)]
        value: Given,
        /// How long it is there [default: until it is deleted]
        #[arg(long, value_name = "SPAN", value_parser = parse::span)]
        ttl: Option<Duration>,
    },
    /// Print the value of a key
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The key
        key: String,
        #[command(flatten)]
        digits: Digits,
        /// Print the bytes as they are, without a line break
        #[arg(long)]
        raw: bool,
    },
    /// Add to the integer under a key, and print the sum
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// The key; one that is not there counts as 0
        key: String,
        /// How much
        #[arg(default_value_t = 1, allow_negative_numbers = true)]
        by: i64,
        #[command(flatten)]
        digits: Digits,
    },
    /// Print how long a key is still there
    #[command(after_help = TTL_EXAMPLES)]
    Ttl {
        /// The key
        key: String,
        #[command(flatten)]
        digits: Digits,
    },
    /// Set how long a key is there
    #[command(after_help = EXPIRE_EXAMPLES)]
    Expire {
        /// The key
        key: String,
        /// How long it is there from now on
        #[arg(long, value_name = "SPAN", value_parser = parse::span, required_unless_present = "never")]
        ttl: Option<Duration>,
        /// Until it is deleted
        #[arg(long, conflicts_with = "ttl")]
        never: bool,
        #[command(flatten)]
        digits: Digits,
    },
    /// Delete keys, all or none
    #[command(after_help = DELETE_EXAMPLES)]
    Delete {
        /// The keys
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        digits: Digits,
    },
    /// Delete the keys of a range, all or none
    #[command(after_help = DELETE_RANGE_EXAMPLES)]
    DeleteRange(Bounds),
    /// Check whether a key exists; exit status 1 if not
    #[command(after_help = EXISTS_EXAMPLES)]
    Exists {
        /// The key
        key: String,
        #[command(flatten)]
        digits: Digits,
    },
    /// List keys
    #[command(after_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        keys: Keys,
        #[command(flatten)]
        digits: Digits,
    },
    /// Print keys with their values, in order
    #[command(after_help = SCAN_EXAMPLES)]
    Scan(Scan),
    /// Print the pairs whose values fulfil a filter
    #[command(after_help = FIND_EXAMPLES)]
    Find(Find),
    /// Count keys
    #[command(after_help = COUNT_EXAMPLES)]
    Count {
        #[command(flatten)]
        counted: Counted,
        #[command(flatten)]
        digits: Digits,
    },
    /// Put many pairs from the standard input
    #[command(after_help = LOAD_EXAMPLES)]
    Load(Load),
}

/// How keys are given.
#[derive(Debug, Args)]
pub(crate) struct Digits {
    /// Keys are given as the hexadecimal digits of their bytes: 00ff
    #[arg(long)]
    hex: bool,
}

impl Digits {
    fn key(&self, given: &str) -> Result<Key, Failure> {
        // As keys are printed that are no text.
        let digits = given.strip_prefix("0x").unwrap_or(given);
        Ok(if self.hex { Key::from_hex(digits)? } else { Key::new(given) })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Bounds {
    /// The first key
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The key to stop before
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    #[command(flatten)]
    digits: Digits,
}

impl Bounds {
    fn range(&self) -> Result<(Bound<Key>, Bound<Key>), Failure> {
        let key = |given: &Option<String>| given.as_deref().map(|given| self.digits.key(given)).transpose();
        let (from, to) = (key(&self.from)?, key(&self.to)?);
        Ok((from.map_or(Bound::Unbounded, Bound::Included), to.map_or(Bound::Unbounded, Bound::Excluded)))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    bounds: Bounds,
    /// At most this many pairs [default: all]
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// How the lines are written
    #[arg(long, value_enum, default_value = "auto")]
    format: Format,
    /// What the values of a TSV are
    #[arg(long = "type", value_enum, value_name = "TYPE", default_value = "string")]
    kind: Kind,
}

/// How pairs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON lines if the first byte is a brace, else TSV
    Auto,
    /// One object with key and value per line
    Jsonl,
    /// Key, tab, value
    Tsv,
}

pub(crate) fn run(handle: &Handle, verb: Kv) -> Outcome {
    match verb {
        Kv::Put { key, value, digits, ttl } => {
            let (key, value) = (digits.key(&key)?, value.read(&handle.input)?);
            handle.change(|space| {
                let version = match ttl {
                    Some(ttl) => space.kv().put_with_ttl(&key, value, ttl)?,
                    None => space.kv().put(&key, value)?,
                };
                handle.say(&json!({ "key": key, "version": version }), format_args!("put, version {version}"))
            })
        }
        Kv::Get { key, digits, raw } => {
            let key = digits.key(&key)?;
            handle.look(|space| get(handle, space, &key, raw))
        }
        Kv::Add { key, by, digits } => {
            let key = digits.key(&key)?;
            handle.change(|space| {
                let sum = space.kv().add(&key, by)?;
                handle.say(&json!({ "key": key, "value": sum }), format_args!("{sum}"))
            })
        }
        Kv::Ttl { key, digits } => {
            let key = digits.key(&key)?;
            handle.look(|space| ttl(handle, space, &key))
        }
        Kv::Expire { key, ttl, never: _, digits } => {
            let key = digits.key(&key)?;
            handle.take(|space| {
                let is_there = match ttl {
                    Some(ttl) => space.kv().expire(&key, ttl)?,
                    None => space.kv().persist(&key)?,
                };
                if !is_there {
                    return Err(no_key(&key, space.name()));
                }
                let ttl_ms = ttl.map(|ttl| ttl.as_millis() as u64);
                handle.say(&json!({ "key": key, "ttl_ms": ttl_ms }), shown_ttl(ttl))
            })
        }
        Kv::Delete { keys, digits } => {
            let keys = keys.iter().map(|key| digits.key(key)).collect::<Result<Vec<_>, _>>()?;
            handle.take(|space| {
                let deleted = space.kv().delete_many(&keys)?;
                listing::deleted(handle, keys.len(), deleted)
            })
        }
        Kv::DeleteRange(bounds) => {
            let range = bounds.range()?;
            if range == (Bound::Unbounded, Bound::Unbounded) {
                let reason = "name where to begin or to stop (--from, --to); all pairs go with `--from ''`";
                return Err(Failure::Usage(reason.to_owned()));
            }
            handle.take(|space| {
                let deleted = space.kv().delete_range(range)?;
                handle.say(&json!({ "deleted": deleted }), format_args!("deleted {deleted}"))
            })
        }
        Kv::Exists { key, digits } => handle.look(|space| {
            let key = digits.key(&key)?;
            let exists = space.kv().exists(&key)?;
            handle.say(&json!({ "key": key, "exists": exists }), output::yes(exists))?;
            Ok(if exists { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
        }),
        Kv::List { keys, digits } => handle.look(|space| {
            let prefix = digits.key(&keys.prefix)?;
            let after = keys.after.as_deref().map(|after| digits.key(after)).transpose()?;
            listing::page(handle, &space.kv().list(prefix, after.as_deref(), keys.limit)?)
        }),
        Kv::Find(find) => handle.look(|space| {
            let pairs = space.kv();
            find.run(
                handle,
                |query| Ok(pairs.explain(query)?),
                |query, limit| {
                    pairs.find(query, limit)?.try_map(|(key, value)| Ok((key, value::json(&value)?)))
                },
            )
        }),
        Kv::Scan(scan) => handle.look(|space| self::scan(handle, space, &scan)),
        Kv::Count { counted, digits } => handle.look(|space| {
            let count = space.kv().count(digits.key(&counted.prefix)?)?;
            handle.say(&json!({ "count": count }), count)
        }),
        Kv::Load(load) => self::load(handle, &load),
    }
}

fn no_key(key: &Key, space: &str) -> Failure {
    let hint = "list the keys with `duramen store kv list`";
    Failure::Other(format!("there is no key {key:?} in space {space:?}; {hint}"))
}

fn shown_ttl(ttl: Option<Duration>) -> String {
    ttl.map_or_else(|| "stays".to_owned(), |ttl| format!("ends in {}", humantime::format_duration(ttl)))
}

fn ttl(handle: &Handle, space: Space<'_, Snapshot>, key: &Key) -> Outcome {
    if !space.kv().exists(key)? {
        return Err(no_key(key, space.name()));
    }
    let ttl = space.kv().ttl(key)?;
    let ttl_ms = ttl.map(|ttl| ttl.as_millis() as u64);
    handle.say(&json!({ "key": key, "ttl_ms": ttl_ms }), shown_ttl(ttl))
}

fn get(handle: &Handle, space: Space<'_, Snapshot>, key: &Key, raw: bool) -> Outcome {
    let Some((value, version)) = space.kv().get_versioned(key)? else {
        return Err(no_key(key, space.name()));
    };
    if raw {
        let bytes = value::raw(value)?;
        let mut out = std::io::stdout().lock();
        // A reader that has left is not an error.
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
        return Ok(ExitCode::SUCCESS);
    }
    if handle.json {
        output::json(&json!({ "key": key, "value": value::json(&value)?, "version": version }))?;
    } else {
        output::line(value::shown(&value)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn scan(handle: &Handle, space: Space<'_, Snapshot>, scan: &Scan) -> Outcome {
    let range = scan.bounds.range()?;
    let mut left = scan.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Lines::new();
    let mut failed = None;
    space.kv().scan(range, |key, value| {
        let key = Key::new(key);
        let value = value.to_value().and_then(|value| value.to_json());
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                failed = Some(Failure::Other(format!("key {key:?}: {error}")));
                return ControlFlow::Break(());
            }
        };
        let flow = match handle.json {
            true => lines.line(json!({ "key": key, "value": value })),
            false => lines.line(format_args!("{key}\t{value}")),
        };
        left -= 1;
        if left == 0 {
            return ControlFlow::Break(());
        }
        flow
    })?;
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: Key,
    value: serde_json::Value,
}

/// The pairs on the standard input, in their order there.
pub(crate) fn read_pairs(input: &Input, load: &Load) -> Result<Vec<(Key, Value)>, Failure> {
    let mut opened = input.open()?;
    let format = match load.format {
        Format::Auto => {
            let begin = opened
                .fill_buf()
                .map_err(|error| Failure::Other(format!("cannot read {}: {error}", input.name())))?;
            match begin.first() {
                Some(b'{') => Format::Jsonl,
                _ => Format::Tsv,
            }
        }
        format => format,
    };
    input.lines_of(opened, |line| match format {
        Format::Jsonl => {
            let line: Line = input::json(line, r#"{"key": "user:1", "value": "Ada"}"#)?;
            let value = Value::from_json(&line.value).map_err(|error| error.to_string())?;
            Ok((line.key, value))
        }
        _ => {
            let (key, value) = line.split_once('\t').ok_or("it has no tab between key and value")?;
            Ok((Key::new(key), load.kind.parse(value)?))
        }
    })
}

fn load(handle: &Handle, load: &Load) -> Outcome {
    let pairs = read_pairs(&handle.input, load)?;
    let count = pairs.len();
    // Keys that come twice are not sorted: the later value must win.
    let sorted = pairs.windows(2).all(|two| two[0].0 < two[1].0);
    handle.write(|store| {
        let branch = handle.branch(store)?;
        let infos = store.branches(false)?;
        let entries = infos.iter().find(|info| info.name == branch.name()).map_or(0, |info| info.entries);
        let indexes = branch.space(handle.space_name())?.indexes().list()?;
        let is_indexed = indexes.iter().any(|(_, index)| index.on == Primitive::Kv);
        // A bulk load writes the whole branch again, which pays where most of it is new, and writes no entries of indexes.
        let bulk = sorted && count as u64 > entries && !is_indexed;
        if bulk {
            branch.bulk_load(handle.space_name(), pairs)?;
        } else {
            put_in_batches(&branch, handle.space_name(), &pairs)?;
        }
        handle.say(
            &json!({ "loaded": count, "bulk": bulk }),
            format_args!("loaded {}", listing::several(count as u64, "pair")),
        )
    })
}

fn put_in_batches(branch: &Branch, space: &str, pairs: &[(Key, Value)]) -> Result<(), Failure> {
    let space = branch.space(space)?;
    for (index, batch) in pairs.chunks(BATCH_PAIRS).enumerate() {
        let batch = batch.iter().map(|(key, value)| (key, value));
        space.kv().put_many(batch).map_err(|error| {
            let before = index * BATCH_PAIRS;
            Failure::Other(format!("{error}; the first {before} pairs are loaded, the others are not"))
        })?;
    }
    Ok(())
}
