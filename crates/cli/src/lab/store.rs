//! The suite `store`: `duramen lab run store`.

use super::Documents;
use crate::context::{Context, Outcome};
use clap::Args;
use duramen_base::words::parse_count;
use duramen_lab::store::{Options, Sabotage};
use duramen_store::Durability;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab run store --json out/store.json --html out/store.html
  duramen lab run store --rows 20000 --seconds 0.2
  duramen lab run store --ops 'kv.put.*,branch.*' --durability strict --fifo

Exit status: 1 when a check failed, 3 when the mechanism under test did not happen";

#[derive(Debug, Args)]
pub(crate) struct Store {
    /// The levels of durability
    #[arg(long, value_name = "LEVEL,...", value_delimiter = ',', default_value = "memory,buffered,strict")]
    durability: Vec<Durability>,
    /// Which operations: globs, separated by commas
    #[arg(long, value_name = "GLOB,...", default_value = "*")]
    ops: String,
    /// How many pairs
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1M")]
    rows: u64,
    /// How many vectors the larger collection has [default: 100k, or a tenth of the rows if that is less]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    vectors: Option<u64>,
    /// How long each operation is timed at each level, at most
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Where the stores are made, and removed at the end [default: the folder lab of the home]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Real-time priority for the threads that wait for the disk (needs root)
    #[arg(long)]
    fifo: bool,
    #[command(flatten)]
    documents: Documents,
}

pub(super) fn run(context: &Context, suite: Store) -> Outcome {
    let Store { durability, ops, rows, vectors, seconds, dir, fifo, documents } = suite;
    let mut levels = durability;
    levels.sort_unstable();
    levels.dedup();
    let options = Options {
        levels,
        ops,
        rows,
        vectors,
        seconds,
        dir: dir.unwrap_or_else(|| context.home.join("lab")),
        fifo,
        output: documents.output(),
        sabotage: Sabotage::None,
    };
    super::measure(context, options)
}
