//! Bringing the rows of a change set to a schema of the role's, slice by slice, and starting the instance that applies them.

use super::{
    plan::{self, Brought, Line},
    told, Slice,
};
use crate::{
    apply::{
        check::{self, common},
        conflict::Conflicts,
        registry,
        run::Run,
        sequences,
        sql::{self, Side},
        stage::{line, of_side, Staged},
        target::Catalogue,
        work::{no_triggers, refuse},
        Applied, ApplyOptions, Triggers,
    },
    error::ApplyError,
    read::ChangeSet,
};
use bytes::{Bytes, BytesMut};
use duramen_postgres::{connection::Target, quote_literal};
use futures_util::SinkExt;
use std::pin::pin;
use tokio_postgres::Row;

/// How slices are cut, and what stands in the schema. Another version's are not gone on with.
const FORMAT: i32 = 1;
/// The lock under which schemas of what is brought are made, one at a time.
const MAKING: i64 = 0x6475_7261_6d65_6e02;
/// Bytes of lines from which on a slice is whole. It has one block of the file more at most.
const SLICE_BYTES: usize = 1 << 20;
/// How often an instance tries to apply what somebody else's lock, or the end of a server, keeps it from.
const ATTEMPTS: u32 = 20;

/// What a session came to.
#[derive(Debug)]
pub(super) enum Begun {
    /// It stood there as applied.
    Applied(Applied),
    /// An instance has it.
    Runs(String),
}

/// The schema of what is brought. It needs no quotes.
fn home(set: &ChangeSet) -> String {
    let digest = set.digest();
    format!("duramen_change_{}", digest.get(..32).unwrap_or(&digest))
}

/// Brings what is missing, and starts an instance if none has it. A session that broke is gone on with by the next.
pub(super) async fn bring(
    set: &ChangeSet,
    target: &Target,
    options: &ApplyOptions,
    heard: &mut (dyn FnMut(Slice) + Send),
) -> Result<Begun, ApplyError> {
    let client = target.connect().await?;
    let run = Run::new(&client, target, options);
    let home = home(set);
    run.begin().await?;
    if let Some(applied) = registry::look(&run, &set.digest()).await? {
        let is_there = matches!(is_there(&run, &home).await, Ok(true));
        run.take_back().await;
        if is_there {
            let_go(&run, &home).await;
        }
        return Ok(Begun::Applied(applied));
    }
    engine(&run, target).await?;
    if is_there(&run, &home).await? || !make(&run, &home, set).await? {
        let progress = progress(&run, &home, "").await?;
        if let Some(instance) = progress.instance {
            run.take_back().await;
            return match told::status(&run, &instance).await?.as_str() {
                "failed" | "cancelled" | "unknown" => {
                    start(&run, &home, set, progress.done, &rebuilt(set)?).await
                }
                _ => Ok(Begun::Runs(instance)),
            };
        }
    }
    run.batch("the end of a transaction", "COMMIT").await?;
    let (slices, brought) = slices(&run, &home, set, heard).await?;
    start(&run, &home, set, slices, &brought).await
}

/// Drops what was brought of a change set that is applied by now, unless an instance sees to it. If that cannot be done, it stays: it is
/// in nobody's way.
async fn let_go(run: &Run<'_>, home: &str) {
    let work = async {
        run.begin().await?;
        let instance = progress(run, home, "").await?.instance;
        run.take_back().await;
        if let Some(instance) = instance {
            if matches!(told::status(run, &instance).await?.as_str(), "pending" | "running") {
                return Ok(());
            }
        }
        run.begin().await?;
        run.batch("dropping what was brought", &format!("DROP SCHEMA IF EXISTS {home} CASCADE; COMMIT")).await
    };
    if let Err::<(), ApplyError>(error) = work.await {
        tracing::debug!(%error, home, "what was brought stays");
        run.take_back().await;
    }
}

/// Whether durable functions are installed by somebody who may act for this role anyway, and may be used by it.
async fn engine(run: &Run<'_>, target: &Target) -> Result<(), ApplyError> {
    let sql = "SELECT o.rolname::text, o.rolsuper OR o.oid = d.datdba OR pg_has_role(o.oid, me.oid, 'MEMBER'), \
          EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = '_meta'), has_schema_privilege(n.oid, 'USAGE') \
        FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner JOIN pg_database d ON d.datname = current_database() \
          JOIN pg_roles me ON me.rolname = current_user WHERE n.nspname = 'df'";
    let found = run.rows("looking for durable functions", sql, &[]).await?;
    let place = target.describe();
    let refused = |why: String| Err(ApplyError::NotDurable(why));
    let Some(row) = found.first() else {
        return refused(format!(
            "durable functions are not installed in {place}; run `duramen fn install` and `duramen fn worker` there, or apply it without \
             --durable"
        ));
    };
    let owner: String = row.get(0);
    let (is_trusted, is_installed, may_use): (bool, bool, bool) = (row.get(1), row.get(2), row.get(3));
    if !may_use {
        return refused(format!(
            "this role may not use durable functions in {place}; have their owner run SELECT df.grant_usage(...) for it, or apply without \
             --durable"
        ));
    }
    if !is_trusted || !is_installed {
        return refused(format!(
            "the schema df of {place} belongs to {owner}, which is neither a superuser, nor the database's owner, nor a worker that may act for \
             this role (`duramen fn install --submitter`), or it is not one of durable functions; look at who made it, or apply without \
             --durable"
        ));
    }
    Ok(())
}

