//! Doing what a change set says, in an order in which it can be done.
//!
//! Deletions, statements, updates and insertions hang together by foreign keys, unique values and definitions, and no order fits all: a
//! value may have to go before it comes elsewhere, or a row to be there before another one refers to it. So there are a few
//! orders, and each is tried from the same savepoint until one works.

use super::{
    check::{self, common},
    conflict::Conflicts,
    order::parents_first,
    run::Run,
    sequences,
    sql::{self, Side},
    stage::{keep_keys, stage, Staged},
    target::Catalogue,
    Counts, Triggers,
};
use crate::{
    error::{ApplyError, SetError},
    read::ChangeSet,
    set::StoredTable,
    statement,
};
use duramen_changes::{shown_name, Only};
use duramen_postgres::quote_identifier;

/// Triggers that are named where they are in the way.
const TRIGGERS_NAMED: usize = 10;

/// A part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Delete,
    /// The statements; without those of [`Stage::Constrain`], if that comes later.
    Define,
    /// Updates of what is there before the statements.
    Early,
    Update,
    Insert,
    /// Statements that only say that a column has a value in every row: of a column that was added, rows give it first.
    Constrain,
}

use Stage::{Constrain, Define, Delete, Early, Insert, Update};

const OF_ROWS: &[&[Stage]] = &[&[Delete, Update, Insert], &[Insert, Update, Delete]];
const WITH_STATEMENTS: &[&[Stage]] = &[
    &[Delete, Define, Update, Insert],
    &[Define, Insert, Update, Delete],
    &[Delete, Early, Define, Update, Insert],
];
const WITH_NOT_NULL: &[&[Stage]] = &[&[Delete, Define, Update, Insert, Constrain]];

/// What is known and prepared before anything is changed.
#[derive(Debug, Clone)]
struct Ready {
    here: Catalogue,
    old: Vec<Option<Staged>>,
    new: Vec<Option<Staged>>,
}

