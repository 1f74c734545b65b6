//! `duramen pack write`: pairs on the standard input become a pack.

use super::file::check_level;
use crate::{
    context::{Context, Outcome},
    output,
    progress::Steps,
    store::{
        input::Input,
        kv::{read_pairs, Load},
    },
};
use clap::Args;
use duramen_pack::{
    branch::{export, ExportOptions},
    container::hex,
};
use duramen_store::{kv::Pair, Store, DEFAULT_BRANCH, DEFAULT_SPACE};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Write {
    /// The file to write; an existing one is replaced once the new one is complete
    file: PathBuf,
    /// What the branch in it is called
    #[arg(long, value_name = "NAME", default_value = DEFAULT_BRANCH)]
    branch: String,
    /// The space of the pairs
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SPACE)]
    space: String,
    /// How hard to compress, 1 to 19
    #[arg(long, value_name = "LEVEL", default_value_t = 3)]
    level: i32,
    #[command(flatten)]
    lines: Load,
}

pub(crate) fn run(context: &Context, write: &Write) -> Outcome {
    check_level(write.level)?;
    let pairs = sorted(read_pairs(&Input::Standard, &write.lines)?);
    let store = Store::memory();
    let branch = match write.branch.as_str() {
        DEFAULT_BRANCH => store.branch(DEFAULT_BRANCH)?,
        name => store.create_branch(name)?,
    };
    let count = branch.bulk_load(&write.space, pairs)?;
    let mut steps = Steps::new("writing the pack");
    let options = ExportOptions { level: write.level, base: None };
    let done = export(&branch, &write.file, options, &mut |done, all| steps.step(done, all))?;
    drop(steps);
    if context.json {
        output::json(&json!({
            "file": write.file,
            "entries": count,
            "size_bytes": done.bytes,
            "root_digest": hex(&done.root_digest),
        }))?;
    } else {
        let (size, digest) = (output::bytes(done.bytes), hex(&done.root_digest));
        output::line(format_args!("wrote {count} entries, {size}; root digest {digest}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// In the order of keys; of several values of a key, the last one wins.
fn sorted(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.reverse();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs.dedup_by(|later, kept| later.0 == kept.0);
    pairs
}
