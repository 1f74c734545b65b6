//! The copy of a server's database by `pg_dump`: of servers that give nobody the right to replicate, and of other versions.

use super::{
    address::Address,
    connected::Connected,
    connection::{self, Quiet},
    draft::Draft,
    import::{invalid, Importer},
    manifest::SourceRecord,
    origin_server::{import_failed, OWNER},
    refusal::read_error,
    restore::{jobs, Fresh},
    stall::{slow, Still},
};
use crate::{
    error::{EngineError, Kind},
    model::Sanitised,
};
use duramen_postgres::{quote_identifier, quote_literal, Installation};
use std::{collections::BTreeSet, fs, path::Path, time::Duration};
use tokio_postgres::Client;

/// How often it is told that something came.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// The list of what is restored, if that is not everything.
const LIST: &str = "duramen_archive.list";
/// The first major version whose `pg_dump` leaves out extensions, with what was granted on their members.
const EXCLUDES_EXTENSIONS_SINCE: u32 = 17;
/// The first major version whose databases say who sorts for them.
const LOCALE_PROVIDERS_SINCE: u32 = 15;
/// The first major version in which the locale has one name, whoever sorts.
const ONE_LOCALE_SINCE: u32 = 17;

/// What is asked for besides the server's address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The major version of the branches.
    pub(super) major: Option<u32>,
    /// Extensions that are left out.
    pub(super) without: &'a [String],
}

/// What a session tells of a database that is to be dumped.
pub(super) struct Seen {
    pub(super) major: u32,
    /// Its extensions, but PL/pgSQL.
    extensions: BTreeSet<String>,
    /// Owners and grantees, and whether they are superusers.
    roles: Vec<(String, bool)>,
    owner: String,
    sorting: Sorting,
}

/// How a database stores and sorts texts.
pub(super) struct Sorting {
    encoding: String,
    collate: String,
    ctype: String,
    /// `c`, `i` or `b`, as in `pg_database`.
    provider: String,
    locale: String,
}

impl Sorting {
    /// That of a database.
    pub(super) async fn of(client: &Client, major: u32, database: &str) -> Result<Sorting, EngineError> {
        let provider = match major {
            ONE_LOCALE_SINCE.. => "datlocprovider::text, coalesce(datlocale, '')",
            LOCALE_PROVIDERS_SINCE.. => "datlocprovider::text, coalesce(daticulocale, '')",
            _ => "'c', ''",
        };
        let sql = format!(
            "select pg_encoding_to_char(encoding)::text, datcollate::text, datctype::text, {provider} \
             from pg_database where datname = $1::text"
        );
        let row = client.query_one(&sql, &[&database]).await.map_err(|error| read_error(&error))?;
        Ok(Sorting {
            encoding: row.get(0),
            collate: row.get(1),
            ctype: row.get(2),
            provider: row.get(3),
            locale: row.get(4),
        })
    }

    /// The arguments of `initdb` for a cluster that sorts so. Before 15 its locale has no provider.
    pub(super) fn of_cluster(&self, has_providers: bool) -> Vec<String> {
        let mut arguments = vec![
            format!("--encoding={}", self.encoding),
            format!("--lc-collate={}", self.collate),
            format!("--lc-ctype={}", self.ctype),
        ];
        if has_providers {
            arguments.extend(match self.provider.as_str() {
                "i" => vec!["--locale-provider=icu".to_owned(), format!("--icu-locale={}", self.locale)],
                "b" => {
                    vec!["--locale-provider=builtin".to_owned(), format!("--builtin-locale={}", self.locale)]
                }
                _ => vec!["--locale-provider=libc".to_owned()],
            });
        }
        arguments
    }

    /// The clauses of `CREATE DATABASE`.
    fn clauses(&self) -> String {
        let literal = |text: &str| quote_literal(text);
        let provider = match self.provider.as_str() {
            "i" => format!(" locale_provider icu icu_locale {}", literal(&self.locale)),
            "b" => format!(" locale_provider builtin builtin_locale {}", literal(&self.locale)),
            _ => String::new(),
        };
        format!(
            "{} lc_collate {} lc_ctype {}{provider}",
            self.bytewise_encoding(),
            literal(&self.collate),
            literal(&self.ctype)
        )
    }