/// Whether the schema is there, and nobody else's in any part.
async fn is_there(run: &Run<'_>, home: &str) -> Result<bool, ApplyError> {
    let sql = "SELECT n.nspowner = me.oid \
          AND NOT EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee <> me.oid) \
          AND NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relowner <> me.oid) \
          AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proowner <> me.oid) \
        FROM pg_namespace n JOIN pg_roles me ON me.rolname = current_user WHERE n.nspname = $1";
    let found = run.rows("looking for what was brought", sql, &[&home]).await?;
    match found.first().map(|row| row.get::<_, bool>(0)) {
        None => Ok(false),
        Some(true) => Ok(true),
        Some(false) => Err(ApplyError::NotDurable(format!(
            "the schema {home}, to which it is brought, is another role's, or others have rights to it (by default privileges, perhaps); let \
             that role go on with it, or have it dropped"
        ))),
    }
}

/// How far it is.
struct Progress {
    done: u64,
    instance: Option<String>,
}

async fn progress(run: &Run<'_>, home: &str, lock: &str) -> Result<Progress, ApplyError> {
    let sql = format!("SELECT format, done, instance FROM {home}.progress {lock}");
    let found: Vec<Row> = run.rows("looking how much was brought", &sql, &[]).await?;
    let of_other = || {
        ApplyError::NotDurable(format!(
            "the schema {home} was made by another version; use that version, or drop the schema and begin anew"
        ))
    };
    let row = found.first().filter(|row| row.get::<_, i32>(0) == FORMAT).ok_or_else(of_other)?;
    Ok(Progress { done: u64::try_from(row.get::<_, i64>(1)).unwrap_or(0), instance: row.get(2) })
}

/// What the database has is what the change set needs; else conflicts, before anything is brought.
async fn looked_at(run: &Run<'_>, set: &ChangeSet) -> Result<Catalogue, ApplyError> {
    let mut conflicts = Conflicts::default();
    let here = Catalogue::read(run, set).await?;
    crate::apply::work::after_statements(set, &here)?;
    check::structure(set, &here, false, &mut conflicts);
    sequences::check(run, set, &mut conflicts).await?;
    refuse(&mut conflicts)?;
    if run.options.triggers == Triggers::Refuse {
        no_triggers(set, &here)?;
    }
    Ok(here)
}

/// Whether rows of a side come with a table, and the places of their columns.
fn sides(set: &ChangeSet, number: usize) -> [(Side, Option<Vec<usize>>); 2] {
    let stored = &set.tables()[number];
    let rows = &stored.rows;
    let all = || (0..stored.table.columns.len()).collect();
    [
        (Side::Old, (rows.removed + rows.changed > 0).then(|| common(&stored.table))),
        (Side::New, (rows.added + rows.changed > 0).then(all)),
    ]
}

/// Makes the schema and its tables, in the transaction that was begun, unless somebody else did meanwhile. The table of applied change
/// sets is made with them, so that the function finds it.
async fn make(run: &Run<'_>, home: &str, set: &ChangeSet) -> Result<bool, ApplyError> {
    looked_at(run, set).await?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    run.rows("waiting for others who bring change sets", lock, &[&MAKING]).await?;
    if is_there(run, home).await? {
        return Ok(false);
    }
    registry::ensure_alone(run).await?;
    const DOING: &str =
        "making the schema to which it is brought (which takes the right to create schemas in the database)";
    run.batch(DOING, &format!("CREATE SCHEMA {home}")).await?;
    let note = format!(
        "A change set that `duramen change apply --durable` brings. It goes when it was applied; to give it up: DROP SCHEMA {home} CASCADE"
    );
    let tables = format!(
        "COMMENT ON SCHEMA {home} IS {}; \
         CREATE TABLE {home}.progress (format int4 NOT NULL, done int8 NOT NULL, instance text); \
         INSERT INTO {home}.progress VALUES ({FORMAT}, 0, NULL); \
         CREATE TABLE {home}.plan (n int8 PRIMARY KEY, stage int4 NOT NULL, kind text NOT NULL, doing text NOT NULL, sql text NOT NULL, \
           expected int8, about jsonb NOT NULL)",
        quote_literal(&note)
    );
    run.batch(DOING, &tables).await?;
    for (number, stored) in set.tables().iter().enumerate() {
        for (side, places) in sides(set, number) {
            if let Some(places) = places {
                run.batch(DOING, &sql::make_staged(&stored.table, home, side, number, &places)).await?;
            }
        }
    }
    // Default privileges may have let others in.
    is_there(run, home).await
}

