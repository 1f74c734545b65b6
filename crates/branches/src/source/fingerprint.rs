//! The state of a live source, in figures that change when anybody writes to it.
//!
//! A snapshot that is read-only proves little by staying the same, so the *origin* is looked at: every table of
//! every database is read in one read-only transaction and hashed row by row ([`super::contents`]), all that a dump covers
//! besides is hashed too ([`super::definitions`]), and the server's own counters of written rows and its write position
//! are recorded.
//! Reading changes none of these, and runs nothing that a user of the origin wrote: what cannot be read so is left out,
//! and said to be.

use super::{
    address::Address,
    connected::Connected,
    connection::{self, Quiet},
    contents::{self, Contents},
    definitions,
    origin_server::import_failed,
    refusal::read_error,
    stall::{while_it_moves, Moves},
};
use crate::{
    error::{EngineError, Kind},
    model::{ContentHash, SourceComparison, SourceFingerprint},
};
use duramen_base::clock;
use std::{
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};
use tokio_postgres::Client;

/// Sessions report their counters when they end a transaction, at most once a second.
const COUNTERS_SETTLE: Duration = Duration::from_millis(1100);
/// How the contents of servers are read. In 0.1 it was `server`, whose hashes are others.
const METHOD: &str = "server-binary";

/// The same of an origin that is not read.
const UNREAD: &str = "none";

/// Told what is read, and how far that is.
pub(crate) type Progress<'a> = &'a (dyn Fn(&str, Option<f64>) + Send + Sync);

/// The fingerprint of a running server. `login_triggers` are the databases that have login triggers, if that is known:
/// where they cannot be turned off for this role, nothing connects to these, nor to any if it is not known.
pub(crate) async fn of_server(
    address: &Address,
    login_triggers: Option<&[String]>,
    stall: Duration,
    progress: Progress<'_>,
) -> Result<SourceFingerprint, EngineError> {
    let taken_at = clock::utc_now();
    let began = clock::now();
    let mut found = Contents::default();
    let here = connection::database(&address.config).to_owned();
    let (client, quiet) = match connection::enter_origin(address).await? {
        Some(entered) => entered,
        None if login_triggers.is_some_and(|databases| !databases.contains(&here)) => {
            (connection::origin(address, Quiet::Known).await?, Quiet::Known)
        }
        None => {
            found.left_out.insert("everything".to_owned(), LOGIN_TRIGGER.to_owned());
            return Ok(assemble(taken_at, METHOD, String::new(), None, found));
        }
    };
    let origin = Origin { address, client, quiet, login_triggers };
    let moves = found.moves.clone();
    let survey = origin.survey(&mut found);
    let where_it_is = || "its catalogues were read".to_owned();
    let (write_position, databases) = while_it_moves(where_it_is, stall, &moves, || {}, survey).await?;
    let all: u64 = databases.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1);
    let mut done = 0;
    let mut read = Vec::new();
    for (database, bytes) in databases {
        let (before, so_far) = (done, moves.count());
        // What comes is about as much as it holds on the disk.
        let tell = || {
            let read = before + moves.count().saturating_sub(so_far).min(bytes);
            let doing = format!("reading database {database} of the live source");
            progress(&doing, Some(read as f64 / all as f64));
        };
        tell();
        done += bytes;
        match origin.enter(&database).await? {
            None => drop(found.left_out.insert(contents::key([&database]), LOGIN_TRIGGER.to_owned())),
            Some(client) => {
                let at = found.at.clone();
                let where_it_is = || format!("{} was read", at.name(&database));
                let reading = read_database(&client, &database, &mut found);
                while_it_moves(where_it_is, stall, &moves, tell, reading).await?;
                read.push(database);
            }
        }
    }
    // After the contents: what was written since they were read is counted, and so is what sessions wrote before.
    tokio::time::sleep(COUNTERS_SETTLE.saturating_sub(began.elapsed())).await;
    let where_it_is = || "its counters were read".to_owned();
    let counting = origin.rows_written(&read, &moves);
    let rows_written = match while_it_moves(where_it_is, stall, &moves, || {}, counting).await? {
        Ok(rows) => Some(rows),
        Err(why) => {
            found.left_out.insert("rows written".to_owned(), why);
            None
        }
    };
    Ok(assemble(taken_at, METHOD, write_position, rows_written, found))
}