    fn bytewise(&self) -> String {
        format!("{} lc_collate 'C' lc_ctype 'C'", self.bytewise_encoding())
    }

    fn bytewise_encoding(&self) -> String {
        format!("template template0 encoding {}", quote_literal(&self.encoding))
    }
}

impl Importer<'_> {
    /// Dumps a database of a running server, and restores it in a cluster of our own.
    pub(super) async fn dump_server(
        &self,
        record: &SourceRecord,
        (url, wanted): (&str, Wanted<'_>),
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<((Installation, String), Vec<Sanitised>), EngineError> {
        let origin = Address::parse(url)?;
        let database = database.unwrap_or_else(|| connection::database(&origin.config)).to_owned();
        let origin = origin.database(&database);
        let (client, quiet) = enter(&origin).await?;
        self.check_rules(record, &origin, &client, quiet, None).await?;
        let late = |_| slow("its catalogues were looked up", self.stall);
        let seen = tokio::time::timeout(self.stall, look_at(&client)).await.map_err(late)??;
        drop(client);
        let installation = self.installation_for(seen.major, wanted.major)?;
        let dumper = self.dumper(seen.major, &installation, &origin)?;
        let mut report =
            self.dump_with((&installation, &dumper), (&origin, quiet), &seen, wanted, &[], draft).await?;
        report.push(entry(
            "evidence",
            "live source",
            "not compared: sources that are dumped are read once, by pg_dump".to_owned(),
        ));
        Ok(((installation, database), report))
    }

    /// The same, of what is known of the server, by these programs: those that will serve, and those that dump, with more arguments.
    pub(super) async fn dump_with(
        &self,
        (installation, dumper): (&Installation, &Installation),
        (origin, quiet): (&Address, Quiet),
        seen: &Seen,
        wanted: Wanted<'_>,
        more_of_dump: &[String],
        draft: &Draft<'_>,
    ) -> Result<Vec<Sanitised>, EngineError> {
        let database = connection::database(&origin.config).to_owned();
        self.say("making the cluster");
        let fresh = self.fresh(draft, installation)?;
        let mut report = Vec::new();
        check_extensions(&fresh, seen, wanted.without).await?;
        report.extend(seen.extensions.iter().filter(|name| wanted.without.contains(name)).map(|name| {
            entry("extension", name, "left out, as was asked for with --without-extension".to_owned())
        }));
        report.extend(make_roles(&fresh, seen).await?);
        report.extend(make_database(&fresh, seen, &database).await?);
        self.run_dump(dumper, (origin, quiet), seen, (wanted.without, more_of_dump), &fresh, draft).await?;
        self.say("restoring the archive");
        let mut more = Vec::new();
        if !wanted.without.is_empty() && dumper.version.major < EXCLUDES_EXTENSIONS_SINCE {
            more.push(list_without(&fresh, wanted.without).await?);
        }
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        fresh.restore(&fresh.archive(), &more, &database).await.map_err(not_restored)?;
        let _ = fs::remove_file(draft.path.join(LIST));
        fresh.stop()?;
        Ok(report)
    }

    /// Programs that read the origin, and make branches of the version that was asked for.
    pub(super) fn installation_for(
        &self,
        major: u32,
        wanted: Option<u32>,
    ) -> Result<Installation, EngineError> {
        let refuse = |what: String| {
            invalid(
                "wrong_major",
                format!(
                    "the source's server is PostgreSQL {major}, and {what}: what was written for it need not work in an \
                     earlier one; name {major} or a later version with --pg, and install it (Debian's package \
                     postgresql-{major})"
                ),
            )
        };
        match wanted {
            Some(wanted) if wanted < major => Err(refuse(format!("branches of {wanted} were asked for"))),
            Some(wanted) => self.installation(wanted),
            None => {
                let newest = self.newest()?;
                match newest.version.major < major {
                    true => Err(refuse(format!("the newest that is installed here is {}", newest.version))),
                    false => Ok(newest),
                }
            }
        }
    }

    /// The programs that dump: those that will serve, unless it takes TLS that they do not have. Then those of an earlier
    /// version, not before the origin's, whose archives they can read.
    pub(super) fn dumper(
        &self,
        major: u32,
        installation: &Installation,
        origin: &Address,
    ) -> Result<Installation, EngineError> {
        if !origin.by_network() || installation.features().tls {
            return Ok(installation.clone());
        }
        let installed = Installation::discover(self.home.root())
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))?;
        let able = installed
            .into_iter()
            .filter(|found| (major..=installation.version.major).contains(&found.version.major))
            .filter(|found| found.features().tls)
            .max_by_key(|found| found.version.major);
        match able {
            Some(found) => Ok(found),
            None if origin.security.demands() => Err(invalid(
                "no_tls",
                format!(
                    "the URL asks for TLS, and no PostgreSQL from {major} to {} here was built with it; install one of these \
                     versions with TLS (Debian's package postgresql-{major}), or a later one, and name that with --pg",
                    installation.version.major
                ),
            )),
            None => Ok(installation.clone()),
        }
    }

    /// Runs `pg_dump` to its end, for as long as something comes.
    async fn run_dump(
        &self,
        dumper: &Installation,
        (origin, quiet): (&Address, Quiet),
        seen: &Seen,
        (without, more): (&[String], &[String]),
        fresh: &Fresh,
        draft: &Draft<'_>,
    ) -> Result<(), EngineError> {
        let archive = fresh.archive();
        let mut arguments = vec![
            format!("--dbname={}", origin.conninfo_to_read(quiet == Quiet::Off)),
            "--no-password".to_owned(),
            "--format=directory".to_owned(),
            format!("--file={}", archive.display()),
            format!("--jobs={}", jobs()),
            // It is read once.
            "--compress=1".to_owned(),
            "--no-sync".to_owned(),
            // Of the origin's machine; and what would follow another server.
            "--no-tablespaces".to_owned(),
            "--no-subscriptions".to_owned(),
        ];
        arguments.extend_from_slice(more);
        if dumper.version.major >= EXCLUDES_EXTENSIONS_SINCE {
            // A pattern; in quotes it is a name.
            let left_out = without.iter().filter(|name| seen.extensions.contains(*name));
            arguments.extend(left_out.map(|name| format!("--exclude-extension={}", quote_identifier(name))));
        }
        // As for base backups.
        let mut env = vec![("HOME".to_owned(), "/nonexistent".to_owned())];
        if let Some(password) = origin.config.get_password() {
            env.push(("PGPASSWORD".to_owned(), String::from_utf8_lossy(password).into_owned()));
        }
        let cluster = self.open_cluster(draft, dumper);
        let dump =
            tokio::task::spawn_blocking(move || cluster.run_with_env("pg_dump", &arguments, None, &env));
        tokio::pin!(dump);
        let mut still = Still::new(self.stall);
        self.say("dumping the server");
        loop {
            tokio::select! {
                done = &mut dump => {
                    let done = done.map_err(|error| import_failed(&error))?;
                    return done.map(drop).map_err(|error| dump_failed(&origin.hidden_in(&error.to_string())));
                }
                () = tokio::time::sleep(TOLD_EVERY) => {
                    let came = size(&archive);
                    (self.progress)(&format!("dumping the server: {} MB", came / 1_000_000), None);
                    // What still runs is ended with the draft.
                    still.look(came, || format!("it was dumped, after {} MB", came / 1_000_000))?;
                }
            }
        }
    }
}

