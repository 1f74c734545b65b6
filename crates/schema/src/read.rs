//! A catalogue, read from a database in a few queries.

mod queries;

use crate::catalogue::{Catalogue, Key, Kind, Object};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use tokio_postgres::{Client, Row};

/// How long one query may take, and wait for a lock: definitions of views are read under locks, which a transaction of
/// somebody else may hold back.
const QUERY_LIMIT: Duration = Duration::from_secs(60);
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// How many objects a schema may have.
const OBJECTS_MAX: usize = 500_000;
/// How much text its definitions may hold, in bytes: all of it is in memory.
const BYTES_MAX: usize = 64 << 20;

/// Why a catalogue was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The server refused a query, or the connection broke.
    #[error("the definitions of the database cannot be read: {}", described(.0))]
    Server(#[from] tokio_postgres::Error),
    /// There are too many objects.
    #[error("the database defines more than {0} objects, which is more than can be compared")]
    TooMany(usize),
    /// The definitions are too long.
    #[error("the definitions of the database hold more than {} MiB, which is more than can be compared", .0 >> 20)]
    TooMuch(usize),
}

fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(refusal) if refusal.code().code() == "55P03" => {
            format!(
                "{}; a transaction that changes definitions is open: end it, then ask again",
                refusal.message()
            )
        }
        Some(refusal) => refusal.message().to_owned(),
        None => error.to_string(),
    }
}

/// An object of `pg_depend`: catalogue, id, sub-id.
type Id = (u32, u32, i32);

const CLASS: u32 = 1259;
const EXTENSION: u32 = 3079;

impl Catalogue {
    /// Reads what the database of a session defines, in a transaction of its own, which sees one state of it. Nothing that
    /// a user of the database wrote runs.
    ///
    /// # Errors
    /// What the server refuses, a limit, or a broken connection. The transaction may then still be open.
    pub async fn read(client: &Client) -> Result<Catalogue, ReadError> {
        // How constants are written must not depend on the session.
        client
            .batch_execute(&format!(
                "begin isolation level repeatable read, read only; set local search_path = pg_catalog; \
                 set local statement_timeout = {}; set local lock_timeout = {}; set local datestyle = 'ISO, YMD'; \
                 set local intervalstyle = 'postgres'; set local timezone = 'UTC'; set local extra_float_digits = 1; \
                 set local bytea_output = 'hex'; set local quote_all_identifiers = off; set local xmloption = 'content'",
                QUERY_LIMIT.as_millis(),
                LOCK_LIMIT.as_millis()
            ))
            .await?;
        let major = client.query_one("select current_setting('server_version_num')", &[]).await?;
        let major = major.get::<_, &str>(0).parse().unwrap_or(0_u32) / 10_000;
        // Before anything of it is sent: a single body of a function may be long.
        let size: i64 = client.query_one(queries::SIZE, &[]).await?.get(0);
        if usize::try_from(size).is_ok_and(|size| size > BYTES_MAX) {
            return Err(ReadError::TooMuch(BYTES_MAX));
        }
        let mut reading = Reading::default();
        reading.note_extensions(&client.query(queries::DEPENDENCIES, &[]).await?);
        for query in queries::objects(major) {
            for row in client.query(&query, &[]).await? {
                reading.add(&row);
                if reading.catalogue.objects.len() > OBJECTS_MAX {
                    return Err(ReadError::TooMany(OBJECTS_MAX));
                }
                if reading.bytes > BYTES_MAX {
                    return Err(ReadError::TooMuch(BYTES_MAX));
                }
            }
        }
        let stands_for = queries::STANDS_FOR.to_owned() + if major >= 14 { queries::MULTIRANGES } else { "" };
        for row in client.query(&stands_for, &[]).await? {
            let (what, of) = ((row.get(0), row.get(1)), (row.get(2), row.get(3), row.get(4)));
            reading.stands_for.insert(what, of);
        }
        for row in client.query(queries::GRANTS, &[]).await? {
            reading.grant(&row);
        }
        for row in client.query(queries::CASTS, &[]).await? {
            reading.catalogue.casts.insert((row.get(0), row.get(1)));
        }
        client.batch_execute("commit").await?;
        Ok(reading.finish())
    }
}

#[derive(Default)]
struct Reading {
    catalogue: Catalogue,
    /// How long the values of properties are.
    bytes: usize,
    keys: HashMap<Id, Key>,
    /// What belongs to which extension, and parts of what does.
    extensions: HashMap<(u32, u32), u32>,
    dependencies: Vec<(Id, Id)>,
    stands_for: HashMap<(u32, u32), Id>,
    /// Sequences with the columns that they are owned by.
    owners: Vec<(Key, String)>,
}