/// A server that is read, and what is known of it.
struct Origin<'a> {
    address: &'a Address,
    client: Connected,
    quiet: Quiet,
    login_triggers: Option<&'a [String]>,
}

impl Origin<'_> {
    /// What all databases share; gives the write position, and the databases with how many bytes they hold.
    async fn survey(&self, found: &mut Contents) -> Result<(String, Vec<(String, u64)>), EngineError> {
        let fail = |error: tokio_postgres::Error| read_error(&error);
        let position = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end::text";
        let write_position = self.client.query_one(position, &[]).await.map_err(fail)?.get(0);
        definitions::shared(&self.client, found).await?;
        let databases =
            "select datname::text, case when has_database_privilege(oid, 'connect') then pg_database_size(oid) else 0 end \
             from pg_database where datallowconn and not datistemplate order by 1";
        let databases = self.client.query(databases, &[]).await.map_err(fail)?;
        let databases =
            databases.iter().map(|row| (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap_or_default()));
        Ok((write_position, databases.collect()))
    }

    /// A session in a database; `None` if a login trigger may run there. Whether it has one is looked at each time:
    /// hours may have gone by since the last.
    async fn enter(&self, database: &str) -> Result<Option<Connected>, EngineError> {
        if self.quiet == Quiet::Known {
            let fires = "select dathasloginevt from pg_database where datname = $1";
            let fires =
                self.client.query_opt(fires, &[&database]).await.map_err(|error| read_error(&error))?;
            let had_some = self.login_triggers.is_some_and(|known| known.iter().any(|name| name == database));
            if had_some || fires.is_none_or(|row| row.get(0)) {
                return Ok(None);
            }
        }
        connection::origin(&self.address.database(database), self.quiet).await.map(Some)
    }

    /// Rows that were written in these databases, or why that is not known.
    async fn rows_written(
        &self,
        databases: &[String],
        moves: &Moves,
    ) -> Result<Result<u64, String>, EngineError> {
        let fail = |error: tokio_postgres::Error| read_error(&error);
        if let Some(why) = self.client.query_one(UNCOUNTED, &[]).await.map_err(fail)?.get(0) {
            return Ok(Err(why));
        }
        let mut rows = 0;
        for database in databases {
            let Some(client) = self.enter(database).await? else { return Ok(Err(LOGIN_TRIGGER.to_owned())) };
            let count: i64 = client.query_one(ROWS_WRITTEN, &[]).await.map_err(fail)?.get(0);
            rows += u64::try_from(count).unwrap_or_default();
            moves.note(0);
        }
        Ok(Ok(rows))
    }
}

/// Rows that were written to tables of users since the statistics began. Those of sessions do not count, nor what ANALYZE
/// writes to catalogues.
const ROWS_WRITTEN: &str = "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint \
                            from pg_stat_user_tables s join pg_class c on c.oid = s.relid \
                            where c.relpersistence <> 't'";
/// Why rows that are written are not counted, if they are not.
const UNCOUNTED: &str = "select case \
    when pg_is_in_recovery() then 'this is a standby, which does not count them: a change that was undone is not seen' \
    when not current_setting('track_counts')::bool then 'track_counts is off: a change that was undone is not seen' end";

/// The role is not named: it belongs to the origin's address.
const LOGIN_TRIGGER: &str = "a login trigger may run there, and this source's role may not turn it off: \
                             GRANT SET ON PARAMETER event_triggers to it";

async fn read_database(client: &Client, database: &str, found: &mut Contents) -> Result<(), EngineError> {
    let fail = |error: tokio_postgres::Error| read_error(&error);
    let locked = contents::begin(client, |_, _| true).await?;
    contents::read(client, database, &locked, found).await?;
    definitions::of_database(client, database, found).await?;
    client.batch_execute("commit").await.map_err(fail)
}

/// That of an origin which is not read, and why.
pub(crate) fn of_none(why: &str) -> SourceFingerprint {
    let mut found = Contents::default();
    found.left_out.insert("everything".to_owned(), why.to_owned());
    assemble(clock::utc_now(), UNREAD, String::new(), None, found)
}

/// Whether it is one of an origin that is not read: no other one can be compared with it.
pub(crate) fn is_of_none(fingerprint: &SourceFingerprint) -> bool {
    fingerprint.method == UNREAD
}