/// Does all of it, in the transaction that was begun.
pub(crate) async fn all(run: &Run<'_>, set: &ChangeSet) -> Result<Counts, ApplyError> {
    let mut conflicts = Conflicts::default();
    let here = Catalogue::read(run, set).await?;
    if set.ddl().is_empty() {
        after_statements(set, &here)?;
    }
    check::structure(set, &here, false, &mut conflicts);
    sequences::check(run, set, &mut conflicts).await?;
    refuse(&mut conflicts)?;
    if run.options.triggers == Triggers::Refuse {
        no_triggers(set, &here)?;
    }
    let count = set.tables().len();
    let mut ready = Ready { here, old: vec![None; count], new: vec![None; count] };
    for (number, stored) in set.tables().iter().enumerate() {
        let Some(found) = &ready.here.tables[number] else { continue };
        let is_to_go = stored.table.only_in == Some(Only::Snapshot);
        if stored.rows.removed + stored.rows.changed > 0 || is_to_go {
            ready.old[number] = Some(stage(run, set, number, Side::Old, &common(&stored.table)).await?);
            check::old_rows(run, number, stored, found, &mut conflicts).await?;
        }
    }
    if set.ddl().is_empty() {
        stage_new(run, set, &mut ready, &mut conflicts).await?;
    }
    refuse(&mut conflicts)?;
    if !set.ddl().is_empty() {
        for (number, stored) in
            set.tables().iter().enumerate().filter(|(number, _)| ready.old[*number].is_some())
        {
            keep_keys(run, &stored.table, number, &common(&stored.table)).await?;
        }
    }
    let (orders, more) = match set.ddl() {
        [] => (OF_ROWS, &[][..]),
        ddl if ddl.iter().any(|ddl| statement::sets_not_null(&ddl.sql)) => (WITH_STATEMENTS, WITH_NOT_NULL),
        _ => (WITH_STATEMENTS, &[][..]),
    };
    let mut first = None;
    for order in orders.iter().chain(more) {
        run.batch("a savepoint", "SAVEPOINT duramen_order").await?;
        match attempt(run, set, ready.clone(), order).await {
            Ok(mut counts) => {
                if !run.options.dry_run {
                    run.pinned().await?;
                    counts.sequences = sequences::move_on(run, set).await?;
                }
                return Ok(counts);
            }
            Err(error @ (ApplyError::Refused { .. } | ApplyError::OtherRows { .. }))
                if !run.client.is_closed() =>
            {
                tracing::debug!(?order, %error, "this order does not work");
                run.batch("going back to the savepoint", "ROLLBACK TO SAVEPOINT duramen_order").await?;
                first.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    // The first order is the one that people would expect.
    Err(first.unwrap_or_else(|| ApplyError::Registry("there is no order to do it in".to_owned())))
}

/// Refuses where rows are written to tables that have triggers of users.
pub(crate) fn no_triggers(set: &ChangeSet, here: &Catalogue) -> Result<(), ApplyError> {
    let tables = set.tables().iter().zip(&here.tables);
    let written = tables.filter(|(stored, _)| stored.table.only_in.is_none() && stored.rows.total() > 0);
    let names: Vec<String> = written
        .filter_map(|(stored, found)| Some((stored, found.as_ref()?)))
        .flat_map(|(StoredTable { table, .. }, found)| {
            let shown = shown_name(&table.schema, &table.name);
            found.triggers.iter().map(move |(trigger, _)| format!("{shown}: {trigger}"))
        })
        .take(TRIGGERS_NAMED)
        .collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(ApplyError::Triggers { names }),
    }
}

pub(crate) fn refuse(conflicts: &mut Conflicts) -> Result<(), ApplyError> {
    if conflicts.is_empty() {
        return Ok(());
    }
    let Conflicts { listed: conflicts, more } = std::mem::take(conflicts);
    Err(ApplyError::Conflicts { conflicts, more })
}

/// Brings the rows as they are to be, and looks whether new ones are there already.
async fn stage_new(
    run: &Run<'_>,
    set: &ChangeSet,
    ready: &mut Ready,
    conflicts: &mut Conflicts,
) -> Result<(), ApplyError> {
    for (number, stored) in set.tables().iter().enumerate() {
        if stored.rows.added + stored.rows.changed == 0 {
            continue;
        }
        let Some(found) = &ready.here.tables[number] else { continue };
        let places: Vec<usize> = (0..stored.table.columns.len()).collect();
        ready.new[number] = Some(stage(run, set, number, Side::New, &places).await?);
        if stored.rows.added > 0 {
            check::new_rows(run, number, stored, found, conflicts).await?;
        }
    }
    Ok(())
}

async fn attempt(
    run: &Run<'_>,
    set: &ChangeSet,
    mut ready: Ready,
    order: &[Stage],
) -> Result<Counts, ApplyError> {
    let mut counts = Counts::default();
    let mut off = Off::default();
    run.batch("deferring constraints", "SET CONSTRAINTS ALL DEFERRED").await?;
    if run.options.triggers == Triggers::Off {
        off.put_out(run, set, &ready.here).await?;
    }
    let is_split = order.contains(&Constrain);
    for stage in order {
        match stage {
            Delete => counts.deleted = delete(run, set, &ready).await?,
            Define => {
                if order[0] == Delete {
                    let_go(run, &ready).await?;
                }
                let now = |sql: &str| !(is_split && statement::sets_not_null(sql));
                counts.statements = define(run, set, now).await?;
                run.pinned().await?;
                ready.here = Catalogue::read(run, set).await?;
                after_statements(set, &ready.here)?;
                let mut conflicts = Conflicts::default();
                check::structure(set, &ready.here, true, &mut conflicts);
                refuse(&mut conflicts)?;
                stage_new(run, set, &mut ready, &mut conflicts).await?;
                refuse(&mut conflicts)?;
                if run.options.triggers == Triggers::Off {
                    off.put_out(run, set, &ready.here).await?;
                }
            }
            Early => early(run, set, &ready).await?,
            Update => counts.updated = update(run, set, &ready).await?,
            Insert => counts.inserted = insert(run, set, &ready).await?,
            Constrain => {
                // A table whose rows are still to be checked cannot be altered.
                run.batch("checking constraints", "SET CONSTRAINTS ALL IMMEDIATE").await?;
                counts.statements += define(run, set, statement::sets_not_null).await?;
            }
        }
    }
    // Tables that went took their rows along.
    let gone = set.tables().iter().filter(|stored| stored.table.only_in == Some(Only::Snapshot));
    counts.deleted += gone.map(|stored| stored.rows.removed).sum::<u64>();
    run.as_usual().await?;
    run.batch("checking constraints", "SET CONSTRAINTS ALL IMMEDIATE").await?;
    off.put_back(run).await?;
    Ok(counts)
}

/// Drops temporary tables of old rows that have gone: statements may drop the types of their columns.
async fn let_go(run: &Run<'_>, ready: &Ready) -> Result<(), ApplyError> {
    for (number, _) in ready.old.iter().enumerate().filter(|(_, staged)| staged.is_some()) {
        let sql = format!("DROP TABLE {}", sql::staged(sql::TEMPORARY, Side::Old, number));
        run.batch("letting go of rows that have gone", &sql).await?;
    }
    Ok(())
}

/// Tables that are to go must have gone by the statements.
pub(crate) fn after_statements(set: &ChangeSet, here: &Catalogue) -> Result<(), ApplyError> {
    for (StoredTable { table, .. }, found) in set.tables().iter().zip(&here.tables) {
        if table.only_in == Some(Only::Snapshot) && found.is_some() {
            let shown = shown_name(&table.schema, &table.name);
            let what = format!("the table {shown} is to go, and its statements do not drop it");
            return Err(SetError::Malformed { file: "the change set".to_owned(), what }.into());
        }
    }
    Ok(())
}

/// Runs the statements that are to be run `now`.
async fn define(run: &Run<'_>, set: &ChangeSet, now: impl Fn(&str) -> bool) -> Result<u64, ApplyError> {
    let settings = "SET LOCAL search_path = pg_catalog; SET LOCAL check_function_bodies = off";
    run.batch("setting what definitions are read with", settings).await?;
    let mut count = 0;
    for (number, ddl) in (1..).zip(set.ddl()).filter(|(_, ddl)| now(&ddl.sql)) {
        let begin: String = ddl.sql.chars().take(80).flat_map(char::escape_debug).collect();
        if let Some(why) = statement::refused(&ddl.sql) {
            return Err(ApplyError::Statement { number, why: why.to_owned(), sql: begin });
        }
        run.one(&format!("statement {number} (`{begin}`)"), &ddl.sql).await?;
        count += 1;
    }
    run.batch("setting the session back", "SET LOCAL check_function_bodies TO DEFAULT").await?;
    Ok(count)
}

async fn delete(run: &Run<'_>, set: &ChangeSet, ready: &Ready) -> Result<u64, ApplyError> {
    let mut deleted = 0;
    let is_staged: Vec<bool> = ready.old.iter().map(Option::is_some).collect();
    for number in parents_first(&ready.here).into_iter().rev() {
        let StoredTable { table, .. } = &set.tables()[number];
        let (Some(staged), Some(found)) = (&ready.old[number], &ready.here.tables[number]) else { continue };
        if staged.single == 0 || table.only_in == Some(Only::Snapshot) {
            continue;
        }
        run.pinned().await?;
        let mut conflicts = Conflicts::default();
        check::referring_rows(run, set, number, &ready.here, &is_staged, &mut conflicts).await?;
        refuse(&mut conflicts)?;
        let sql = match table.key.is_empty() {
            true => sql::delete_whole(table, sql::TEMPORARY, number, &common(table)),
            false => sql::delete(table, found, sql::TEMPORARY, number),
        };
        // Rows without a key are compared by their texts.
        if !table.key.is_empty() {
            run.as_usual().await?;
        }
        let shown = shown_name(&table.schema, &table.name);
        let found = run.one(&format!("deleting from {shown}"), &sql).await?;
        expect("deleting", &shown, staged.single, found)?;
        deleted += found;
    }
    Ok(deleted)
}

async fn early(run: &Run<'_>, set: &ChangeSet, ready: &Ready) -> Result<(), ApplyError> {
    for number in parents_first(&ready.here) {
        let StoredTable { table, rows } = &set.tables()[number];
        if rows.changed == 0 || table.only_in.is_some() {
            continue;
        }
        run.pinned().await?;
        let staged = stage(run, set, number, Side::Early, &common(table)).await?;
        groups(run, set, ready, (Side::Early, number), &staged).await?;
    }
    Ok(())
}

async fn update(run: &Run<'_>, set: &ChangeSet, ready: &Ready) -> Result<u64, ApplyError> {
    let mut updated = 0;
    for number in parents_first(&ready.here) {
        let Some(staged) = &ready.new[number] else { continue };
        groups(run, set, ready, (Side::New, number), staged).await?;
        updated += set.tables()[number].rows.changed;
    }
    Ok(updated)
}

/// The updates of one table.
async fn groups(
    run: &Run<'_>,
    set: &ChangeSet,
    ready: &Ready,
    (side, number): (Side, usize),
    staged: &Staged,
) -> Result<(), ApplyError> {
    let table = &set.tables()[number].table;
    let Some(found) = &ready.here.tables[number] else { return Ok(()) };
    run.as_usual().await?;
    let shown = shown_name(&table.schema, &table.name);
    for (group, (places, expected)) in staged.groups.iter().enumerate() {
        let sql = sql::update(table, found, sql::TEMPORARY, (side, number), group, places);
        let found = run.one(&format!("updating {shown}"), &sql).await?;
        expect("updating", &shown, *expected, found)?;
    }
    Ok(())
}

async fn insert(run: &Run<'_>, set: &ChangeSet, ready: &Ready) -> Result<u64, ApplyError> {
    let mut inserted = 0;
    run.as_usual().await?;
    for number in parents_first(&ready.here) {
        let Some(staged) = ready.new[number].as_ref().filter(|staged| staged.single > 0) else { continue };
        let table = &set.tables()[number].table;
        let shown = shown_name(&table.schema, &table.name);
        let found =
            run.one(&format!("inserting into {shown}"), &sql::insert(table, sql::TEMPORARY, number)).await?;
        expect("inserting", &shown, staged.single, found)?;
        inserted += found;
    }
    Ok(inserted)
}

fn expect(doing: &'static str, table: &str, expected: u64, found: u64) -> Result<(), ApplyError> {
    match expected == found {
        true => Ok(()),
        false => Err(ApplyError::OtherRows { doing, table: table.to_owned(), expected, found }),
    }
}

/// Triggers of users that are off in the transaction.
#[derive(Debug, Default)]
struct Off {
    /// The table's name and id, the trigger's name, and when it fires otherwise.
    triggers: Vec<(String, u32, String, String)>,
}

impl Off {
    async fn put_out(&mut self, run: &Run<'_>, set: &ChangeSet, here: &Catalogue) -> Result<(), ApplyError> {
        for (StoredTable { table, .. }, found) in set.tables().iter().zip(&here.tables) {
            let Some(found) = found else { continue };
            let name = sql::table(&table.schema, &table.name);
            for (trigger, state) in &found.triggers {
                let quoted = quote_identifier(trigger);
                let doing = format!("having the trigger {trigger} off, which the owner of its table may do,");
                run.batch(&doing, &format!("ALTER TABLE {name} DISABLE TRIGGER {quoted}")).await?;
                self.triggers.push((name.clone(), found.id, trigger.clone(), state.clone()));
            }
        }
        Ok(())
    }

    async fn put_back(&self, run: &Run<'_>) -> Result<(), ApplyError> {
        for (table, id, trigger, state) in &self.triggers {
            const DOING: &str = "having triggers fire again";
            let sql = "SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid OPERATOR(pg_catalog.=) $1 \
                AND t.tgname OPERATOR(pg_catalog.=) $2::pg_catalog.text::pg_catalog.name";
            if run.rows(DOING, sql, &[id, trigger]).await?.is_empty() {
                continue;
            }
            let when = match state.as_str() {
                "R" => "REPLICA ",
                "A" => "ALWAYS ",
                _ => "",
            };
            let sql = format!("ALTER TABLE {table} ENABLE {when}TRIGGER {}", quote_identifier(trigger));
            run.batch(DOING, &sql).await?;
        }
        Ok(())
    }
}