impl Reading {
    fn note_extensions(&mut self, rows: &[Row]) {
        for row in rows {
            let (object, needed) =
                ((row.get(0), row.get(1), row.get(2)), (row.get::<_, u32>(3), row.get(4), row.get(5)));
            if row.get(6) && needed.0 == EXTENSION {
                self.extensions.insert((row.get(0), row.get(1)), needed.1);
            } else {
                self.dependencies.push((object, needed));
            }
        }
    }

    fn add(&mut self, row: &Row) {
        let (class, id, sub, relation): (u32, u32, i32, u32) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let kind = kind(row.get(4));
        let of_relation = relation != 0;
        let extension = self.extensions.get(&(class, id)).or_else(|| self.extensions.get(&(CLASS, relation)));
        if let Some(extension) = extension.copied() {
            self.extensions.insert((class, id), extension);
            return;
        }
        let name: String = row.get(5);
        let key = Key::new(kind, name);
        let parent = match kind {
            Kind::Default => Some(Key::new(Kind::Column, key.name.clone())),
            _ if of_relation => match self.keys.get(&(CLASS, relation, 0)) {
                Some(parent) => Some(parent.clone()),
                // A part of something that is not looked at.
                None => return,
            },
            _ => None,
        };
        let values: Vec<Option<String>> = row.get(9);
        let mut properties = BTreeMap::new();
        for pair in values.chunks(2) {
            if let [Some(name), Some(value)] = pair {
                self.bytes += value.len();
                properties.insert(name.clone(), value.clone());
            }
        }
        if kind == Kind::Ownership {
            self.owners.push((key.clone(), properties.get("column").cloned().unwrap_or_default()));
        } else {
            self.keys.insert((class, id, sub), key.clone());
        }
        let object = Object {
            needs: parent.iter().cloned().collect(),
            parent,
            ident: row.get(6),
            properties,
            derived: row.get(7),
            comment: row.get(8),
            grants: BTreeMap::new(),
        };
        self.catalogue.objects.insert(key, object);
    }

    fn grant(&mut self, row: &Row) {
        let id = (row.get(0), row.get(1), row.get(2));
        let object = self.keys.get(&id).and_then(|key| self.catalogue.objects.get_mut(key));
        if let Some(object) = object {
            let passed_on: bool = row.get(5);
            let entry = object.grants.entry((row.get(3), row.get(4))).or_default();
            *entry |= passed_on;
        }
    }

    /// The object that an entry of `pg_depend` is about, if it is one of ours.
    fn resolve(&self, mut id: Id) -> Option<Key> {
        // Few things stand for others, and none for itself.
        for _ in 0..8 {
            if let Some(key) = self.keys.get(&id) {
                return Some(key.clone());
            }
            if let Some(extension) = self.extensions.get(&(id.0, id.1)) {
                return self.keys.get(&(EXTENSION, *extension, 0)).cloned();
            }
            id = match self.stands_for.get(&(id.0, id.1)) {
                Some(other) => *other,
                // A column of a view.
                None if id.2 != 0 => (id.0, id.1, 0),
                None => return None,
            };
        }
        None
    }

    fn finish(mut self) -> Catalogue {
        let mut needs: Vec<(Key, Key)> = Vec::new();
        for (object, needed) in &self.dependencies {
            let (Some(object), Some(needed)) = (self.resolve(*object), self.resolve(*needed)) else {
                continue;
            };
            // What an object is made of depends on it in turn.
            let is_part =
                self.catalogue.objects.get(&needed).is_some_and(|it| it.parent.as_ref() == Some(&object));
            if object != needed && !is_part {
                needs.push((object, needed));
            }
        }
        for (owner, column) in std::mem::take(&mut self.owners) {
            needs.push((owner, Key::new(Kind::Column, column)));
        }
        let mut catalogue = self.catalogue;
        for (object, needed) in needs {
            // A sequence's column stands at its ownership.
            if object.kind == Kind::Sequence && needed.kind == Kind::Column {
                continue;
            }
            if let Some(object) = catalogue.objects.get_mut(&object) {
                object.needs.insert(needed);
            }
        }
        catalogue
    }
}

fn kind(name: &str) -> Kind {
    match name {
        "schema" => Kind::Schema,
        "extension" => Kind::Extension,
        "enum" => Kind::Enum,
        "composite" => Kind::Composite,
        "domain" => Kind::Domain,
        "range" => Kind::Range,
        "function" => Kind::Function,
        "sequence" => Kind::Sequence,
        "table" => Kind::Table,
        "column" => Kind::Column,
        "default" => Kind::Default,
        "owner of sequence" => Kind::Ownership,
        "constraint" => Kind::Constraint,
        "index" => Kind::Index,
        "foreign key" => Kind::ForeignKey,
        "statistics" => Kind::Statistics,
        "view" => Kind::View,
        "materialized view" => Kind::MaterializedView,
        "column of view" => Kind::ViewColumn,
        "rule" => Kind::Rule,
        "trigger" => Kind::Trigger,
        "policy" => Kind::Policy,
        "default privileges" => Kind::DefaultPrivileges,
        _ => Kind::Other,
    }
}