/// A first session on the origin, in which no login trigger fires; or, if this role may not turn them off, in a database
/// that has none. What is only found out by that session is why such a database is refused after it.
pub(super) async fn enter(origin: &Address) -> Result<(Connected, Quiet), EngineError> {
    if let Some(entered) = connection::enter_origin(origin).await? {
        return Ok(entered);
    }
    let client = connection::origin(origin, Quiet::Known).await?;
    let fires = "select dathasloginevt from pg_database where datname = current_database()";
    let fires = client.query_one(fires, &[]).await.map_err(|error| read_error(&error))?;
    if fires.get(0) {
        return Err(invalid(
            "login_trigger",
            "the database has a login trigger, which would run in every session of pg_dump: GRANT SET ON PARAMETER \
             event_triggers to the source's role, or disable the trigger",
        ));
    }
    Ok((client, Quiet::Known))
}

/// Roles that own something in the database, or that it mentions; and the first superuser, whose objects are not listed.
const ROLES: &str = "
select r.rolname::text, r.rolsuper from pg_roles r
where r.rolname !~ '^pg_' and (r.oid = 10 or r.oid in (
  select s.refobjid from pg_shdepend s join pg_database d on d.datname = current_database()
  where s.refclassid = 'pg_authid'::regclass and (s.dbid = d.oid
    or (s.dbid = 0 and s.classid = 'pg_database'::regclass and s.objid = d.oid))))
