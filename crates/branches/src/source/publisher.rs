//! A session on an origin that is followed by logical replication: what it tells of itself, and whether it can be followed. F15 to
//! F19 are in `docs/design/following.md`.

use super::{
    address::Address, connected::Connected, connection::LOGIN_TRIGGERS_SINCE, contents::Contents,
    definitions, history::Mark, import::invalid, logical, refusal::read_error, stall::slow,
};
use crate::error::{EngineError, Kind};
use std::{collections::BTreeSet, future::Future, time::Duration};
use tokio_postgres::{types::ToSql, Row};

/// How long an origin may take to answer what costs nothing.
const LIMIT: Duration = Duration::from_secs(10);
/// How many names are told.
const NAMES_TOLD: usize = 10;
/// What definitions are not compared: what stands elsewhere, or is not followed.
const NOT_DEFINITIONS: [&str; 6] = [
    "sequences",
    "publications",
    "published tables",
    "published schemas",
    "subscriptions",
    "owners of large objects",
];

/// A session on an origin, in the database that is followed. It may write, when it is told to.
pub(crate) struct Publisher {
    pub(super) client: Connected,
}

/// A table, by schema and name.
pub(super) type Table = (String, String);

/// What decides whether and how an origin is followed.
#[derive(Debug)]
pub(super) struct Nature {
    pub(super) major: u32,
    /// By which its data directory is known from others.
    pub(super) system: u64,
    is_standby: bool,
    wal_level: String,
    may_replicate: bool,
    may_create: bool,
    spare_slots: i64,
    large_objects: i64,
    keeps_without_limit: bool,
    has_login_trigger: bool,
    /// Those that are followed.
    pub(super) tables: BTreeSet<Table>,
    unidentified: Vec<String>,
    not_owned: Vec<String>,
    /// Those of extensions, of which an origin's owners may publish none.
    pub(super) of_extensions: BTreeSet<Table>,
}

/// What a slot keeps, and how far it is.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// The position of the next byte that the origin writes.
    pub(super) written: u64,
    /// From where on the origin keeps its log, and up to where changes were applied and flushed; nothing if there is no slot.
    pub(super) kept_from: Option<u64>,
    pub(super) confirmed: Option<u64>,
    pub(super) is_lost: bool,
    pub(super) is_active: bool,
    pub(super) mark: Mark,
}

impl Slot {
    /// Whether changes may have been removed before they were sent.
    pub(super) fn is_gone(&self) -> bool {
        self.is_lost || self.confirmed.is_none()
    }

    pub(super) fn kept(&self) -> u64 {
        self.kept_from.map_or(0, |from| self.written.saturating_sub(from))
    }
}

const NATURE: &str = "select current_setting('server_version_num')::int4 / 10000, \
    (select system_identifier from pg_control_system()), pg_is_in_recovery(), current_setting('wal_level'), \
    r.rolsuper or r.rolreplication or exists (select from pg_roles g where g.rolname = 'rds_replication' \
      and pg_has_role(r.oid, g.oid, 'member')), \
    has_database_privilege(current_database()::text, 'create'), \
    current_setting('max_replication_slots')::int8 - (select count(*) from pg_replication_slots), \
    (select count(*) from pg_largeobject_metadata), \
    coalesce((select setting::int8 < 0 from pg_settings where name = 'max_slot_wal_keep_size'), true) \
    from pg_roles r where r.rolname = current_user";

const TABLES: &str = "select n.nspname::text, c.relname::text, \
    case c.relreplident when 'f' then true \
      when 'd' then exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indimmediate and i.indisvalid) \
      when 'i' then exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident and i.indimmediate and i.indisvalid) \
      else false end, \
    pg_has_role(c.relowner, 'usage'), \
    exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e') \
    from pg_class c join pg_namespace n on n.oid = c.relnamespace \
    where c.relkind = 'r' and c.relpersistence = 'p' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' order by 1, 2";

const SLOT: &str = "select (pg_current_wal_lsn() - '0/0'::pg_lsn)::int8, (s.restart_lsn - '0/0'::pg_lsn)::int8, \
    (s.confirmed_flush_lsn - '0/0'::pg_lsn)::int8, coalesce(s.wal_status = 'lost', false), s.active_pid is not null, at \
    from (select clock_timestamp() as at offset 0) told left join pg_replication_slots s on s.slot_name = $1::text::name";

impl Publisher {
    pub(crate) async fn open(origin: &Address) -> Result<Publisher, EngineError> {
        let (client, _) = logical::enter(origin).await?;
        Ok(Publisher { client })
    }

    async fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, EngineError> {
        within(LIMIT, self.client.query(sql, values)).await
    }

    /// What kind of origin it is.
    pub(super) async fn nature(&self) -> Result<Nature, EngineError> {
        let rows = self.rows(NATURE, &[]).await?;
        let row = rows.first().ok_or_else(silent)?;
        let major = row.get::<_, i32>(0).cast_unsigned();
        let has_login_trigger = major >= LOGIN_TRIGGERS_SINCE && {
            let fires = "select dathasloginevt from pg_database where datname = current_database()";
            self.rows(fires, &[]).await?.first().is_none_or(|row| row.get(0))
        };
        let mut nature = Nature {
            major,
            system: row.get::<_, i64>(1).cast_unsigned(),
            is_standby: row.get(2),
            wal_level: row.get(3),
            may_replicate: row.get(4),
            may_create: row.get(5),
            spare_slots: row.get(6),
            large_objects: row.get(7),
            keeps_without_limit: row.get(8),
            has_login_trigger,
            tables: BTreeSet::new(),
            unidentified: Vec::new(),
            not_owned: Vec::new(),
            of_extensions: BTreeSet::new(),
        };
        for row in self.rows(TABLES, &[]).await? {
            let table: Table = (row.get(0), row.get(1));
            let name = format!("{}.{}", table.0, table.1);
            if row.get(4) {
                nature.of_extensions.insert(table);
                continue;
            }
            if !row.get::<_, bool>(2) {
                nature.unidentified.push(name.clone());
            }
            if !row.get::<_, bool>(3) {
                nature.not_owned.push(name);
            }
            nature.tables.insert(table);
        }
        Ok(nature)
    }

