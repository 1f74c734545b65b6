//! The statements of branches whose source's settings say `audit = statements`: their servers log them, and the audit log has
//! their hashes. How, and what holds under a flood, is in `docs/design/doors.md`, "Statements"; the invariants S1 to S4 are there.

use crate::{environment::Environment, files, registry::Held, shared::Shared};
use duramen_postgres::Settings;
use rustix::fs::{fallocate, FallocateFlags};
use serde::Serialize;
use std::{
    collections::HashMap,
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The most that is read of a log at a time.
const READ_MAX: u64 = 32 << 20;
/// What has to be read and is more than this is skipped, and counted as lost.
const BACKLOG_MAX: u64 = 64 << 20;
/// The newest part of a log that was read and stays, for people.
const KEPT: u64 = 4 << 20;
/// How many statements an entry of the audit log names one by one; all of them are in its digest.
const NAMED_MAX: usize = 64;
/// How each entry of the log begins: the process, and the number of the entry among its own. Continued lines begin with a tab, so
/// that no text of a statement looks like an entry.
const PREFIX: &str = "=%p:%l= ";

/// What makes a branch's server write its statements down, whatever its roles say of other messages.
pub(crate) fn settings(settings: &mut Settings) {
    settings.set("log_line_prefix", PREFIX);
    settings.set("lc_messages", "C");
}

/// The statements by which a role's sessions log what they run. No holder may change these settings.
pub(crate) fn of_role(role: &str) -> String {
    format!(
        "begin read write; alter role {role} set log_min_messages = log; alter role {role} set log_statement = 'all'; commit"
    )
}

/// How far each log was read.
#[derive(Debug, Default)]
pub(crate) struct Statements(Mutex<HashMap<String, Followed>>);

#[derive(Debug, Clone)]
struct Followed {
    /// The lease.
    id: String,
    name: String,
    /// How far it was read, in bytes. Not known yet after a restart.
    read: Option<u64>,
}

/// A statement, and the process that ran it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Hashed {
    process: u32,
    hash: String,
}

/// An entry of the audit log.
#[derive(Debug, Serialize)]
struct Noted<'a> {
    branch: &'a str,
    name: &'a str,
    /// Its log, and the part of that which this tells of, in bytes.
    log: &'a str,
    from: u64,
    to: u64,
    /// BLAKE3 over that part.
    digest: String,
    /// How many statements are in it.
    statements: u64,
    /// The first of them.
    first: Vec<Hashed>,
    /// Bytes that came before, and could not be read in time.
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Statements {
    /// Begins with the log of a volume that a lease has.
    pub(crate) fn follow(&self, volume: &str, id: &str, name: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(volume.to_owned()).or_insert_with(|| Followed {
            id: id.to_owned(),
            name: name.to_owned(),
            read: None,
        });
    }

    /// Whether a volume's log is read.
    pub(crate) fn follows(&self, volume: &str) -> bool {
        self.of(volume).is_some()
    }

    fn of(&self, volume: &str) -> Option<Followed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(volume).cloned()
    }

    fn note(&self, volume: &str, read: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(followed) = all.get_mut(volume) {
            followed.read = Some(read);
        }
    }

    fn forget(&self, volume: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(volume);
    }
}

impl Environment {
    /// Where it stands how far the log of a volume was read.
    pub(crate) fn read_mark(&self, volume: &str) -> PathBuf {
        self.log(volume).with_extension("read")
    }
}

impl Shared {
    /// Writes into the audit log what the branches that are leased have run since the last look.
    pub(crate) fn note_statements(&self) {
        for Held { id, name, branch, .. } in self.registry.held() {
            if branch.generation.audits_statements {
                self.statements.follow(&branch.volume, &id, &name);
                self.read_statements(&branch.volume);
            }
        }
    }

    /// The same for a branch whose server has ended, for the last time.
    pub(crate) fn end_statements(&self, volume: &str) {
        while self.read_statements(volume) {}
        self.statements.forget(volume);
    }

    /// Whether there is more to read.
    fn read_statements(&self, volume: &str) -> bool {
        let Some(followed) = self.statements.of(volume) else { return false };
        self.advance(volume, &followed).unwrap_or_else(|error| {
            tracing::error!(%error, volume, "statements of a branch are not in the audit log yet");
            false
        })
    }

