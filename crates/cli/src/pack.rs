//! Packs: `duramen pack ...`. One verb a file; what a verb does with each kind of pack is one `match` in it.

mod cat;
mod compact;
mod convert;
mod diff;
mod effective;
mod expand;
mod export;
pub(crate) mod file;
mod graph;
mod import;
pub(crate) mod info;
mod prune;
mod rows;
mod source;
mod verify;
mod write;

use crate::context::{Context, Outcome};
use clap::Subcommand;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen store export main.dpack         a branch of the store as one file
  duramen pack info main.dpack
  duramen pack verify main.dpack          check every byte against its digest
  duramen store kv list --at main.dpack   read it in place";

const WRITE_EXAMPLES: &str = "\
Examples:
  duramen pack write people.dpack < people.jsonl       lines like {\"key\": \"user:1\", \"value\": \"Ada\"}
  duramen store kv scan --json | duramen pack write pairs.dpack --branch pairs";
const INFO_EXAMPLES: &str = "\
Examples:
  duramen pack info main.dpack
  duramen pack info main.dpack --json";
const VERIFY_EXAMPLES: &str = "\
Examples:
  duramen pack verify main.dpack      exit status 1, and the first damaged byte range, if it is not sound";
const CAT_EXAMPLES: &str = "\
Examples:
  duramen pack cat main.dpack --kind kv --prefix user:
  duramen pack cat main.dpack --json | head
  duramen pack cat access.dpack --table grants        an access graph, as CSV";
const DIFF_EXAMPLES: &str = "\
Examples:
  duramen pack diff monday.dpack tuesday.dpack
  duramen pack diff monday.dpack tuesday.dpack --kind kv --limit 10 --json
  duramen pack diff monday.c1z tuesday.c1z --who --html change.html    who gained and who lost what, as a page";
const CONVERT_EXAMPLES: &str = "\
Examples:
  duramen pack convert sync.c1z sync.dpack
  duramen pack convert sync.dpack sync.c1z --to c1z1     what the format cannot hold is told";

const COMPACT_EXAMPLES: &str = "\
Examples:
  duramen pack compact full.c1z monday.c1z tuesday.c1z all.c1z    newer rows win; nothing is deleted";

const PRUNE_EXAMPLES: &str = "\
Examples:
  duramen pack prune access.dpack                          the last two full syncs stay, and what came after the first of them
  duramen pack prune access.dpack --keep 5 --older-than 30d";

const EXPAND_EXAMPLES: &str = "\
Examples:
  duramen pack expand all.c1z              what follows from its grants becomes rows of the file
  duramen pack expand all.c1z --marked --changed group:staff:member      only what changed since the last time";

const WHO_EXAMPLES: &str = "\
Examples:
  duramen pack who access.dpack app:github:admin
  duramen pack who sync.c1z app:github:admin --type user --json";
const WHAT_EXAMPLES: &str = "\
Examples:
  duramen pack what sync.c1z user:ada";
const WHY_EXAMPLES: &str = "\
Examples:
  duramen pack why sync.c1z user:ada app:github:admin      exit status 1 if it is not held";

const GRANTS_EXAMPLES: &str = "\
Examples:
  duramen pack grants sync.c1z --principal user:ada                  CSV, with a header
  duramen pack grants sync.c1z --effective --json > effective.jsonl  an object a line";
const PRINCIPALS_EXAMPLES: &str = "\
Examples:
  duramen pack principals access.dpack --type user";
const RESOURCES_EXAMPLES: &str = "\
Examples:
  duramen pack resources access.dpack --type repository --parent organisation:acme";
const EXPORT_EXAMPLES: &str = "\
Examples:
  duramen pack export sync.c1z --parquet tables
  duckdb -c \"SELECT principal, count(*) FROM 'tables/effective_grants.parquet' GROUP BY 1 ORDER BY 2 DESC LIMIT 10\"";
const IMPORT_EXAMPLES: &str = "\
Examples:
  duramen pack import --parquet tables access.dpack      what `duramen pack export --parquet tables` wrote, or DuckDB or pandas
  duramen pack import --parquet tables sync.c1z          for tools of the ecosystem";
const ENTITLEMENTS_EXAMPLES: &str = "\
Examples:
  duramen pack entitlements access.dpack --resource app:github";

#[derive(Debug, Subcommand)]
pub(crate) enum Pack {
    /// Write a pack of the pairs on the standard input
    #[command(after_help = WRITE_EXAMPLES)]
    Write(write::Write),
    /// Show what a pack is, without decompressing anything
    #[command(after_help = INFO_EXAMPLES)]
    Info(info::Info),
    /// Check every byte of a pack; exit status 1 if it is damaged
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(verify::Verify),
    /// Print the contents of a pack, one line per entry
    #[command(after_help = CAT_EXAMPLES)]
    Cat(cat::Cat),
    /// Show what differs between two packs
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(diff::Diff),
    /// Write an access graph in another format: .dpack, or .c1z of version 1 or 3
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(convert::Convert),
    /// Make one sync of a full one and the partial ones after it, by the rules of the ecosystem's compactor
    #[command(after_help = COMPACT_EXAMPLES)]
    Compact(compact::Compact),
    /// Take old syncs out of a file; the last complete one always stays
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune(prune::Prune),
    /// Write what follows from grants into their file, a row each, by the rules of the ecosystem's expander
    #[command(after_help = EXPAND_EXAMPLES)]
    Expand(expand::Expand),
    /// Show who has an entitlement, by a grant or through groups and roles; also of a .c1z file
    #[command(after_help = WHO_EXAMPLES)]
    Who(effective::Who),
    /// Show what a principal has, by a grant or through groups and roles; also in a .c1z file
    #[command(after_help = WHAT_EXAMPLES)]
    What(effective::What),
    /// Show all ways in which a principal comes to an entitlement, the shortest first; also in a .c1z file
    #[command(after_help = WHY_EXAMPLES)]
    Why(effective::Why),
    /// Print grants, as CSV or with --json an object a line; also of a .c1z file
    #[command(after_help = GRANTS_EXAMPLES)]
    Grants(rows::Grants),
    /// Print who has grants, and how many; also of a .c1z file
    #[command(after_help = PRINCIPALS_EXAMPLES)]
    Principals(rows::Principals),
    /// Print resources; also of a .c1z file
    #[command(after_help = RESOURCES_EXAMPLES)]
    Resources(rows::Resources),
    /// Write all tables as Parquet files, with what follows from grants, for DuckDB and others; also of a .c1z file
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(export::Export),
    /// Make an access graph of the tables in Parquet files that `export` or another tool wrote
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(import::Import),
    /// Print entitlements; also of a .c1z file
    #[command(after_help = ENTITLEMENTS_EXAMPLES)]
    Entitlements(rows::Entitlements),
}

pub(crate) fn run(context: &Context, pack: Pack) -> Outcome {
    match pack {
        Pack::Write(write) => write::run(context, &write),
        Pack::Info(info) => info::run(context, &info),
        Pack::Verify(verify) => verify::run(context, &verify),
        Pack::Cat(cat) => cat::run(context, &cat),
        Pack::Diff(diff) => diff::run(context, &diff),
        Pack::Convert(convert) => convert::run(context, convert),
        Pack::Compact(compact) => compact::run(context, compact),
        Pack::Prune(prune) => prune::run(context, prune),
        Pack::Expand(expand) => expand::run(context, expand),
        Pack::Who(who) => effective::who(context, &who),
        Pack::What(what) => effective::what(context, &what),
        Pack::Why(why) => effective::why(context, &why),
        Pack::Grants(grants) => rows::grants(context, grants),
        Pack::Principals(principals) => rows::principals(context, principals),
        Pack::Resources(resources) => rows::resources(context, resources),
        Pack::Export(export) => export::run(context, &export),
        Pack::Import(import) => import::run(context, &import),
        Pack::Entitlements(entitlements) => rows::entitlements(context, entitlements),
    }
}
