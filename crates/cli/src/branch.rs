//! Branches: `duramen branch ...`.

mod audit;
pub(crate) mod diff;
mod export;
mod lineage;
mod merge;
mod promote;
#[cfg(feature = "engines")]
mod rehearse;
pub(crate) mod schema_diff;
mod sessions;

use crate::{
    context::{Context, Outcome},
    failure::FAILED,
    moment, output,
    parse::{self, PolicyName},
    progress,
    query::{self, Query},
};
use clap::{Args, Subcommand};
use duramen_api::model::{
    BranchEvidence, BranchView, ContentHash, CreateBranch, DiffEvidence, Policy, ProtectBranch, RenewBranch,
    RoleName, WatchedTable,
};
use duramen_base::words::counted;
use jiff::Timestamp;
use std::{process::ExitCode, time::Duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen branch create try --source app --ttl 1h
  psql \"$(duramen branch url try)\"
  duramen branch query try 'SELECT count(*) FROM flights'
  duramen branch destroy try";
const CREATE_EXAMPLES: &str = "\
Examples:
  duramen branch create                                  a name is made up, the only source is used
  duramen branch create try --source app --policy ddl --ttl 30m
  duramen branch create try                              again: the same branch
  duramen branch create as-app --role app                as the application's own login role
  duramen branch create now --wait 0                     refuse at once when none is ready
  duramen branch create child --from try                 a copy of a branch as it is now, while it is used
  duramen branch create child --from try@before          the same of one of its snapshots
  duramen branch create old --generation before-move     of an earlier generation, by its label or number
  duramen branch create then --at '2026-11-22 09:13:05'  of a moment of the past, in the time zone of this machine
  duramen branch create then --at -10m                   or -10m, or with a zone: 2026-11-22T09:13:05Z, ... 09:13:05+02
  duramen branch create then --lsn 0/1A2B3C8             of a position in the origin's write-ahead log";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen branch list
  duramen branch list --json | jq -r '.[].url'";
const SHOW_EXAMPLES: &str = "\
Examples:
  duramen branch show try";
const URL_EXAMPLES: &str = "\
Examples:
  psql \"$(duramen branch url try)\"
  psql \"$(duramen branch url --administrator try)\"      as superuser; only for root and the daemon's user";
const RESET_EXAMPLES: &str = "\
Examples:
  duramen branch reset try         back to the source's data; its URL gets a new secret";
const RENEW_EXAMPLES: &str = "\
Examples:
  duramen branch renew try --ttl 2h
  duramen branch renew try --expires-at 2030-01-01T00:00:00Z";
const PROTECT_EXAMPLES: &str = "\
Examples:
  duramen branch protect try       it neither expires nor can be destroyed";
const UNPROTECT_EXAMPLES: &str = "\
Examples:
  duramen branch unprotect try     it expires and can be destroyed again";
const DESTROY_EXAMPLES: &str = "\
Examples:
  duramen branch destroy try
  duramen branch destroy one two three";
const EVIDENCE_EXAMPLES: &str = "\
Examples:
  duramen branch evidence try      what was done in it, and that the source did not change
  duramen branch evidence try --diff                       with a digest of what was changed in it
  duramen branch evidence try --table public.orders        its rows in the source and in the branch
  duramen branch evidence try --json > evidence.json";
/// Evidence hashes the whole source.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);
/// How much longer than the queue a create may take.
const GRACE: Duration = Duration::from_secs(60);
/// How long a create waits in the queue when nothing else is said; the daemon has the same figure.
const WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, Subcommand)]
pub(crate) enum Branch {
    /// Lease a branch
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// List all leased branches
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Show one branch
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Name),
    /// Print a branch's connection URL, and nothing else
    #[command(after_help = URL_EXAMPLES)]
    Url(Url),
    /// Run one SQL statement through the branch's resident session
    #[command(after_help = query::EXAMPLES)]
    Query(Query),
    /// Restore the source's data in a branch; its URL gets a new secret
    #[command(after_help = RESET_EXAMPLES)]
    Reset(Name),
    /// Keep a branch as it is now, to go back to
    #[command(after_help = lineage::SNAPSHOT_EXAMPLES)]
    Snapshot(lineage::Snapshot),
    /// List what a branch can go back to
    #[command(after_help = lineage::SNAPSHOTS_EXAMPLES)]
    Snapshots(Name),
    /// Put a branch back to one of its snapshots; its URL gets a new secret
    #[command(after_help = lineage::RESTORE_EXAMPLES)]
    Restore(lineage::Restore),
    /// Put a branch back to what it was before it was last reset or restored
    #[command(after_help = lineage::UNDO_EXAMPLES)]
    Undo(Name),
    /// Show which branch was made of which
    #[command(after_help = lineage::TREE_EXAMPLES)]
    Tree,
    /// Make a branch the next generation of its source, of which new branches are made; it goes on itself
    #[command(after_help = promote::EXAMPLES)]
    Promote(promote::Promote),
    /// Bring what a branch changed into the branch that it was made of, or list what is in the way
    #[command(after_help = merge::EXAMPLES)]
    Merge(merge::Merge),
    /// Write what a branch holds to a file or directory, to be restored elsewhere
    #[command(after_help = export::EXAMPLES)]
    Export(export::Export),
    /// Extend or shorten a lease
    #[command(after_help = RENEW_EXAMPLES)]
    Renew(Renew),
    /// Keep a branch from expiring and being destroyed
    #[command(after_help = PROTECT_EXAMPLES)]
    Protect(Name),
    /// End a branch's protection
    #[command(after_help = UNPROTECT_EXAMPLES)]
    Unprotect(Name),
    /// Give branches back
    #[command(after_help = DESTROY_EXAMPLES)]
    Destroy {
        /// The branches' names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Show what was done in a branch, and that the source did not change
    #[command(after_help = EVIDENCE_EXAMPLES)]
    Evidence(Evidence),
    /// Show what differs between a branch and what it was made of: rows, or what it defines
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::Diff),
    #[cfg(feature = "engines")]
    /// Run a migration in a branch of its own, under load, and tell who waits for it and what it changes
    #[command(after_help = rehearse::EXAMPLES)]
    Rehearse(Box<rehearse::Rehearse>),
    /// List the sessions in a branch, and what they run
    #[command(after_help = sessions::EXAMPLES)]
    Sessions(Name),
    /// Cancel the statement of a session in a branch, or end the session
    #[command(after_help = sessions::CANCEL_EXAMPLES)]
    Cancel(sessions::Cancel),
    /// Show the audit log, or check it
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::Audit),
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// The branch's name
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Url {
    /// The branch's name
    name: String,
    /// Enter it as its superuser, through a socket that only root and the daemon's user can reach
    #[arg(long)]
    administrator: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Evidence {
    /// The branch's name
    name: String,
    /// Compare the rows of this table, in the source and in the branch
    #[arg(long, value_name = "SCHEMA.TABLE")]
    table: Option<String>,
    /// With the digest of what the branch changed: compares its definitions and rows
    #[arg(long)]
    diff: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The branch's name; creating it again returns the same branch [default: one is made up]
    name: Option<String>,
    /// The source [default: the only one]
    #[arg(long)]
    source: Option<String>,
    /// What the holder may do [default: read-write]
    #[arg(long, value_enum)]
    policy: Option<PolicyName>,
    /// Enter it as this login role of the source, with its rights there, instead of --policy
    #[arg(long, value_name = "NAME", conflicts_with = "policy")]
    role: Option<RoleName>,
    /// How long the lease lasts [default: 1h]
    #[arg(long, value_name = "SPAN", value_parser = parse::ttl, allow_hyphen_values = true)]
    ttl: Option<i64>,
    /// When the lease ends (RFC 3339), instead of --ttl
    #[arg(long, value_name = "TIME", conflicts_with = "ttl")]
    expires_at: Option<Timestamp>,
    /// How long to wait for a branch; 0 refuses at once when none is ready [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    wait: Option<Duration>,
    /// Make it of this branch, or of a snapshot of it (BRANCH@SNAPSHOT), rather than of its source
    #[arg(long, value_name = "BRANCH", conflicts_with_all = ["policy", "role"])]
    from: Option<String>,
    /// Make it of this generation of the source, by its number or a label; if no branch of it is ready, one is started
    #[arg(long, value_name = "GENERATION", conflicts_with = "from")]
    generation: Option<String>,
    /// Make it of what the origin had committed at this moment, by the origin's clock, of a source that keeps history
    #[arg(long, value_name = "TIME", value_parser = moment::moment, allow_hyphen_values = true, conflicts_with_all = ["from", "generation"])]
    at: Option<Timestamp>,
    /// Make it of what was committed before this position in the origin's write-ahead log
    #[arg(long, value_name = "LSN", conflicts_with_all = ["from", "generation", "at"])]
    lsn: Option<String>,
    /// Stop the server of --from for it: its sessions end, and unlogged tables keep their rows
    #[arg(long, requires = "from")]
    quiesce: bool,
    /// Refuse unless the source is as it was imported: reads all of its snapshot, and of the live source
    #[arg(long)]
    require_clean_source: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Renew {
    /// The branch's name
    name: String,
    /// How long the lease lasts from now on [default: 1h]
    #[arg(long, value_name = "SPAN", value_parser = parse::ttl, allow_hyphen_values = true)]
    ttl: Option<i64>,
    /// When the lease ends (RFC 3339), instead of --ttl
    #[arg(long, value_name = "TIME", conflicts_with = "ttl")]
    expires_at: Option<Timestamp>,
}

pub(crate) async fn run(context: &Context, branch: Branch) -> Outcome {
    match branch {
        Branch::Create(create) => self::create(context, create).await,
        Branch::List => list(context).await,
        Branch::Show(Name { name }) => {
            let branch = context.connect().await?.branch(&name).await?;
            show(context, &branch)
        }
        Branch::Url(Url { name, administrator }) => {
            let mut connection = context.connect().await?;
            let url = if administrator {
                connection.administrator_url(&name).await?.url
            } else {
                context.client()?.with_secret(&connection.branch(&name).await?.url)
            };
            match context.json {
                true => output::json(&serde_json::json!({ "url": url }))?,
                false => output::line(url),
            }
            Ok(ExitCode::SUCCESS)
        }
        Branch::Query(query) => query::run(context, query).await,
        Branch::Reset(Name { name }) => {
            let mut connection = context.connect().await?;
            let work = connection.reset_branch(&name);
            let branch = progress::during("resetting the branch", work).await?;
            show(context, &branch)
        }
        Branch::Snapshot(snapshot) => lineage::snapshot(context, snapshot).await,
        Branch::Snapshots(Name { name }) => lineage::snapshots(context, &name).await,
        Branch::Restore(restore) => lineage::restore(context, restore).await,
        Branch::Undo(Name { name }) => lineage::undo(context, &name).await,
        Branch::Tree => lineage::tree(context).await,
        Branch::Promote(promote) => promote::run(context, promote).await,
        Branch::Merge(merge) => merge::run(context, merge).await,
        Branch::Export(export) => export::run(context, export).await,
        Branch::Renew(renew) => {
            let request = RenewBranch { ttl_s: renew.ttl, expires_at: renew.expires_at };
            let mut connection = context.connect().await?;
            let work = connection.renew_branch(&renew.name, &request);
            show(context, &progress::during("waiting for the branch", work).await?)
        }
        Branch::Protect(Name { name }) => protect(context, &name, true).await,
        Branch::Unprotect(Name { name }) => protect(context, &name, false).await,
        Branch::Destroy { names } => destroy(context, &names).await,
        Branch::Evidence(wanted) => evidence(context, &wanted).await,
        Branch::Diff(diff) => diff::run(context, diff).await,
        #[cfg(feature = "engines")]
        Branch::Rehearse(rehearse) => rehearse::run(context, *rehearse).await,
        Branch::Sessions(Name { name }) => sessions::list(context, &name).await,
        Branch::Cancel(cancel) => sessions::cancel(context, cancel).await,
        Branch::Audit(audit) => audit::run(context, audit).await,
    }
}

async fn create(context: &Context, create: Create) -> Outcome {
    let wait = create.wait.unwrap_or(WAIT);
    let request = CreateBranch {
        source: create.source,
        name: create.name,
        policy: create.role.map(Policy::Role).or(create.policy.map(Into::into)),
        ttl_s: create.ttl,
        expires_at: create.expires_at,
        wait_ms: create.wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        from: create.from,
        generation: create.generation,
        at: create.at,
        lsn: create.lsn,
        quiesce: create.quiesce,
        require_clean_source: create.require_clean_source,
    };
    let mut connection = context.connect().await?;
    let is_past = request.at.is_some() || request.lsn.is_some();
    // A moment is replayed from the base before it, and waits for imports.
    connection.set_deadline(if is_past { LONG } else { wait.saturating_add(GRACE) });
    let work = connection.create_branch(&request);
    let branch = progress::during("waiting for a branch", work).await?;
    show(context, &branch)
}

async fn list(context: &Context) -> Outcome {
    let mut connection = context.connect().await?;
    let branches = connection.branches().await?;
    if let Some(missing) = connection.missing() {
        // A list that is not whole says so.
        output::warning(&format_args!("the list is not whole: these nodes did not answer: {missing}"));
    }
    if context.json {
        output::json(&branches)?;
    } else if branches.is_empty() {
        output::line("no branches; lease one with `duramen branch create`");
    } else {
        let rows = branches.iter().map(|branch| {
            [
                branch.name.clone(),
                branch.source.clone(),
                branch.generation.to_string(),
                branch.policy.to_string(),
                output::yes(branch.durable),
                expiry(branch),
                branch.state.clone(),
            ]
        });
        let head = ["NAME", "SOURCE", "GENERATION", "POLICY", "DURABLE", "EXPIRES", "STATE"];
        if branches.iter().any(|branch| branch.node.is_some()) {
            let rows = rows.zip(&branches).map(|([a, b, c, d, e, f, g], branch)| {
                [a, b, c, d, e, f, g, branch.node.clone().unwrap_or_default()]
            });
            let [a, b, c, d, e, f, g] = head;
            output::print(output::table([a, b, c, d, e, f, g, "NODE"], rows));
        } else {
            output::print(output::table(head, rows));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn expiry(branch: &BranchView) -> String {
    if branch.protected {
        "never (protected)".to_owned()
    } else {
        output::until(branch.expires_at)
    }
}

pub(crate) fn show(context: &Context, branch: &BranchView) -> Outcome {
    if context.json {
        output::json(branch)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name =
        if branch.existing { format!("{} (was there already)", branch.name) } else { branch.name.clone() };
    let mut facts = vec![
        ("branch", name),
        ("source", format!("{}, generation {}", branch.source, branch.generation)),
        ("policy", branch.policy.to_string()),
        ("data", branch.data.clone()),
        ("durable", output::durability(branch.durable).to_owned()),
        ("expires", expiry(branch)),
        ("state", branch.state.clone()),
        ("url", branch.url.clone()),
    ];
    if let Some(parent) = &branch.parent {
        let unlogged = if parent.unlogged == "empty" { "; unlogged tables are empty" } else { "" };
        let taken = output::time(parent.taken_at);
        facts.insert(1, ("made of", format!("{}, as it was {taken}{unlogged}", parent.name)));
    }
    if let Some(disk) = branch.disk {
        facts.push(("written", format!("{} of {}", output::bytes(disk.used), output::bytes(disk.quota))));
    }
    facts.extend(branch.problem.clone().map(|problem| ("problem", problem)));
    output::print(output::pairs(facts));
    Ok(ExitCode::SUCCESS)
}

async fn protect(context: &Context, name: &str, protected: bool) -> Outcome {
    let mut connection = context.connect().await?;
    let request = ProtectBranch { protected };
    let work = connection.protect_branch(name, &request);
    show(context, &progress::during("waiting for the branch", work).await?)
}

async fn destroy(context: &Context, names: &[String]) -> Outcome {
    let mut connection = context.connect().await?;
    let mut gone: Vec<BranchView> = Vec::new();
    let mut failed = false;
    for name in names {
        // One that cannot be destroyed must not keep the others alive.
        match connection.destroy_branch(name).await {
            Ok(branch) => gone.push(branch),
            Err(error) => {
                output::error(&error);
                failed = true;
            }
        }
    }
    if context.json {
        output::json(&gone)?;
    } else {
        for branch in &gone {
            output::line(format_args!("destroyed {}", branch.name));
        }
    }
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

async fn evidence(context: &Context, wanted: &Evidence) -> Outcome {
    let Evidence { name, table, diff } = wanted;
    let mut connection = context.connect().await?;
    connection.set_deadline(LONG);
    let work = async {
        match diff {
            true => connection.evidence_and_diff(name, table.as_deref()).await,
            false => connection.evidence(name, table.as_deref()).await,
        }
    };
    let found = progress::during("hashing the snapshot and the live source", work).await?;
    let intact = found.snapshot_digest == found.snapshot_digest_now;
    if context.json {
        output::json(&found)?;
    } else {
        output::print(output::pairs([
            ("branch", format!("{} ({})", found.branch.name, found.branch.id)),
            ("source", format!("{}, generation {}", found.branch.source, found.branch.generation)),
            ("policy", found.branch.policy.to_string()),
            ("snapshot", if intact { "unchanged" } else { "CHANGED" }.to_owned()),
            ("digest", found.snapshot_digest_now.clone()),
            ("live source", live_source(&found).to_owned()),
            ("content", found.source_now.content_hash.clone()),
            ("write position", position(&found)),
            ("events", found.events.len().to_string()),
        ]));
        if let Some(DiffEvidence { digest, statements, rows, sequences }) = &found.diff {
            output::line(format_args!(
                "changed: {}; {} added, {} removed, {} changed; {}; digest {digest}",
                counted(*statements, "statement"),
                counted(rows.added, "row"),
                rows.removed,
                rows.changed,
                counted(*sequences, "sequence")
            ));
        }
        if let Some(table) = &found.table {
            print_table(table);
        }
        for difference in &found.source.differences {
            output::line(format_args!("  {difference}"));
        }
        for (name, why) in &found.source_now.left_out {
            output::line(format_args!("  left out: {name}: {why}"));
        }
        if !found.events.is_empty() {
            output::line("");
        }
        for event in &found.events {
            output::line(event);
        }
    }
    Ok(if intact { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// What a table holds in the source and in the branch.
fn print_table(table: &WatchedTable) {
    let row = |place: &str, content: &Option<ContentHash>, otherwise: &str| match content {
        Some(content) => [place.to_owned(), content.count.to_string(), content.hash.clone()],
        None => [place.to_owned(), "-".to_owned(), otherwise.to_owned()],
    };
    const UNKNOWN: &str = "not known";
    let rows = [
        row("source, at the import", &table.source_at_import, UNKNOWN),
        row("source, now", &table.source_now, UNKNOWN),
        row("branch, now", &table.branch_now, table.not_read.as_deref().unwrap_or(UNKNOWN)),
    ];
    output::print(format_args!("\n{}", output::table([table.name.as_str(), "ROWS", "HASH"], rows)));
    let verdict = match (table.source_unchanged, table.branch_differs) {
        (Some(true), Some(true)) => {
            "the branch has other rows than the source had; the source still has its own"
        }
        (Some(true), Some(false)) => "source and branch have the same rows",
        (Some(false), _) => {
            "the source has other rows than at the import: others changed them, or the refresh is due"
        }
        _ => "not all of it can be compared",
    };
    output::line(verdict);
    output::line("");
}

fn live_source(evidence: &BranchEvidence) -> &'static str {
    match (evidence.source.comparable, evidence.source.unchanged, evidence.source_now.left_out.is_empty()) {
        (false, ..) => "not comparable",
        (_, false, _) => "changed by others since the import",
        (_, true, true) => "unchanged",
        (_, true, false) => "unchanged, except for what is left out",
    }
}

fn position(evidence: &BranchEvidence) -> String {
    let (then, now) = (&evidence.source_at_import.write_position, &evidence.source_now.write_position);
    match (now.is_empty(), evidence.source.nothing_written) {
        (true, _) if evidence.source_now.contents.is_empty() => "not read".to_owned(),
        (true, _) => "none: the source is not a running server".to_owned(),
        (_, true) => format!("{now}, where it was"),
        _ => format!("{then} at the import, {now} now"),
    }
}