    /// How far a slot is.
    pub(super) async fn slot(&self, name: &str) -> Result<Slot, EngineError> {
        let rows = self.rows(SLOT, &[&name]).await?;
        let row = rows.first().ok_or_else(silent)?;
        let at = |column: usize| row.get::<_, Option<i64>>(column).map(i64::cast_unsigned);
        let written = at(0).unwrap_or_default();
        Ok(Slot {
            written,
            kept_from: at(1),
            confirmed: at(2),
            is_lost: row.get(3),
            is_active: row.get(4),
            mark: Mark { at: row.get(5), position: written },
        })
    }

    /// A digest of all that is defined, which changes with every `ALTER TABLE` of a table with rows (F19).
    pub(super) async fn definitions(&self, database: &str, limit: Duration) -> Result<String, EngineError> {
        let mut found = Contents::default();
        let late = |_| slow("its definitions were read", limit);
        let read = definitions::of_database(&self.client, database, &mut found);
        tokio::time::timeout(limit, read).await.map_err(late)??;
        // By which transaction each column was defined: values that are written anew by DDL are not sent.
        let written = "select coalesce(encode(sha256(string_agg(convert_to(a.attrelid::text || '.' || a.attnum::text || '.' \
            || a.xmin::text, 'UTF8'), ','::bytea order by a.attrelid, a.attnum)), 'hex'), '') \
            from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace \
            where c.relkind in ('r', 'p') and c.relpersistence = 'p' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";
        let row = within(limit, self.client.query_one(written, &[])).await?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(row.get::<_, &str>(0).as_bytes());
        let is_left_out = |key: &str| NOT_DEFINITIONS.iter().any(|name| key.ends_with(&format!(" ({name})")));
        for (key, content) in found.hashes.iter().filter(|(key, _)| !is_left_out(key)) {
            hasher.update(format!("\n{key} {} {}", content.count, content.hash).as_bytes());
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}

impl Nature {
    /// F15: refuses what cannot be followed whole; `named` is a publication of the user's.
    pub(super) fn check(&self, named: bool, needs_slot: bool) -> Result<(), EngineError> {
        let mut problems = Vec::new();
        let mut must = |is_so: bool, problem: String| {
            if !is_so {
                problems.push(problem);
            }
        };
        must(!self.is_standby, "it is a standby: give the URL of its primary".to_owned());
        must(
            self.wal_level == "logical",
            format!("its wal_level is {}: set it to logical, and restart it", self.wal_level),
        );
        must(
            self.may_replicate,
            "the source's role lacks REPLICATION: ALTER ROLE ... REPLICATION (on RDS: GRANT rds_replication)"
                .to_owned(),
        );
        must(
            named || self.may_create,
            "the source's role lacks CREATE on the database, which a publication needs: grant it, or name a publication of \
             the owner's (--publication)"
                .to_owned(),
        );
        must(
            !needs_slot || self.spare_slots > 0,
            "it has no replication slot to spare (max_replication_slots)".to_owned(),
        );
        must(
            self.large_objects == 0,
            format!(
                "it has {} large objects, which logical replication does not carry: keep them in a bytea column, or refresh \
                 the source without following",
                self.large_objects
            ),
        );
        must(
            !self.has_login_trigger,
            "the database has a login trigger, which would run in the session that replicates: disable it"
                .to_owned(),
        );
        must(
            self.unidentified.is_empty(),
            format!(
                "these tables have no replica identity, so nobody could tell which row was updated: {}; give each a primary \
                 key, or ALTER TABLE ... REPLICA IDENTITY FULL",
                listed(&self.unidentified)
            ),
        );
        must(
            named || self.not_owned.is_empty(),
            format!(
                "the source's role does not own these tables, and so may not publish them: {}; grant it the role that does, \
                 or name a publication of the owner's (--publication)",
                listed(&self.not_owned)
            ),
        );
        refuse(&problems)
    }

    /// What the origin should be set to otherwise.
    pub(super) fn advice(&self) -> Option<String> {
        self.keeps_without_limit.then(|| {
            "the origin keeps its log without limit for a slot of which the daemon does not run: set max_slot_wal_keep_size \
             there"
                .to_owned()
        })
    }
}

/// Names, as many as are told.
pub(super) fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_TOLD);
    let mut text = names[..names.len().min(NAMES_TOLD)].join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

pub(super) fn refuse(problems: &[String]) -> Result<(), EngineError> {
    match problems {
        [] => Ok(()),
        problems => Err(invalid(
            "cannot_follow",
            format!("the origin cannot be followed by logical replication: {}", problems.join("; ")),
        )),
    }
}

pub(super) fn silent() -> EngineError {
    EngineError::new(Kind::Failed, "origin_slow", "the origin does not say how far it is")
}

/// Waits for an answer of the origin.
pub(super) async fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, EngineError> {
    let answered = tokio::time::timeout(limit, asked).await.map_err(|_| silent())?;
    answered.map_err(|error| read_error(&error))
}