/// A walk over the file that cuts it into slices, always in the same way.
struct Slicer<'a> {
    set: &'a ChangeSet,
    brought: Vec<Brought>,
}

/// One slice: the lines of both sides.
struct Lines {
    number: usize,
    old: BytesMut,
    new: BytesMut,
    rows: u64,
}

impl<'a> Slicer<'a> {
    fn new(set: &'a ChangeSet) -> Slicer<'a> {
        Slicer { set, brought: vec![Brought::default(); set.tables().len()] }
    }

    /// The slices of a table, one after the other.
    fn of_table(&mut self, number: usize) -> Result<TableSlices<'_>, ApplyError> {
        let [(_, old), (_, new)] = sides(self.set, number);
        let brought = &mut self.brought[number];
        brought.old = old.is_some().then(Staged::default);
        brought.new = new.is_some().then(Staged::default);
        Ok(TableSlices { set: self.set, number, blocks: self.set.blocks(number)?, old, new, n: 0, brought })
    }
}

struct TableSlices<'a> {
    set: &'a ChangeSet,
    number: usize,
    blocks: crate::read::Blocks<'a>,
    old: Option<Vec<usize>>,
    new: Option<Vec<usize>>,
    n: u64,
    brought: &'a mut Brought,
}

impl TableSlices<'_> {
    fn next(&mut self) -> Result<Option<Lines>, ApplyError> {
        let table = &self.set.tables()[self.number].table;
        let mut lines = Lines { number: self.number, old: BytesMut::new(), new: BytesMut::new(), rows: 0 };
        while lines.old.len() + lines.new.len() < SLICE_BYTES {
            let Some(rows) = self.blocks.next()? else { break };
            for row in rows {
                self.n += 1;
                lines.rows += 1;
                let both = [
                    (Side::Old, &self.old, &mut self.brought.old, &mut lines.old),
                    (Side::New, &self.new, &mut self.brought.new, &mut lines.new),
                ];
                for (side, places, staged, out) in both {
                    let (Some(places), Some(staged)) = (places, staged) else { continue };
                    let Some((values, group)) = of_side(table, &row, side, places, staged) else { continue };
                    let values = places.iter().map(|place| values.get(*place).and_then(Option::as_deref));
                    line(out, self.n, group, values);
                }
            }
        }
        Ok((lines.rows > 0).then_some(lines))
    }
}

/// What was brought, without bringing it: which updates there are follows from the file.
fn rebuilt(set: &ChangeSet) -> Result<Vec<Brought>, ApplyError> {
    let mut slicer = Slicer::new(set);
    for number in 0..set.tables().len() {
        let mut slices = slicer.of_table(number)?;
        while slices.next()?.is_some() {}
    }
    Ok(slicer.brought)
}

/// Brings the slices that are not there yet. Says how many there are.
async fn slices(
    run: &Run<'_>,
    home: &str,
    set: &ChangeSet,
    heard: &mut (dyn FnMut(Slice) + Send),
) -> Result<(u64, Vec<Brought>), ApplyError> {
    let mut done = progress(run, home, "").await?.done;
    let (mut k, mut rows) = (0_u64, 0_u64);
    let of_rows = set.head().rows.total();
    let mut slicer = Slicer::new(set);
    for number in 0..set.tables().len() {
        let mut slices = slicer.of_table(number)?;
        while let Some(lines) = slices.next()? {
            rows += lines.rows;
            if k >= done {
                done = send(run, home, set, lines, k).await?;
            }
            k += 1;
            heard(Slice { done: k, rows, of_rows });
        }
    }
    Ok((k, slicer.brought))
}

