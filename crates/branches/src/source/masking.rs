//! Masking: values of the source are replaced, and rows left out, before any branch exists.
//!
//! The copy lies on a [`scratch::Scratch`] from its first byte. Once it is harmless its rules are applied there, every
//! relation is written anew, and of the files only those of relations that there are reach the volume store, which so
//! never holds an original value, in whatever form a server keeps one: dead rows, free space, indexes, statistics, WAL.
//!
//! The administrator's sessions run nothing that a user of the source wrote: they read values of built-in types, and
//! change the catalogue. Conditions for rows are read by the role that may only read. Columns are written by the role
//! that may do as much as the holder of a branch, because constraints are the source's. The key never enters the server.

mod catalogue;
mod class;
mod columns;
mod fakes;
mod guess;
mod json;
mod labels;
mod live;
mod masker;
mod numbers;
mod pseudonym;
mod quiet;
mod reload;
mod rewrite;
mod rows;
mod rules;
mod scan;
pub(crate) mod scratch;
mod shape;
mod stream;
mod subset;

pub(crate) use live::LiveFiles;
pub(crate) use scratch::Scratch;

use super::{
    connected::Connected,
    connection,
    manifest::SourceRecord,
    origin_server::local,
    sanitise::{self, ADMIN, HOLDER},
};
use crate::{
    error::{EngineError, Kind},
    home::Home,
    model::{Finding, Masking, Sanitised},
};
use catalogue::Catalogue;
use duramen_base::clock;
use duramen_postgres::Secret;
use pseudonym::Pseudonyms;
use rules::Rules;
use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
};
use tokio_postgres::{Client, Config};

/// As whom conditions for rows are evaluated.
pub(crate) const READER: &str = "duramen_read";
/// Where the statements of this module keep what they need; dropped at the end.
const SCHEMA: &str = "duramen_masking";
/// How many labelled columns an error names.
const NAMED: usize = 10;

/// Applies the rules of a source to its copy, which is harmless by now, and leaves nothing in it that they are about. A
/// source without rules is refused if it has labels. `admin` leads to the database that branches serve.
pub(crate) async fn apply(
    home: &Home,
    record: &SourceRecord,
    admin: &Config,
    socket_dir: &Path,
    major: u32,
) -> Result<Vec<Sanitised>, EngineError> {
    let Some(masking) = &record.settings.masking else {
        refuse_labels(admin, major).await?;
        return Ok(Vec::new());
    };
    let database = connection::database(admin);
    let dir = scratch::dir(home.root());
    let pass = Pass { masking, admin, socket_dir, database, major, dir };
    let begin = clock::now();
    let report = pass.run(&Pseudonyms::new(&home.masking_secret(&record.name))).await?;
    let masking_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(source = %record.name, masking_ms, "rules for masking were applied");
    Ok(report)
}

/// Why the rules of a source do not fit what the origin's database that branches will serve holds now, by its catalogue, if
/// they do not. The copy is judged again: by then the origin may have changed.
///
/// # Errors
/// The catalogue could not be read.
pub(crate) async fn misfit(
    record: &SourceRecord,
    origin: &Client,
    database: &str,
) -> Result<Option<EngineError>, EngineError> {
    Ok(match &record.settings.masking {
        Some(masking) => {
            Rules::resolve(masking, &Catalogue::read(origin).await?).err().map(EngineError::from)
        }
        None => refuse(catalogue::labelled(origin, database).await?).err(),
    })
}

/// The files that a masked snapshot is made of, as long as the server of its copy runs.
pub(crate) async fn live_files(
    record: &SourceRecord,
    admin: &Config,
    major: u32,
) -> Result<Option<LiveFiles>, EngineError> {
    match record.settings.masking {
        Some(_) => LiveFiles::read(admin, major).await.map(Some),
        None => Ok(None),
    }
}

/// What looks personal in the copy and is not masked. `reader` leads to the database that branches serve, as [`READER`].
pub(crate) async fn look(
    record: &SourceRecord,
    admin: &Config,
    reader: &Config,
    major: u32,
) -> Result<Vec<Finding>, EngineError> {
    let admin = connection::own(admin, major).await?;
    let reader = connection::plain(reader, true).await?;
    Ok(scan::look(&admin, &reader, record.settings.masking.as_ref()).await?)
}

