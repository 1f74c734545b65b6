//! Change sets: `duramen change ...`. One verb a file.

mod apply;
pub(crate) mod make;
mod show;
mod sign;
mod verify;

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
    pack::info::Content,
};
use clap::Subcommand;
use duramen_base::words::counted;
use duramen_carry::{ApplyError, ChangeSet, Head};
use duramen_pack::container::Pack;
use serde_json::json;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen change make try --out fix.dpack        what the branch `try` changed, as a file
  duramen change show fix.dpack                  read it: statements, rows, sequences
  duramen change apply fix.dpack --to postgres://app@db.example/shop --dry-run
  duramen change apply fix.dpack --to postgres://app@db.example/shop";
const MAKE_EXAMPLES: &str = "\
Examples:
  duramen change make try --out fix.dpack";
const SHOW_EXAMPLES: &str = "\
Examples:
  duramen change show fix.dpack
  duramen change show fix.dpack --format ddl                 the statements alone
  duramen change show fix.dpack --format json > fix.json     all of it";
const VERIFY_EXAMPLES: &str = "\
Examples:
  duramen change verify fix.dpack      exit status 1 if a byte is not the one that was written, or it makes no sense
  duramen change verify fix.dpack --key public.pem      and if it was not signed by that key";
const SIGN_EXAMPLES: &str = "\
Examples:
  openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out public.pem
  duramen change sign fix.dpack --key key.pem            writes fix.dpack.sig
  duramen change verify fix.dpack --key public.pem";
const APPLY_EXAMPLES: &str = "\
Examples:
  duramen change apply fix.dpack --to postgres://app@db.example/shop --dry-run      does all of it, and takes it back
  duramen change apply fix.dpack --to postgres://app@db.example/shop
  duramen change apply fix.dpack --to \"$URL\" --durable            in slices, by a worker of durable functions
  duramen change apply fix.dpack --to \"$URL\" --triggers off      what triggers did in the branch stands in the file
All of it is done in one transaction, or nothing: every row that it changes has to be as it was when the branch was made. Statements
in the file run with the rights of the URL: look at them first. A second time, nothing is done, and the exit status is 0.";

#[derive(Debug, Subcommand)]
pub(crate) enum Change {
    /// Write what a branch changed into a file: definitions, rows with what they were before, sequences
    #[command(after_help = MAKE_EXAMPLES)]
    Make(make::Make),
    /// Show what a change set would do
    #[command(after_help = SHOW_EXAMPLES)]
    Show(show::Show),
    /// Check every byte of a change set, and whether it makes sense
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(verify::Verify),
    /// Sign a change set: a file beside it says by which key it was made
    #[command(after_help = SIGN_EXAMPLES)]
    Sign(sign::Sign),
    /// Do to a database what a change set says: all of it, once, or nothing
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(apply::Apply),
}

pub(crate) async fn run(context: &Context, change: Change) -> Outcome {
    match change {
        Change::Make(make) => make::run(context, make).await,
        Change::Show(show) => show::run(context, &show),
        Change::Verify(verify) => verify::run(context, &verify),
        Change::Sign(sign) => sign::run(context, &sign),
        Change::Apply(apply) => apply::run(context, apply).await,
    }
}

/// A stable word for programs.
pub(crate) fn code(error: &ApplyError) -> &'static str {
    match error {
        ApplyError::Conflicts { .. } => "conflicts",
        ApplyError::Locked { .. } => "locked",
        ApplyError::Unknown { .. } => "unknown",
        _ => "failed",
    }
}

/// What stands in a change set, in words.
pub(crate) fn counts(head: &Head) -> String {
    let rows = head.rows;
    format!(
        "{}; {} added, {} removed, {} changed in {}; {}",
        counted(head.statements, "statement"),
        counted(rows.added, "row"),
        rows.removed,
        rows.changed,
        counted(head.tables, "table"),
        counted(head.sequences, "sequence")
    )
}

/// Rows about where it came from.
fn origin(head: &Head) -> Vec<(&'static str, String)> {
    let origin = &head.origin;
    let digest = origin.snapshot_digest.clone().unwrap_or_else(|| "not known".to_owned());
    vec![
        ("made at", output::time(head.made_at)),
        ("branch", format!("{} ({})", origin.branch, origin.branch_id)),
        ("compared with", origin.compared_with.clone()),
        ("snapshot digest", digest),
        ("data", origin.data.clone()),
        ("diff digest", head.diff_digest.clone()),
        ("holds", counts(head)),
    ]
}

/// What `duramen pack info` tells of one.
pub(crate) fn info(pack: &Pack) -> Result<Content, Failure> {
    let head = ChangeSet::head_of(pack)?;
    Ok(Content { rows: origin(&head), json: ("changes", json!(head)) })
}