order by 1";

pub(super) async fn look_at(client: &Client) -> Result<Seen, EngineError> {
    let fail = |error: tokio_postgres::Error| read_error(&error);
    let major = "select current_setting('server_version_num')::int / 10000";
    let major: i32 = client.query_one(major, &[]).await.map_err(fail)?.get(0);
    let major = u32::try_from(major).unwrap_or_default();
    let extensions = "select extname::text from pg_extension where extname <> 'plpgsql'";
    let extensions = client.query(extensions, &[]).await.map_err(fail)?;
    let roles = client.query(ROLES, &[]).await.map_err(fail)?;
    let database = "select datname::text, pg_get_userbyid(datdba)::text from pg_database where datname = current_database()";
    let row = client.query_one(database, &[]).await.map_err(fail)?;
    Ok(Seen {
        major,
        extensions: extensions.iter().map(|row| row.get(0)).collect(),
        roles: roles.iter().map(|row| (row.get(0), row.get(1))).collect(),
        owner: row.get(1),
        sorting: Sorting::of(client, major, row.get(0)).await?,
    })
}

/// Before hours are spent on what cannot be restored.
async fn check_extensions(fresh: &Fresh, seen: &Seen, without: &[String]) -> Result<(), EngineError> {
    let client = fresh.client("postgres").await?;
    let here = "select name::text from pg_available_extensions";
    let here = client.query(here, &[]).await.map_err(|error| read_error(&error))?;
    let here: BTreeSet<String> = here.iter().map(|row| row.get(0)).collect();
    let missing: Vec<&str> = seen
        .extensions
        .iter()
        .filter(|name| !here.contains(*name) && !without.contains(name))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let installation = fresh.cluster.installation();
    Err(invalid(
        "missing_extension",
        format!(
            "the source uses extensions that are not installed with PostgreSQL {} in {}: {}; install them, or, if they hold \
             nothing of yours, leave each out with --without-extension NAME",
            installation.version,
            installation.bin_dir.display(),
            missing.join(", ")
        ),
    ))
}

/// Makes the roles that the dump names. Nobody can log in as one.
async fn make_roles(fresh: &Fresh, seen: &Seen) -> Result<Vec<Sanitised>, EngineError> {
    let client = fresh.client("postgres").await?;
    let mut report = Vec::new();
    for (name, is_superuser) in seen.roles.iter().filter(|(name, _)| name != OWNER) {
        // Event triggers belong to superusers alone. None is one once the copy has been made harmless.
        let rights = if *is_superuser { "nologin superuser" } else { "nologin" };
        let create = format!("create role {} {rights}", quote_identifier(name));
        client.batch_execute(&create).await.map_err(|error| read_error(&error))?;
        let action = "made without login, password and memberships: the source names it as owner or grantee";
        report.push(entry("role", name, action.to_owned()));
    }
    Ok(report)
}