/// The fingerprint of an origin that is files: one script, or a data directory.
pub(crate) async fn of_files(path: &Path) -> Result<SourceFingerprint, EngineError> {
    /// Ends the reading when nobody waits for it any more.
    struct Waits(Arc<AtomicBool>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Release);
        }
    }
    let waits = Waits(Arc::new(AtomicBool::new(true)));
    let (path, is_wanted) = (path.to_owned(), Arc::clone(&waits.0));
    let read = move || read_files(&path, &|| is_wanted.load(Ordering::Acquire));
    tokio::task::spawn_blocking(read).await.map_err(|error| import_failed(&error))?
}

fn read_files(path: &Path, is_wanted: &dyn Fn() -> bool) -> Result<SourceFingerprint, EngineError> {
    let taken_at = clock::utc_now();
    let mut found = Contents::default();
    for (name, file) in super::digest::files(path).map_err(|error| origin_io(path, &error))? {
        if !is_wanted() {
            return Err(origin_io(path, &std::io::ErrorKind::Interrupted.into()));
        }
        let (count, hash) = super::digest::file(path, &file).map_err(|error| origin_io(&file, &error))?;
        found.hashes.insert(name, ContentHash { count, hash: hash.to_hex().to_string() });
    }
    Ok(assemble(taken_at, "files", String::new(), None, found))
}

fn origin_io(path: &Path, error: &std::io::Error) -> EngineError {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    EngineError::new(Kind::Failed, "source_unreachable", format!("cannot read {name} of the source: {error}"))
}

fn assemble(
    taken_at: jiff::Timestamp,
    method: &str,
    write_position: String,
    rows_written: Option<u64>,
    found: Contents,
) -> SourceFingerprint {
    let Contents { hashes: contents, left_out, .. } = found;
    let mut hasher = blake3::Hasher::new();
    for (name, content) in &contents {
        hasher.update(format!("{name}\0{}\0{}\n", content.count, content.hash).as_bytes());
    }
    for name in left_out.keys() {
        hasher.update(format!("{name}\0left out\n").as_bytes());
    }
    let content_hash = hasher.finalize().to_hex().to_string();
    SourceFingerprint {
        taken_at,
        method: method.to_owned(),
        write_position,
        rows_written,
        contents,
        left_out,
        content_hash,
    }
}

/// Compares two fingerprints of one source.
#[must_use]
pub fn compare(before: &SourceFingerprint, after: &SourceFingerprint) -> SourceComparison {
    let incomparable = |why: String| SourceComparison {
        comparable: false,
        unchanged: false,
        differences: vec![why],
        nothing_written: false,
    };
    if before.method != after.method {
        return incomparable(format!(
            "the two cannot be compared: one was taken by the method {:?} of another version, one by {:?}; refresh the source",
            before.method, after.method
        ));
    }
    if let Some((_, why)) = [before, after]
        .into_iter()
        .filter(|fingerprint| fingerprint.contents.is_empty())
        .find_map(|fingerprint| fingerprint.left_out.first_key_value())
    {
        return incomparable(format!("the source's server was not read: {why}"));
    }
    let mut differences = Vec::new();
    for (name, old) in &before.contents {
        match after.contents.get(name) {
            None => differences.push(format!("{name} is gone")),
            Some(new) if new != old => {
                differences
                    .push(format!("{name}: {} rows then, {} rows now, other content", old.count, new.count));
            }
            Some(_) => {}
        }
    }
    for name in after.contents.keys().filter(|name| !before.contents.contains_key(*name)) {
        differences.push(format!("{name} is new"));
    }
    differences
        .extend(left_out_once(before, after).map(|name| format!("{name} is left out now, and was not then")));
    differences
        .extend(left_out_once(after, before).map(|name| format!("{name} was left out then, and is not now")));
    if before.rows_written != after.rows_written {
        differences.push(format!(
            "the server counted {} rows written then, {} now",
            before.rows_written.unwrap_or_default(),
            after.rows_written.unwrap_or_default()
        ));
    }
    SourceComparison {
        comparable: true,
        unchanged: differences.is_empty(),
        nothing_written: differences.is_empty() && before.write_position == after.write_position,
        differences,
    }
}

/// What is left out of `there`, and not of `here`.
fn left_out_once<'a>(
    here: &'a SourceFingerprint,
    there: &'a SourceFingerprint,
) -> impl Iterator<Item = &'a String> {
    there.left_out.keys().filter(|name| !here.left_out.contains_key(*name))
}

#[cfg(test)]
#[path = "../../tests/unit/fingerprint.rs"]
mod tests;
