//! What the tables of a live source hold, read without running anything that its users wrote.
//!
//! Tables are read by `COPY table (columns) TO STDOUT (FORMAT binary)`. It is the one way that plans nothing: a `SELECT`
//! of a table, even without a condition, lets the planner evaluate the constant parts of its index expressions and
//! extended statistics as the role that reads, so the table's owner would act with that role's rights. `COPY` of a table
//! also refuses views and foreign tables by itself, whatever took the table's name meanwhile, and reads no generated
//! column. What is left is the output function of each column's type, which is looked at first. For that to hold, each
//! table is locked against changes of its definition, and looked at after that.

use super::{refusal::read_error, stall::Moves};
use crate::{
    error::{EngineError, Kind},
    model::ContentHash,
};
use duramen_postgres::quote_identifier;
use futures_util::TryStreamExt;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_postgres::{Client, Error, Row};

/// The first major version that copies materialised views out.
const COPIES_VIEWS_SINCE: i32 = 18;
/// Schemas of others than the system.
const USER_SCHEMAS: &str = "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";

/// The system's types, and those whose values are written in binary by functions of the system or of superusers, all
/// types that they are made of included. Domains carry the function of their base; enumerations, arrays, ranges and
/// composites have the system's, which calls those of their parts.
const TYPES_TO_LEAVE_OUT: &str = "
with recursive made_of (root, part) as (
  select distinct a.atttypid, a.atttypid from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relkind in ('r', 'm') and a.attnum > 0 and not a.attisdropped
  union
  select m.root, p.part from made_of m join pg_type t on t.oid = m.part cross join lateral (
    select t.typelem union all select t.typbasetype
    union all select r.rngsubtype from pg_range r where r.rngtypid = t.oid
    union all select r.rngtypid from pg_range r where r.rngmultitypid = t.oid
    union all select a.atttypid from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
  ) p (part) where p.part <> 0
)
select distinct m.root from made_of m
left join pg_type t on t.oid = m.part
left join pg_proc f on f.oid = t.typsend
left join pg_roles o on o.oid = f.proowner
where f.oid is null or not (f.oid < 16384 or coalesce(o.rolsuper, false))";

/// What was read of one database.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) hashes: BTreeMap<String, ContentHash>,
    /// What was not read, and why.
    pub(crate) left_out: BTreeMap<String, String>,
    /// That something of them came.
    pub(crate) moves: Moves,
    /// What is being read.
    pub(crate) at: At,
}

/// The table that is being read.
#[derive(Debug, Clone, Default)]
pub(crate) struct At(Arc<Mutex<Option<String>>>);

impl At {
    fn is(&self, table: Option<&str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = table.map(str::to_owned);
    }

    /// For messages.
    pub(crate) fn name(&self, database: &str) -> String {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.as_ref().map_or_else(|| format!("database {database}"), |table| format!("table {table}"))
    }
}

/// One table or materialised view, as it was found.
struct Relation {
    schema: String,
    name: String,
    columns: Vec<String>,
    /// Whether it has columns besides `columns`.
    more: bool,
}

/// Begins a read-only transaction in which every table that is there now and that is `wanted` keeps its definition.
pub(crate) async fn begin(
    client: &Client,
    wanted: impl Fn(&str, &str) -> bool,
) -> Result<BTreeSet<(String, String)>, EngineError> {
    let fail = |error: Error| read_error(&error);
    let tables = client
        .query(
            &format!(
                "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                 where c.relkind = 'r' and c.relpersistence <> 't' and {USER_SCHEMAS} order by 1, 2"
            ),
            &[],
        )
        .await
        .map_err(fail)?;
    let tables: BTreeSet<(String, String)> = tables
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .filter(|(schema, name): &(String, String)| wanted(schema, name))
        .collect();
    client.batch_execute("begin isolation level repeatable read, read only").await.map_err(fail)?;
    if !tables.is_empty() {
        // Before the transaction's first query: its snapshot is then later than the locks.
        let names: Vec<String> =
            tables.iter().map(|(schema, name)| format!("only {}", qualified(schema, name))).collect();
        let lock = format!("lock table {} in access share mode", names.join(", "));
        client.batch_execute(&lock).await.map_err(fail)?;
    }
    Ok(tables)
}

