//! System users that are made for servers, and removed with what they were made for.
//!
//! The programs of the machine make them (`useradd`, `userdel`): they know the formats and the locks of the user database,
//! and wait for each other. They take their time, so no branch waits for one.

use crate::user::{UserError, SERVERS};
use duramen_base::clock;
use nix::unistd::{Group, Uid, User};
use rustix::fs::{access, Access};
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// Where the programs are.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// The user database, as far as this machine keeps it itself.
const DATABASE: &str = "/etc/passwd";
/// Numbers for users of ours: among those of system users, and away from both ends, where packages take theirs.
const UID_MIN: u32 = 300;
const UID_MAX: u32 = 799;
/// How long making or removing a user may take in all, and one run of a program: it waits 15 s for others.
const LIMIT: Duration = Duration::from_secs(60);
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two looks at a program.
const POLL: Duration = Duration::from_millis(1);
/// Exit statuses of the programs: the name is there already; there is no such user; processes run as it.
const NAME_IN_USE: i32 = 9;
const NO_SUCH_USER: i32 = 6;
const BUSY: i32 = 8;

/// A user that was made for servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// For whom it was made.
    pub comment: String,
}

/// What became of a user that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// There is no such user any more.
    Gone,
    /// Processes still run as it, so it stays.
    Busy,
}

/// The users of this machine whose names begin with that of [`SERVERS`] and a hyphen.
#[must_use]
pub fn accounts() -> Vec<Account> {
    let text = fs::read_to_string(DATABASE).unwrap_or_default();
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        name.strip_prefix(SERVERS)?.strip_prefix('-')?;
        let uid = fields.nth(1)?.parse().ok()?;
        Some(Account { name: name.to_owned(), uid, comment: fields.nth(1)?.to_owned() })
    };
    text.lines().filter_map(of_line).collect()
}

/// Whether users can be made on this machine.
///
/// # Errors
/// [`UserError::Fixed`], with what is missing.
pub fn can_be_made() -> Result<(), UserError> {
    let fixed = |reason: String| UserError::Fixed { reason };
    for name in ["useradd", "userdel"] {
        program(name).ok_or_else(|| fixed(format!("{name} is not installed (Debian's package passwd)")))?;
    }
    access("/etc", Access::WRITE_OK).map_err(|error| fixed(format!("/etc cannot be written ({error})")))
}

/// Removes a user that was made for servers. What belongs to it must be gone.
///
/// # Errors
/// What the program said.
pub fn remove(name: &str) -> Result<Removal, UserError> {
    let Some(user) = User::from_name(name)?.filter(|_| name.starts_with(SERVERS)) else {
        return Ok(Removal::Gone);
    };
    can_be_made()?;
    // Seen before and removed after: as long as a process runs as the user it is in use, and what comes later belongs to
    // the next user with its number.
    let left = shared_memory_of(user.uid);
    match run("userdel", &[name])? {
        Ran { status: 0 | NO_SUCH_USER, .. } => {
            for path in left {
                let _ = fs::remove_file(path);
            }
            Ok(Removal::Gone)
        }
        Ran { status: BUSY, .. } => Ok(Removal::Busy),
        Ran { said, .. } => Err(UserError::Account { doing: "remove", name: name.to_owned(), reason: said }),
    }
}

/// Makes [`SERVERS`], and its group.
pub(crate) fn make_servers() -> Result<User, UserError> {
    let group = match Group::from_name(SERVERS)? {
        Some(group) => format!("--gid={}", group.gid),
        None => "--user-group".to_owned(),
    };
    add(SERVERS, "Servers of PostgreSQL branches", &[group])
}

/// A user of that name that was made for servers.
pub(crate) fn find(name: &str, gid: u32) -> Result<Option<User>, UserError> {
    let Some(user) = User::from_name(name)? else { return Ok(None) };
    if user.uid.is_root() || user.gid.as_raw() != gid {
        let reason = "there is one that was made for something else; remove it".to_owned();
        return Err(UserError::Account { doing: "make", name: name.to_owned(), reason });
    }
    Ok(Some(user))
}

/// Makes a user for servers, with the number `uid` if one is wanted.
pub(crate) fn make(name: &str, comment: &str, uid: Option<u32>, gid: u32) -> Result<User, UserError> {
    let mut arguments = vec![format!("--gid={gid}")];
    match uid {
        Some(uid) => arguments.push(format!("--uid={uid}")),
        None => {
            arguments.extend([format!("--key=SYS_UID_MIN={UID_MIN}"), format!("--key=SYS_UID_MAX={UID_MAX}")])
        }
    }
    add(name, comment, &arguments)
}

fn add(name: &str, comment: &str, more: &[String]) -> Result<User, UserError> {
    can_be_made()?;
    let comment: String = comment
        .chars()
        .map(|letter| if letter == ':' || letter.is_control() { '_' } else { letter })
        .collect();
    let mut arguments = vec!["--system", "--no-create-home", "--home-dir", "/nonexistent"];
    arguments.extend(["--shell", "/usr/sbin/nologin", "--no-log-init", "--comment", &comment]);
    arguments.extend(more.iter().map(String::as_str));
    arguments.push(name);
    let ran = run("useradd", &arguments)?;
    let failed = |reason: String| UserError::Account { doing: "make", name: name.to_owned(), reason };
    if ![0, NAME_IN_USE].contains(&ran.status) {
        return Err(failed(ran.said));
    }
    User::from_name(name)?.ok_or_else(|| failed("it was made, and is not found".to_owned()))
}

/// Shared memory of a user, which its servers leave if they are killed: the next user with its number could read it.
fn shared_memory_of(uid: Uid) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    found
        .map(|entry| entry.path())
        // Not through links: what is removed is the name.
        .filter(|path| {
            path.symlink_metadata().is_ok_and(|found| found.is_file() && found.uid() == uid.as_raw())
        })
        .collect()
}

struct Ran {
    status: i32,
    said: String,
}

/// Runs a program, again while others hold the user database.
fn run(name: &str, arguments: &[&str]) -> Result<Ran, UserError> {
    let begin = clock::now();
    loop {
        let ran = run_once(name, arguments)?;
        if ran.status == 0 || !ran.said.contains("try again later") || begin.elapsed() > LIMIT {
            return Ok(ran);
        }
        thread::sleep(PAUSE);
    }
}

fn run_once(name: &str, arguments: &[&str]) -> Result<Ran, UserError> {
    let fixed = |reason: String| UserError::Fixed { reason };
    let program = program(name).ok_or_else(|| fixed(format!("{name} is not installed")))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fixed(format!("{name}: {error}")))?;
    let begin = clock::now();
    let mut killed = false;
    // It says a line or two, which a pipe holds.
    let status = loop {
        match child.try_wait() {
            Ok(None) if begin.elapsed() > RUN_LIMIT && !killed => {
                killed = true;
                let _ = child.kill();
            }
            Ok(None) => thread::sleep(POLL),
            Ok(Some(status)) => break status,
            Err(error) => return Err(fixed(format!("{name}: {error}"))),
        }
    };
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        // What it said is only for the message.
        let _ = pipe.read_to_string(&mut said);
    }
    let said = if killed { format!("it did not end within {RUN_LIMIT:?}") } else { said.trim().to_owned() };
    Ok(Ran { status: status.code().unwrap_or(-1), said })
}

fn program(name: &str) -> Option<PathBuf> {
    PATH.split(':').map(|dir| Path::new(dir).join(name)).find(|path| path.is_file())
}