/// Makes the database, which stores and sorts texts as the source's does, if that can be had here.
async fn make_database(fresh: &Fresh, seen: &Seen, database: &str) -> Result<Option<Sanitised>, EngineError> {
    let fail = |error: tokio_postgres::Error| read_error(&error);
    let client = fresh.client("template1").await?;
    let name = quote_identifier(database);
    client.batch_execute(&format!("drop database if exists {name}")).await.map_err(fail)?;
    let create = |clauses: String| format!("create database {name} {clauses}");
    let mut report = None;
    if let Err(error) = client.batch_execute(&create(seen.sorting.clauses())).await {
        client.batch_execute(&create(seen.sorting.bytewise())).await.map_err(fail)?;
        let Sorting { collate, locale, .. } = &seen.sorting;
        let sorted = if locale.is_empty() { collate } else { locale };
        let reason = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
        report = Some(entry(
            "missing collation",
            database,
            format!("branches sort by bytes (C); the source sorts by {sorted}, which is not to be had here: {reason}"),
        ));
    }
    let owner = quote_identifier(&seen.owner);
    client.batch_execute(&format!("alter database {name} owner to {owner}")).await.map_err(fail)?;
    Ok(report)
}

/// Writes the archive's list without these extensions; gives the argument that names it.
async fn list_without(fresh: &Fresh, without: &[String]) -> Result<String, EngineError> {
    let cluster = fresh.cluster.clone();
    let arguments = ["--list".to_owned(), fresh.archive().display().to_string()];
    let list = move || cluster.run_with_env("pg_restore", &arguments, None, &[]);
    let list = tokio::task::spawn_blocking(list).await.map_err(|error| import_failed(&error))?;
    let list = list.map_err(|error| import_failed(&error))?;
    let kept: Vec<&str> = list.lines().filter(|line| !is_of_extension(line, without)).collect();
    fresh.cluster.write_file(LIST, &(kept.join("\n") + "\n")).map_err(|error| import_failed(&error))?;
    Ok(format!("--use-list={}", fresh.cluster.data_dir().join(LIST).display()))
}

/// Whether a line of an archive's list makes one of these extensions, or describes it.
fn is_of_extension(line: &str, names: &[String]) -> bool {
    // Number, table and object id, what it is, schema, name, owner.
    let what = line.split_once("; ").and_then(|(_, rest)| rest.splitn(3, ' ').nth(2)).unwrap_or_default();
    let what = what.trim_end();
    names
        .iter()
        .any(|name| what == format!("EXTENSION - {name}") || what == format!("COMMENT - EXTENSION {name}"))
}

fn size(dir: &Path) -> u64 {
    walkdir::WalkDir::new(dir)
        .into_iter()
        .flatten()
        .filter_map(|file| file.metadata().ok())
        .map(|m| m.len())
        .sum()
}

/// What `pg_dump` said, which names what could not be read.
fn dump_failed(said: &str) -> EngineError {
    let hint = if said.contains("row-level security") {
        "; the source's role needs BYPASSRLS, because rows that it may not see would be missing"
    } else if said.contains("permission denied") {
        "; nothing is left out silently: let the source's role read every table, sequence and large object of the database \
         (GRANT pg_read_all_data)"
    } else if said.contains("snapshot") {
        "; pg_dump needs sessions of one server: give the URL of the server itself, not of a pooler"
    } else {
        ""
    };
    EngineError::new(Kind::Failed, "dump_failed", format!("{said}{hint}"))
}

fn not_restored(error: EngineError) -> EngineError {
    let said = error.message.strip_prefix("the script failed: ").unwrap_or(&error.message);
    let message = format!("what was dumped cannot be restored: {said}");
    EngineError::new(Kind::Failed, "restore_failed", message)
}

fn entry(kind: &str, object: &str, action: String) -> Sanitised {
    Sanitised { kind: kind.to_owned(), object: object.to_owned(), action }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_an_extension_is_taken_from_the_list() {
        let names = ["hstore".to_owned(), "a b".to_owned()];
        for (line, is_left_out) in [
            ("2; 3079 16385 EXTENSION - hstore ", true),
            ("3456; 0 0 COMMENT - EXTENSION hstore ", true),
            ("7; 3079 16386 EXTENSION - a b ", true),
            ("2; 3079 16385 EXTENSION - hstore2 ", false),
            ("220; 1259 16400 TABLE public EXTENSION - hstore boss", false),
            ("; 3079 16385 a comment", false),
            ("", false),
        ] {
            assert_eq!(is_of_extension(line, &names), is_left_out, "{line}");
        }
    }
}
