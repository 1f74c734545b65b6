//! What a copy lacks of its source, because of how it was made or of what is installed here: it is found at the import, not
//! by the first query.

use super::{connection, contents, import::invalid, refusal::read_error, sanitise};
use crate::{
    error::EngineError,
    model::{Sanitised, SourceFingerprint},
};
use duramen_postgres::{Features, Installation};
use std::collections::BTreeMap;
use tokio_postgres::{Client, Config, Error};

/// The first major version whose databases can have ICU's collations.
const ICU_DATABASES_SINCE: u32 = 15;
/// The first major version whose planner asks access methods about operators.
const METHODS_ASKED_SINCE: u32 = 18;
/// The id of the language C, in every server.
const C_LANGUAGE: u32 = 13;
/// The first major version that compresses values by LZ4.
const LZ4_SINCE: u32 = 14;

/// What the report calls a library that is not installed here.
pub(super) const MISSING_LIBRARY: &str = "missing library";

/// Checks that the installed server can open every database of the copy, and every table in it.
///
/// # Errors
/// `missing_feature` or `missing_library`, with what to install.
pub(super) async fn check(
    server: &Config,
    major: u32,
    installation: &Installation,
) -> Result<(), EngineError> {
    sorting(server, major, installation).await?;
    for database in sanitise::databases(server, major).await? {
        let mut config = server.clone();
        config.dbname(&database);
        let client = connection::uncounted(&config, major).await?;
        for row in client.query(&access_methods(major), &[]).await.map_err(|error| read_error(&error))? {
            let (library, method): (&str, &str) = (row.get(0), row.get(1));
            if !installation.has_library(library) {
                return Err(invalid(
                    "missing_library",
                    format!(
                        "database {database} needs the access method {method}, whose library {library} {}: \
                         install the source's extensions for PostgreSQL {major}, or set DURAMEN_PG_BIN to the directory of a \
                         server that has them",
                        is_not_with(installation)
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// The access methods that are needed, with their libraries. Without one, no table that uses it can be opened at all, not
/// even to give it another owner. From 18 on, the planner also asks those that have operators of the system, whether or not
/// they are used; so nothing here compares or sorts what an extension could index.
fn access_methods(major: u32) -> String {
    let asked = if major >= METHODS_ASKED_SINCE {
        "or exists (select from pg_catalog.pg_amop o where o.amopmethod = a.oid and o.amopopr < 16384::oid)"
    } else {
        ""
    };
    format!(
        "select p.probin, a.amname::text from pg_catalog.pg_am a \
         join pg_catalog.pg_proc p on p.oid = a.amhandler::oid where p.prolang = {C_LANGUAGE}::oid and p.oid >= 16384::oid \
         and (exists (select from pg_catalog.pg_class c where c.relam = a.oid) {asked})"
    )
}

fn is_not_with(installation: &Installation) -> String {
    format!("is not installed with the server in {}", installation.bin_dir.display())
}

/// Databases that sort by ICU need a server that has it.
async fn sorting(server: &Config, major: u32, installation: &Installation) -> Result<(), EngineError> {
    if major < ICU_DATABASES_SINCE || installation.features().icu {
        return Ok(());
    }
    let client = connection::own(server, major).await?;
    let by_icu = "select datname::text from pg_catalog.pg_database where datlocprovider = 'i' and datallowconn order by 1 limit 1";
    let found = client.query_opt(by_icu, &[]).await.map_err(|error| read_error(&error))?;
    found.map_or(Ok(()), |row| {
        let name: &str = row.get(0);
        Err(invalid(
            "missing_feature",
            format!("database {name} sorts by collations of ICU; {}", lacks(installation, "ICU")),
        ))
    })
}

fn lacks(installation: &Installation, what: &str) -> String {
    let (version, dir) = (installation.version, installation.bin_dir.display());
    format!(
        "PostgreSQL {version} in {dir} was built without {what}: install another of the same major version (Debian's package \
         postgresql-{}), or set DURAMEN_PG_BIN to the directory that holds it",
        version.major
    )
}

/// What is missing in the databases of a copy, for the report of its import.
pub(super) async fn report(
    server: &Config,
    major: u32,
    databases: &[String],
    installation: &Installation,
    source: &SourceFingerprint,
) -> Result<Vec<Sanitised>, EngineError> {
    let features = installation.features();
    let mut libraries: BTreeMap<String, bool> = BTreeMap::new();
    let mut found = Vec::new();
    for database in databases {
        let mut config = server.clone();
        config.dbname(database);
        let client = connection::uncounted(&config, major).await?;
        let read = async {
            found.extend(unlogged(&client, database, source).await?);
            found.extend(collations(&client, features, installation).await?);
            found.extend(compressed(&client, major, features, installation).await?);
            for row in client.query(LIBRARIES, &[]).await? {
                let library: String = row.get(0);
                let is_there =
                    libraries.entry(library.clone()).or_insert_with(|| installation.has_library(&library));
                if !*is_there {
                    let action = format!(
                        "{}: its functions, and values of its types, fail in branches",
                        is_not_with(installation)
                    );
                    found.push(entry(MISSING_LIBRARY, library, action));
                }
            }
            Ok::<_, Error>(())
        };
        read.await.map_err(|error| read_error(&error))?;
    }
    found.sort_by(|a, b| (&a.kind, &a.object).cmp(&(&b.kind, &b.object)));
    found.dedup();
    Ok(found)
}

/// The libraries that functions of the source are in.
const LIBRARIES: &str = "select distinct p.probin from pg_catalog.pg_proc p \
    join pg_catalog.pg_language l on l.oid = p.prolang where l.lanname = 'c' and p.oid >= 16384::oid order by 1";

/// Unlogged tables that are empty here: a copy of a running server, or one that is recovered, has none of their rows.
async fn unlogged(
    client: &Client,
    database: &str,
    source: &SourceFingerprint,
) -> Result<Vec<Sanitised>, Error> {
    let empty = "select n.nspname::text, c.relname::text from pg_catalog.pg_class c \
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                 where c.relkind = 'r' and c.relpersistence = 'u' and pg_relation_size(c.oid::regclass) = 0::int8 order by 1, 2";
    let mut found = Vec::new();
    for row in client.query(empty, &[]).await? {
        let key = contents::key([database, row.get(0), row.get(1)]);
        let action = match source.contents.get(&key) {
            Some(content) if content.count == 0 => continue,
            Some(content) => format!("empty in branches: it had {} rows in the source", content.count),
            None => "empty in branches, whatever it held in the source".to_owned(),
        };
        found.push(entry("unlogged table", key, action));
    }
    Ok(found)
}

/// Columns and indexes that sort by ICU, where the server cannot.
async fn collations(
    client: &Client,
    features: Features,
    installation: &Installation,
) -> Result<Vec<Sanitised>, Error> {
    if features.icu {
        return Ok(Vec::new());
    }
    let used = "select distinct c.collname::text from pg_catalog.pg_collation c where c.collprovider = 'i' and ( \
                exists (select from pg_catalog.pg_attribute a where a.attcollation = c.oid and a.attrelid >= 16384::oid) \
                or exists (select from pg_catalog.pg_depend d where d.refclassid = 3456::oid and d.refobjid = c.oid)) order by 1";
    let rows = client.query(used, &[]).await?;
    Ok(rows.iter().map(|row| entry("missing collation", row.get(0), lacks(installation, "ICU"))).collect())
}

/// Columns whose values may be compressed by LZ4, where the server cannot read that.
async fn compressed(
    client: &Client,
    major: u32,
    features: Features,
    installation: &Installation,
) -> Result<Vec<Sanitised>, Error> {
    if features.lz4 || major < LZ4_SINCE {
        return Ok(Vec::new());
    }
    let columns = "select n.nspname::text, c.relname::text, a.attname::text from pg_catalog.pg_attribute a \
                   join pg_catalog.pg_class c on c.oid = a.attrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                   where a.attcompression = 'l' and c.relkind in ('r', 'm', 'p') and not a.attisdropped order by 1, 2, 3";
    let rows = client.query(columns, &[]).await?;
    let object = |row: &tokio_postgres::Row| contents::key([row.get(0), row.get(1), row.get(2)]);
    Ok(rows.iter().map(|row| entry("missing compression", object(row), lacks(installation, "lz4"))).collect())
}

fn entry(kind: &str, object: String, action: String) -> Sanitised {
    Sanitised { kind: kind.to_owned(), object, action }
}