/// Reads every table of a database, in the transaction of [`begin`].
pub(crate) async fn read(
    client: &Client,
    database: &str,
    locked: &BTreeSet<(String, String)>,
    contents: &mut Contents,
) -> Result<(), EngineError> {
    let encoding = read_tables(client, database, locked, |_, _| true, contents).await?;
    large_objects(client, database, &encoding, contents).await
}

/// Reads the tables that are `wanted`, and nothing else.
pub(crate) async fn read_only(
    client: &Client,
    database: &str,
    wanted: impl Fn(&str, &str) -> bool,
) -> Result<Contents, EngineError> {
    let mut contents = Contents::default();
    let locked = begin(client, &wanted).await?;
    read_tables(client, database, &locked, &wanted, &mut contents).await?;
    client.batch_execute("commit").await.map_err(|error| read_error(&error))?;
    Ok(contents)
}

/// Gives the encoding of the database.
async fn read_tables(
    client: &Client,
    database: &str,
    locked: &BTreeSet<(String, String)>,
    wanted: impl Fn(&str, &str) -> bool,
    contents: &mut Contents,
) -> Result<String, EngineError> {
    let fail = |error: Error| read_error(&error);
    let unreadable: BTreeSet<u32> =
        client.query(TYPES_TO_LEAVE_OUT, &[]).await.map_err(fail)?.iter().map(|row| row.get(0)).collect();
    let columns = client
        .query(
            "select a.attrelid, a.attname::text, a.attgenerated <> '', a.atttypid from pg_attribute a \
             join pg_class c on c.oid = a.attrelid \
             where c.relkind in ('r', 'm') and a.attnum > 0 and not a.attisdropped order by a.attrelid, a.attnum",
            &[],
        )
        .await
        .map_err(fail)?;
    let mut columns_of: HashMap<u32, Vec<Row>> = HashMap::new();
    for column in columns {
        columns_of.entry(column.get(0)).or_default().push(column);
    }
    let relations = client
        .query(
            &format!(
                "select c.oid, n.nspname::text, c.relname::text, c.relkind = 'm', \
                   case when row_security_active(c.oid) then 'row-level security applies to this role: it needs BYPASSRLS' \
                        when not c.relispopulated then 'it is not populated' \
                        when c.relpersistence = 'u' and pg_is_in_recovery() then 'it is unlogged, and this is a standby' \
                        when c.relkind = 'm' and current_setting('server_version_num')::int / 10000 < {COPIES_VIEWS_SINCE} \
                          then 'materialised views can be read safely from PostgreSQL {COPIES_VIEWS_SINCE} on' end \
                 from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                 where c.relkind in ('r', 'm') and c.relpersistence <> 't' and {USER_SCHEMAS} order by 2, 3"
            ),
            &[],
        )
        .await
        .map_err(fail)?;
    let encoding: String =
        client.query_one("select current_setting('server_encoding')", &[]).await.map_err(fail)?.get(0);
    for row in relations {
        let (schema, name): (String, String) = (row.get(1), row.get(2));
        if !wanted(&schema, &name) {
            continue;
        }
        if !row.get::<_, bool>(3) && !locked.contains(&(schema.clone(), name.clone())) {
            // Made after the tables were locked: the next fingerprint sees it.
            continue;
        }
        let key = key([database, &schema, &name]);
        if let Some(reason) = row.get::<_, Option<String>>(4) {
            contents.left_out.insert(key, reason);
            continue;
        }
        let mut relation = Relation { schema, name, columns: Vec::new(), more: false };
        for column in columns_of.get(&row.get(0)).into_iter().flatten() {
            let name: String = column.get(1);
            let reason = if column.get(2) {
                Some("it is generated from other columns")
            } else if unreadable.contains(&column.get(3)) {
                Some("its type is not written in binary by functions of the system or of a superuser")
            } else {
                None
            };
            match reason {
                Some(reason) => {
                    contents.left_out.insert(format!("{key}.{}", self::key([&name])), reason.to_owned());
                    relation.more = true;
                }
                None => relation.columns.push(name),
            }
        }
        if relation.columns.is_empty() && relation.more {
            contents.left_out.insert(key, "none of its columns can be read safely".to_owned());
            continue;
        }
        contents.at.is(Some(&key));
        let hash = hash(client, &relation, &encoding, &contents.moves).await?;
        contents.moves.note(0);
        contents.hashes.insert(key, hash);
    }
    contents.at.is(None);
    Ok(encoding)
}

