//! The publication and the replication slot of a follower, at its origin: made, looked at, dropped. F15, F16 and F19 are in
//! `docs/design/following.md`.

use super::{
    address::Address,
    connection::Quiet,
    draft::Draft,
    import::Importer,
    publisher::{listed, refuse, within, Nature, Publisher, Table},
    stall::slow,
};
use crate::error::{EngineError, Kind};
use duramen_base::clock;
use duramen_postgres::{quote_identifier, ClusterError, Conversation, Installation};
use std::{collections::BTreeSet, time::Duration};

/// How long a statement at the origin may take, and wait for a lock there.
const LIMIT: Duration = Duration::from_secs(20);
const LOCK_LIMIT: &str = "set local lock_timeout = '10s'";
/// How long the session that uses a slot may take to end.
const END_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);
/// The first major version whose publications leave out rows and columns.
const FILTERS_SINCE: u32 = 15;
/// The first major version whose publications can hold generated columns.
const GENERATED_SINCE: u32 = 18;

/// A publication, as it is.
#[derive(Debug)]
pub(super) struct Published {
    /// Changes with all that is done to it.
    pub(super) state: String,
    pub(super) tables: BTreeSet<Table>,
}

/// A snapshot of the origin, for as long as this is not dropped.
pub(super) struct Exported {
    pub(super) snapshot: String,
    _session: Conversation,
}

impl Publisher {
    async fn write(&self, statements: &str) -> Result<(), EngineError> {
        let sql = format!("begin read write; {LOCK_LIMIT}; {statements}; commit");
        let done = within(LIMIT, self.client.batch_execute(&sql)).await;
        if done.is_err() {
            // What is left of it.
            let _ = within(LIMIT, self.client.batch_execute("rollback")).await;
        }
        done
    }

    /// Publishes these tables and no others: of one that is made later, which may have no replica identity, the origin would refuse updates.
    pub(super) async fn publish(&self, name: &str, tables: &BTreeSet<Table>) -> Result<(), EngineError> {
        let listed: Vec<String> = tables
            .iter()
            .map(|(schema, table)| format!("only {}.{}", quote_identifier(schema), quote_identifier(table)))
            .collect();
        let tables =
            if listed.is_empty() { String::new() } else { format!(" for table {}", listed.join(", ")) };
        self.write(&format!("create publication {}{tables}", quote_identifier(name))).await
    }

    /// F15: what a publication publishes, if that is all of every table.
    pub(super) async fn published(&self, name: &str, nature: &Nature) -> Result<Published, EngineError> {
        let generated = if nature.major >= GENERATED_SINCE { "pubgencols::text = 'n'" } else { "true" };
        let sql = format!(
            "select oid::int8, xmin::text, pubinsert and pubupdate and pubdelete and pubtruncate, pubviaroot, {generated}, \
             puballtables from pg_publication where pubname = $1::text::name"
        );
        let rows = within(LIMIT, self.client.query(&sql, &[&name])).await?;
        let Some(row) = rows.first() else {
            return Err(EngineError::new(
                Kind::Failed,
                "publication_gone",
                format!("the origin has no publication {name:?}"),
            ));
        };
        let mut problems = Vec::new();
        if !row.get::<_, bool>(2) {
            problems.push(format!(
                "the publication {name} leaves out kinds of changes: set its publish to all of them"
            ));
        }
        if row.get(3) {
            problems
                .push(format!("the publication {name} has publish_via_partition_root on: set it to false"));
        }
        if !row.get::<_, bool>(4) {
            problems.push(format!("the publication {name} publishes generated columns: set that to none"));
        }
        let mut state = format!("{} {}", row.get::<_, i64>(0), row.get::<_, &str>(1));
        let filtered = if nature.major >= FILTERS_SINCE {
            "r.prqual is not null or r.prattrs is not null"
        } else {
            "false"
        };
        let sql = format!(
            "select r.oid::int8, r.xmin::text, n.nspname::text || '.' || c.relname::text, {filtered} from pg_publication p \
             join pg_publication_rel r on r.prpubid = p.oid join pg_class c on c.oid = r.prrelid \
             join pg_namespace n on n.oid = c.relnamespace where p.pubname = $1::text::name order by 1"
        );
        let mut filtered = Vec::new();
        for row in within(LIMIT, self.client.query(&sql, &[&name])).await? {
            state.push_str(&format!(", {} {}", row.get::<_, i64>(0), row.get::<_, &str>(1)));
            if row.get(3) {
                filtered.push(row.get::<_, String>(2));
            }
        }
        if nature.major >= FILTERS_SINCE {
            let sql = "select s.oid::int8, s.xmin::text from pg_publication p join pg_publication_namespace s on s.pnpubid = p.oid \
                       where p.pubname = $1::text::name order by 1";
            for row in within(LIMIT, self.client.query(sql, &[&name])).await? {
                state.push_str(&format!("; {} {}", row.get::<_, i64>(0), row.get::<_, &str>(1)));
            }
        }
        if !filtered.is_empty() {
            problems
                .push(format!("the publication {name} leaves out rows or columns of {}", listed(&filtered)));
        }
        let sql = "select schemaname::text, tablename::text from pg_publication_tables where pubname = $1::text::name";
        let rows = within(LIMIT, self.client.query(sql, &[&name])).await?;
        let tables: BTreeSet<Table> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let missing: Vec<String> =
            nature.tables.difference(&tables).map(|(schema, table)| format!("{schema}.{table}")).collect();
        if !missing.is_empty() {
            problems.push(format!("the publication {name} lacks {}: add them", listed(&missing)));
        }
        refuse(&problems)?;
        Ok(Published { state, tables })
    }

