//! What a copy lacks of its source, because of how it was made or of what is installed here: it is found at the import, not
//! by the first query.

use super::{connection, contents, import::invalid, refusal::read_error};
use crate::{
    error::EngineError,
    model::{Sanitised, SourceFingerprint},
};
use duramen_postgres::{Features, Installation};
use std::collections::BTreeMap;
use tokio_postgres::{Client, Config, Error};

/// The first major version whose databases can have ICU's collations.
const ICU_DATABASES_SINCE: u32 = 15;
/// The first major version that compresses values by LZ4.
const LZ4_SINCE: u32 = 14;

/// Checks that the installed server can open every database of the copy.
///
/// # Errors
/// `missing_feature`, with what to install.
pub(super) async fn check(
    server: &Config,
    major: u32,
    installation: &Installation,
) -> Result<(), EngineError> {
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
        let client = connection::own(&config, major).await?;
        let read = async {
            found.extend(unlogged(&client, database, source).await?);
            found.extend(collations(&client, features, installation).await?);
            found.extend(compressed(&client, major, features, installation).await?);
            for row in client.query(LIBRARIES, &[]).await? {
                let library: String = row.get(0);
                let is_there =
                    libraries.entry(library.clone()).or_insert_with(|| installation.has_library(&library));
                if !*is_there {
                    let dir = installation.bin_dir.display();
                    let action =
                        format!("not installed with the server in {dir}: its functions fail in branches");
                    found.push(entry("missing library", library, action));
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