/// The rules of a source with one for each finding.
pub(crate) fn proposed(rules: Option<&Masking>, found: &[Finding]) -> Masking {
    scan::with_findings(rules, found)
}

/// What is reported of a scratch that does not overwrite everything.
pub(crate) fn half_overwritten(is_overwritten: bool) -> Option<Sanitised> {
    let action =
        "deleted; files that the server had deleted earlier were not overwritten, which only root can do";
    (!is_overwritten).then(|| masked("scratch", "plain directory", action.to_owned()))
}

/// The masking of one import.
struct Pass<'a> {
    masking: &'a Masking,
    /// The administrator's way into the served database.
    admin: &'a Config,
    socket_dir: &'a Path,
    database: &'a str,
    major: u32,
    /// That of the scratch.
    dir: PathBuf,
}

/// Why rules were not applied. No message holds a value: what servers say may.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the rules do not fit the source, and nothing was imported: {}", .0.join("; "))]
    Refused(Vec<String>),
    #[error("{doing} failed ({}), and nothing was imported; what the server said is withheld, because it may hold values that the rules are about", .refusal.as_deref().unwrap_or("the session ended"))]
    Server {
        doing: String,
        /// What the server said; `None` if the session ended.
        refusal: Option<String>,
    },
    #[error("{0}, and nothing was imported")]
    Wrong(String),
    #[error("{0}")]
    Engine(EngineError),
}

impl From<Failure> for EngineError {
    fn from(failure: Failure) -> EngineError {
        let message = failure.to_string();
        match failure {
            Failure::Engine(error) => error,
            Failure::Refused(_) => EngineError::new(Kind::Invalid, "masking_refused", message),
            Failure::Server { .. } | Failure::Wrong(_) => {
                EngineError::new(Kind::Failed, "masking_failed", message)
            }
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Failure::Engine(error)
    }
}

/// What a server refused, by what names no value: its code, and the constraint or table that it is about.
fn failed(doing: &str) -> impl FnOnce(tokio_postgres::Error) -> Failure {
    let doing = doing.to_owned();
    move |error| {
        let refusal = error.as_db_error().map(|refusal| {
            let about = [("constraint", refusal.constraint()), ("table", refusal.table())];
            let about = about.iter().filter_map(|(what, name)| Some(format!(", {what} {}", (*name)?)));
            format!("SQLSTATE {}{}", refusal.code().code(), about.collect::<String>())
        });
        Failure::Server { doing, refusal }
    }
}

impl Pass<'_> {
    async fn run(&self, pseudonyms: &Pseudonyms) -> Result<Vec<Sanitised>, Failure> {
        let mut report = Vec::new();
        let admin = connection::own(self.admin, self.major).await?;
        let rules = Rules::resolve(self.masking, &Catalogue::read(&admin).await?)?;
        let stilled = sanitise::still_event_triggers(&admin, self.major)
            .await
            .map_err(failed("turning event triggers off"))?;
        let secret = self.admit(&admin).await?;
        quiet::begin(&admin, &rules).await?;

        // New sessions: those before may remember triggers as they were.
        let sessions = Sessions {
            read: connection::own(self.admin, self.major).await?,
            write: connection::own(self.admin, self.major).await?,
            reader: connection::plain(&self.local(READER, &secret), true).await?,
            holder: connection::plain(&self.local(HOLDER, &secret), false).await?,
        };
        // Where nothing changes definitions any more.
        let catalogue = Catalogue::read(&admin).await?;
        report.extend(rows::remove(&sessions, &catalogue, &rules, pseudonyms).await?);
        report.extend(subset::keep(&sessions, &catalogue, &rules, pseudonyms).await?);
        let (masked, reloaded) =
            columns::mask(&sessions, &catalogue, &rules, (pseudonyms, &self.dir)).await?;
        report.extend(masked);
        quiet::end(&admin, &sessions.reader, &catalogue, &rules, &reloaded).await?;
        rows::check_keys(&sessions, &catalogue, &rules).await?;
        drop(sessions);

        report.extend(rewrite::derived(&admin).await?);
        quiet::forget(&admin).await?;
        sanitise::release_event_triggers(&admin, self.major, &stilled, &mut report)
            .await
            .map_err(failed("turning event triggers on"))?;
        report.extend(rewrite::databases(&admin, self.admin, self.database, self.major).await?);
        let written: Vec<u32> = rules.columns.keys().copied().collect();
        rewrite::everything(&admin, &written).await?;
        Ok(report)
    }