/// Brings one slice, unless somebody else did meanwhile. Says how many there are.
async fn send(run: &Run<'_>, home: &str, set: &ChangeSet, lines: Lines, k: u64) -> Result<u64, ApplyError> {
    run.begin().await?;
    let done = progress(run, home, "FOR UPDATE").await?.done;
    if done != k {
        run.take_back().await;
        return if done > k { Ok(done) } else { Err(begun_anew(home)) };
    }
    let doing = "bringing rows";
    let sent = [(Side::Old, lines.old), (Side::New, lines.new)];
    let places = sides(set, lines.number);
    for ((side, text), (_, places)) in sent.into_iter().zip(places) {
        let Some(places) = places.filter(|_| !text.is_empty()) else { continue };
        let columns: Vec<String> = places.iter().map(|place| format!(", c{place}")).collect();
        let copy =
            format!("COPY {} (n, g{}) FROM STDIN", sql::staged(home, side, lines.number), columns.concat());
        let sink = run.client.copy_in::<_, Bytes>(&copy).await.map_err(|error| run.failed(doing, error))?;
        let mut sink = pin!(sink);
        sink.send(text.freeze()).await.map_err(|error| run.failed(doing, error))?;
        sink.finish().await.map_err(|error| run.failed(doing, error))?;
    }
    run.batch(doing, &format!("UPDATE {home}.progress SET done = {}", k + 1)).await?;
    run.batch(doing, "COMMIT").await?;
    Ok(k + 1)
}

fn begun_anew(home: &str) -> ApplyError {
    ApplyError::NotDurable(format!(
        "somebody else began anew with the schema {home}; run the same command again"
    ))
}

/// Writes the plan and the function that follows it, and starts the instance, in one transaction.
async fn start(
    run: &Run<'_>,
    home: &str,
    set: &ChangeSet,
    slices: u64,
    brought: &[Brought],
) -> Result<Begun, ApplyError> {
    const DOING: &str = "starting the instance that applies it";
    run.begin().await?;
    let progress = progress(run, home, "FOR UPDATE").await?;
    if progress.done != slices {
        return Err(begun_anew(home));
    }
    run.batch(DOING, "SET LOCAL row_security = on").await?;
    if let Some(instance) = progress.instance {
        // Somebody else started it, or it ended without a result.
        if matches!(told::status(run, &instance).await?.as_str(), "pending" | "running" | "completed") {
            run.take_back().await;
            return Ok(Begun::Runs(instance));
        }
    }
    let here = looked_at(run, set).await?;
    let lines = plan::plan(run, home, set, &here, brought).await?;
    write(run, home, &lines).await?;
    run.batch(DOING, &format!("DROP FUNCTION IF EXISTS {home}.run()")).await?;
    run.batch(DOING, &plan::function(home, &set.digest(), run.options)).await?;
    for number in 0..set.tables().len() {
        for (side, _) in sides(set, number).into_iter().filter(|(_, places)| places.is_some()) {
            run.batch(DOING, &format!("ANALYZE {}", sql::staged(home, side, number))).await?;
        }
    }
    let digest = set.digest();
    let again = format!("{ATTEMPTS}, 1, 60, 2, 0.1, '{{55P03,40,53,57P01,57P02,57P03}}'");
    let graph = format!(
        "SELECT df.start(df.seq(df.seq(df.as(df.retry('SELECT {home}.run() AS outcome', {again}), 'outcome'), \
           df.retry('DROP SCHEMA IF EXISTS {home} CASCADE', {again})), 'SELECT ($outcome)::pg_catalog.jsonb AS outcome'), $1)"
    );
    let label = format!("change set {digest}");
    let started = run.client.query_typed(&graph, &[(&label, tokio_postgres::types::Type::TEXT)]).await;
    let started = started.map_err(|error| run.failed(DOING, error))?;
    let instance: String = started.first().map(|row| row.get(0)).unwrap_or_default();
    let note = format!("UPDATE {home}.progress SET instance = $1");
    run.rows(DOING, &note, &[&instance]).await?;
    run.batch(DOING, "COMMIT").await?;
    Ok(Begun::Runs(instance))
}

async fn write(run: &Run<'_>, home: &str, lines: &[Line]) -> Result<(), ApplyError> {
    const DOING: &str = "writing down what is to be done";
    run.batch(DOING, &format!("DELETE FROM {home}.plan")).await?;
    let stages: Vec<i32> = lines.iter().map(|line| line.stage).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line.kind).collect();
    let doing: Vec<&str> = lines.iter().map(|line| line.doing.as_str()).collect();
    let sql: Vec<&str> = lines.iter().map(|line| line.sql.as_str()).collect();
    let expected: Vec<Option<i64>> = lines.iter().map(|line| line.expected).collect();
    let about: Vec<String> = lines.iter().map(|line| line.about.to_string()).collect();
    let insert = format!(
        "INSERT INTO {home}.plan (n, stage, kind, doing, sql, expected, about) \
         SELECT l.n, l.stage, l.kind, l.doing, l.sql, l.expected, l.about::jsonb \
         FROM unnest($1::int4[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::text[]) \
           WITH ORDINALITY l (stage, kind, doing, sql, expected, about, n)"
    );
    run.rows(DOING, &insert, &[&stages, &kinds, &doing, &sql, &expected, &about]).await.map(drop)
}