    fn advance(&self, volume: &str, followed: &Followed) -> io::Result<bool> {
        let path = self.environment.log(volume);
        let mark = self.environment.read_mark(volume);
        let begin = match followed.read {
            Some(read) => read,
            None => fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
        };
        let Some(part) = Part::read(&path, begin)? else { return Ok(false) };
        let (statements, first) = statements_in(&part.text);
        let noted = Noted {
            branch: &followed.id,
            name: &followed.name,
            log: volume,
            from: part.from,
            to: part.to,
            digest: blake3::hash(&part.text).to_hex().to_string(),
            statements,
            first,
            lost: part.lost,
        };
        if statements > 0 || part.lost > 0 {
            self.audit("statements", noted).map_err(io::Error::other)?;
        }
        // After the entry: what was read twice is seen by its place, what was not read at all by nothing.
        files::replace(&mark, part.to.to_string().as_bytes())?;
        self.statements.note(volume, part.to);
        let _ = make_room(&path, part.to);
        Ok(part.has_more)
    }
}

/// A part of a log, of whole entries.
struct Part {
    from: u64,
    to: u64,
    text: Vec<u8>,
    lost: u64,
    has_more: bool,
}

impl Part {
    /// What comes after `begin`, if there is something.
    fn read(path: &Path, begin: u64) -> io::Result<Option<Part>> {
        let mut file = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let length = file.metadata()?.len();
        // It was cut by somebody else.
        let (begin, mut lost) = if begin > length { (0, begin - length) } else { (begin, 0) };
        let mut from = begin;
        if length - begin > BACKLOG_MAX {
            from = length - READ_MAX;
            lost += from - begin;
        }
        file.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        file.take(READ_MAX).read_to_end(&mut text)?;
        let read = text.len() as u64;
        // An entry that is still being written is read with the next part, unless it is longer than any part.
        let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let end = if end == 0 && read == READ_MAX { text.len() } else { end };
        text.truncate(end);
        let to = from + end as u64;
        Ok((to > from || lost > 0).then_some(Part { from, to, text, lost, has_more: read == READ_MAX }))
    }
}

/// Takes what was read, but for its end, off the disk. The rest stays where it is, so that nothing which is written meanwhile
/// can be lost.
fn make_room(path: &Path, read: u64) -> io::Result<()> {
    if read > KEPT {
        let file = fs::OpenOptions::new().write(true).open(path)?;
        fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, read - KEPT)?;
    }
    Ok(())
}

/// How many statements a part of a log holds, and the first of them.
fn statements_in(text: &[u8]) -> (u64, Vec<Hashed>) {
    let (mut count, mut first) = (0, Vec::new());
    let mut entries = entries(text).peekable();
    while let Some((process, entry)) = entries.next() {
        let Some(statement) = statement_of(&entry) else { continue };
        count += 1;
        if first.len() < NAMED_MAX {
            let mut hasher = blake3::Hasher::new();
            hasher.update(statement);
            // Its parameters are in the entry of the same process that comes next, if they are not in the way of another's.
            if let Some((_, parameters)) =
                entries.next_if(|(next, entry)| *next == process && entry.starts_with(b"DETAIL:  "))
            {
                hasher.update(b"\0").update(&parameters[b"DETAIL:  ".len()..]);
            }
            first.push(Hashed { process, hash: hasher.finalize().to_hex().to_string() });
        }
    }
    (count, first)
}

/// The entries of a log that have our prefix, with their processes; continued lines are joined as they were written.
fn entries(text: &[u8]) -> impl Iterator<Item = (u32, Vec<u8>)> + '_ {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').peekable();
    std::iter::from_fn(move || loop {
        let line = lines.next()?;
        let Some((process, begin)) = prefixed(line) else { continue };
        let mut entry = begin.to_vec();
        while let Some(more) = lines.next_if(|line| line.starts_with(b"\t")) {
            entry.extend_from_slice(&more[1..]);
        }
        if entry.ends_with(b"\n") {
            entry.pop();
        }
        return Some((process, entry));
    })
}

/// The process of a line that begins an entry, and what follows.
fn prefixed(line: &[u8]) -> Option<(u32, &[u8])> {
    let rest = line.strip_prefix(b"=")?;
    let end = rest.windows(2).take(32).position(|two| two == b"= ")?;
    let (process, number) = std::str::from_utf8(&rest[..end]).ok()?.split_once(':')?;
    number.parse::<u64>().ok()?;
    Some((process.parse().ok()?, &rest[end + 2..]))
}

/// The text of the statement that an entry tells of.
fn statement_of(entry: &[u8]) -> Option<&[u8]> {
    let message = entry.strip_prefix(b"LOG:  ")?;
    if let Some(statement) = message.strip_prefix(b"statement: ") {
        return Some(statement);
    }
    if message.starts_with(b"fastpath function call: ") {
        return Some(message);
    }
    // `execute NAME: `, or `execute NAME/PORTAL: `; a name may hold anything, so it is part of what is hashed if it holds `: `.
    let named = message.strip_prefix(b"execute ")?;
    let end = named.windows(2).position(|two| two == b": ")?;
    Some(&named[end + 2..])
}

#[cfg(test)]
#[path = "../tests/unit/statements.rs"]
mod tests;