    fn local(&self, role: &str, secret: &Secret) -> Config {
        local(self.socket_dir, role, secret, self.database)
    }

    /// Gives the roles that act here a secret, which later ones replace.
    async fn admit(&self, admin: &Client) -> Result<Secret, Failure> {
        let secret = Secret::random();
        for role in [READER, HOLDER] {
            let statement = format!("alter role {role} password '{}'", secret.verifier(NonZeroU32::MIN));
            admin.batch_execute(&statement).await.map_err(failed("admitting our own roles"))?;
        }
        Ok(secret)
    }
}

/// Sessions on the copy.
struct Sessions {
    /// As administrator: what is read by one may be written by the other.
    read: Connected,
    write: Connected,
    /// As the role that may only read.
    reader: Connected,
    /// As the role that may do as much as the holder of a branch.
    holder: Connected,
}

/// Refuses a source that has labels of PostgreSQL Anonymizer and no rules: somebody wanted these columns masked.
async fn refuse_labels(server: &Config, major: u32) -> Result<(), EngineError> {
    let mut found = Vec::new();
    for database in sanitise::databases(server, major).await? {
        let mut config = server.clone();
        config.dbname(&database);
        let client = connection::uncounted(&config, major).await?;
        found.extend(catalogue::labelled(&client, &database).await?);
    }
    refuse(found)
}

/// Refuses if columns with labels were found.
fn refuse(mut found: Vec<String>) -> Result<(), EngineError> {
    if found.is_empty() {
        return Ok(());
    }
    let more = if found.len() > NAMED { format!(" and {} more", found.len() - NAMED) } else { String::new() };
    found.truncate(NAMED);
    Err(EngineError::new(
        Kind::Invalid,
        "labels_without_masking",
        format!(
            "the source has columns that are labelled for masking ({}{more}), and is added without rules; give it rules \
             with --masking, of which an empty object applies the labels, and \"keep\" leaves a column as it is",
            found.join(", ")
        ),
    ))
}

/// The roles that the server of a copy lets in.
pub(crate) fn admitted_roles() -> String {
    format!("{ADMIN},{HOLDER},{READER}")
}

/// An error of an import of a source with rules, without what servers and programs said of its original values.
pub(crate) fn withheld(mut error: EngineError) -> EngineError {
    let what = match error.code {
        "bad_script" => "the script failed",
        "source_error" => "the server of the source, or of its copy, refused a statement",
        "sanitise_failed" => "the copy could not be made harmless",
        "import_failed" | "server_failed" | "backup_failed" | "dump_failed" | "restore_failed" => {
            "a program of PostgreSQL failed"
        }
        _ => return error,
    };
    // `psql` names the line, and a line number gives no value away.
    let line = error.message.split_once("psql:<stdin>:").and_then(|(_, rest)| rest.split_once(':'));
    let line = line.filter(|(number, _)| number.bytes().all(|digit| digit.is_ascii_digit()));
    let place = line.map(|(number, _)| format!(" in line {number}")).unwrap_or_default();
    let full = error.message.contains(super::draft::NO_ROOM);
    error.message = format!(
        "{what}{place}{}; what was said is withheld, because it may hold values that the rules of the source are about",
        if full { " (No space left on device)" } else { "" }
    );
    error
}

fn masked(kind: &str, object: &str, action: String) -> Sanitised {
    Sanitised { kind: kind.to_owned(), object: object.to_owned(), action }
}