/// Their blocks, where this role may read them.
async fn large_objects(
    client: &Client,
    database: &str,
    encoding: &str,
    contents: &mut Contents,
) -> Result<(), EngineError> {
    let row = client
        .query_one(
            "select has_table_privilege('pg_catalog.pg_largeobject', 'select'), \
               exists (select from pg_largeobject_metadata)",
            &[],
        )
        .await
        .map_err(|error| read_error(&error))?;
    let key = format!("{} (large objects)", key([database]));
    if row.get(0) {
        let columns = ["loid", "pageno", "data"].map(str::to_owned).into();
        let (schema, name) = ("pg_catalog".to_owned(), "pg_largeobject".to_owned());
        let blocks =
            hash(client, &Relation { schema, name, columns, more: false }, encoding, &contents.moves).await?;
        contents.hashes.insert(key, blocks);
    } else if row.get(1) {
        contents.left_out.insert(key, "this source's role may not read pg_largeobject".to_owned());
    }
    Ok(())
}

/// The names of an object in evidence. Who names objects must not be able to give one the key of another, so a name that
/// holds what stands between names is quoted.
pub(crate) fn key<const N: usize>(names: [&str; N]) -> String {
    let is_plain = |name: &str| !name.contains(['.', '"', '(', ' ']);
    let quoted =
        |name| if is_plain(name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
    names.map(quoted).join(".")
}

fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// Rows, and the sum of their 128-bit hashes, which does not depend on their order.
async fn hash(
    client: &Client,
    relation: &Relation,
    encoding: &str,
    moves: &Moves,
) -> Result<ContentHash, EngineError> {
    let fail = |error: Error| read_error(&error);
    let names: Vec<String> = relation.columns.iter().map(|name| quote_identifier(name)).collect();
    let list = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    let table = qualified(&relation.schema, &relation.name);
    let statement =
        client.prepare(&format!("copy {table}{list} to stdout (format binary)")).await.map_err(fail)?;
    // Text as it is stored: a conversion might fail, where a database holds what its encoding does not.
    let converts = encoding != "UTF8";
    if converts {
        client.batch_execute("set local client_encoding = 'SQL_ASCII'").await.map_err(fail)?;
    }
    let mut rows = Rows::default();
    let mut stream = pin!(client.copy_out(&statement).await.map_err(fail)?);
    while let Some(message) = stream.try_next().await.map_err(fail)? {
        moves.note(message.len());
        rows.take(&message).ok_or_else(|| {
            EngineError::new(
                Kind::Failed,
                "source_error",
                format!("the source's server sent rows of {table} that cannot be read"),
            )
        })?;
    }
    if converts {
        client.batch_execute("set local client_encoding = 'UTF8'").await.map_err(fail)?;
    }
    Ok(ContentHash { count: rows.count, hash: format!("{:032x}", rows.sum) })
}

/// The rows of a binary copy. Each message of the stream holds whole rows, the first the header before them.
/// Source: the PostgreSQL documentation, "COPY", section on the binary format.
#[derive(Default)]
struct Rows {
    begun: bool,
    count: u64,
    sum: u128,
}

impl Rows {
    /// Adds a message's rows; `None` if it does not hold whole ones.
    fn take(&mut self, mut message: &[u8]) -> Option<()> {
        if !self.begun {
            let rest = message.strip_prefix(b"PGCOPY\n\xff\r\n\0")?;
            let extension = u32::from_be_bytes(*rest.get(4..)?.first_chunk()?);
            message = rest.get(8..)?.get(usize::try_from(extension).ok()?..)?;
            self.begun = true;
        }
        while !message.is_empty() {
            let fields = i16::from_be_bytes(*message.first_chunk()?);
            let mut end = 2_usize;
            // A count of -1 is the trailer.
            for _ in 0..fields {
                let length = i32::from_be_bytes(*message.get(end..)?.first_chunk()?);
                end = end.checked_add(4)?.checked_add(usize::try_from(length).unwrap_or(0))?;
            }
            let (row, rest) = message.split_at_checked(end)?;
            if fields >= 0 {
                let hash = blake3::hash(row);
                self.sum = self.sum.wrapping_add(u128::from_be_bytes(*hash.as_bytes().first_chunk()?));
                self.count += 1;
            }
            message = rest;
        }
        Some(())
    }
}