    /// Drops a slot; a session that uses it is ended first. It need not be there.
    pub(super) async fn drop_slot(&self, name: &str) -> Result<(), EngineError> {
        let begin = clock::now();
        loop {
            let sql = "select active_pid from pg_replication_slots where slot_name = $1::text::name";
            let rows = within(LIMIT, self.client.query(sql, &[&name])).await?;
            let Some(row) = rows.first() else { return Ok(()) };
            if let Some(pid) = row.get::<_, Option<i32>>(0) {
                // That of the same role, which may be gone by then.
                let _ = within(LIMIT, self.client.query("select pg_terminate_backend($1)", &[&pid])).await;
            } else {
                let sql = "select pg_drop_replication_slot($1::text::name)";
                match within(LIMIT, self.client.query(sql, &[&name])).await {
                    Ok(_) => return Ok(()),
                    Err(error) if begin.elapsed() > END_LIMIT => return Err(error),
                    Err(_) => {}
                }
            }
            if begin.elapsed() > END_LIMIT {
                return Err(EngineError::new(
                    Kind::Failed,
                    "slot_in_use",
                    format!("the slot {name} of the origin is in use, and its session does not end"),
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Drops a publication that is ours. It need not be there.
    pub(super) async fn drop_publication(&self, name: &str) -> Result<(), EngineError> {
        self.write(&format!("drop publication if exists {}", quote_identifier(name))).await
    }

    /// Ends with `slot_too_large` when the origin keeps more than this for a slot (F16).
    pub(super) async fn outgrown(&self, name: &str, keep_wal: u64) -> EngineError {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            // What cannot be asked now is asked again; the copy has limits of its own.
            let Ok(slot) = self.slot(name).await else { continue };
            if slot.kept() > keep_wal {
                return EngineError::new(
                    Kind::Failed,
                    "slot_too_large",
                    format!(
                        "while it was copied the origin wrote more than {} MB, which it keeps for the slot: the copy was given \
                         up, and the slot dropped; allow more with --keep-wal",
                        keep_wal / 1_000_000
                    ),
                );
            }
        }
    }
}

impl Importer<'_> {
    /// Makes a slot of this name, and exports the snapshot from which on it sends. By psql, because it takes a session that replicates.
    pub(super) async fn make_slot(
        &self,
        dumper: &Installation,
        (origin, quiet): (&Address, Quiet),
        name: &str,
        draft: &Draft<'_>,
    ) -> Result<Exported, EngineError> {
        self.say("making the replication slot: it begins when the transactions of the origin have ended that run now");
        let arguments = vec![
            "--no-psqlrc".to_owned(),
            "--no-password".to_owned(),
            "--quiet".to_owned(),
            "--tuples-only".to_owned(),
            "--no-align".to_owned(),
            "--field-separator=|".to_owned(),
            "--set=ON_ERROR_STOP=1".to_owned(),
            format!("--dbname={} replication=database", origin.conninfo_to_read(quiet == Quiet::Off)),
            "--file=-".to_owned(),
        ];
        let mut env = vec![("HOME".to_owned(), "/nonexistent".to_owned())];
        if let Some(password) = origin.config.get_password() {
            env.push(("PGPASSWORD".to_owned(), String::from_utf8_lossy(password).into_owned()));
        }
        let failed = |error: &ClusterError| {
            let said = origin.hidden_in(&error.to_string());
            EngineError::new(Kind::Failed, "no_slot", format!("the origin made no replication slot: {said}"))
        };
        let mut session = self
            .open_cluster(draft, dumper)
            .converse("psql", &arguments, &env)
            .map_err(|error| failed(&error))?;
        let command =
            format!("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput EXPORT_SNAPSHOT;", quote_identifier(name));
        let begin = clock::now();
        let ask = || session.ask(&command, POLL).map_err(|error| failed(&error));
        let mut answer = tokio::task::block_in_place(ask)?;
        while answer.is_none() {
            // Others see meanwhile how much is kept.
            tokio::time::sleep(POLL).await;
            self.interrupt.check()?;
            if begin.elapsed() > self.stall {
                return Err(slow(
                    "it waited for its transactions to end, before a replication slot begins",
                    self.stall,
                ));
            }
            let wait = || session.answer(Duration::ZERO).map_err(|error| failed(&error));
            answer = tokio::task::block_in_place(wait)?;
        }
        // Its name, where it begins, the snapshot, the plugin.
        let answer = answer.unwrap_or_default();
        let snapshot = answer.split('|').nth(2).unwrap_or_default().to_owned();
        let is_plain = |it: char| it.is_ascii_hexdigit() || it == '-';
        if snapshot.is_empty() || !snapshot.chars().all(is_plain) {
            let said = origin.hidden_in(&answer);
            return Err(EngineError::new(
                Kind::Failed,
                "no_slot",
                format!("the origin exported no snapshot: {said}"),
            ));
        }
        Ok(Exported { snapshot, _session: session })
    }
}
