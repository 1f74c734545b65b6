//! The suite `lineage`: `duramen lab run lineage`.

use super::Documents;
use crate::{
    context::{Context, Outcome},
    parse,
    volumes::VolumesName,
};
use clap::Args;
use duramen_lab::lineage::Options;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab run lineage --json out/lineage.json --html out/lineage.html
  duramen lab run lineage --fresh 10 --depth 8 --levels 2 --fan-out 32      a short one
  duramen lab run lineage --fresh 0 --depth 0 --levels 0 --fan-out 1024     one shape alone

Exit status: 1 when a check failed, 3 when the mechanism under test did not happen";

#[derive(Debug, Args)]
pub(crate) struct Lineage {
    /// How many children are made of a busy branch
    #[arg(long, value_name = "N", default_value_t = 30)]
    fresh: u32,
    /// How much is written to it before each of them
    #[arg(long, value_name = "SIZE", value_parser = parse::size, default_value = "100M")]
    fresh_bytes: u64,
    /// How many branches the spine has, each made of the one before it
    #[arg(long, value_name = "N", default_value_t = 64)]
    depth: u32,
    /// How many levels the bushy tree has, of three children each
    #[arg(long, value_name = "N", default_value_t = 4)]
    levels: u32,
    /// How many children one branch has
    #[arg(long, value_name = "N", default_value_t = 1024)]
    fan_out: u32,
    /// How volumes are cloned, when no daemon runs yet
    #[arg(long, value_enum, default_value = "auto")]
    volumes: VolumesName,
    /// Size of a loop-backed volume store, when no daemon runs yet and one is made
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    volume_size: Option<u64>,
    #[command(flatten)]
    documents: Documents,
}

pub(super) fn run(context: &Context, suite: Lineage) -> Outcome {
    let Lineage { fresh, fresh_bytes, depth, levels, fan_out, volumes, volume_size, documents } = suite;
    let options = Options {
        fresh,
        fresh_bytes,
        depth,
        levels,
        fan_out,
        volumes: volumes.into(),
        volume_size,
        output: documents.output(),
        ..Options::new(&context.home, super::own_program()?)
    };
    super::measure(context, options)
}
