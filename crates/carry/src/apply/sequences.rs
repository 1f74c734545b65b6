//! Sequences: they are moved on, never back, because values that were given out since must not be given out again.

use super::{
    conflict::{Conflict, ConflictKind, Conflicts},
    run::Run,
    sql,
};
use crate::{error::ApplyError, read::ChangeSet};
use duramen_changes::{shown_name, Sequence, SequenceState};
use duramen_postgres::quote_literal;

const STATE: &str = "
    SELECT p.seqincrement FROM pg_sequence p JOIN pg_class c ON c.oid = p.seqrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2";

/// Whether those are there that were there before.
pub(crate) async fn check(
    run: &Run<'_>,
    set: &ChangeSet,
    conflicts: &mut Conflicts,
) -> Result<(), ApplyError> {
    for Sequence { schema, name, old, new } in set.sequences() {
        if old.is_none() || new.is_none() {
            continue;
        }
        let found = run.rows("looking for sequences", STATE, &[schema, name]).await?;
        if found.is_empty() {
            let (schema, table, key) = (schema.clone(), name.clone(), Vec::new());
            conflicts.push(Conflict { schema, table, key, kind: ConflictKind::NotThere });
        }
    }
    Ok(())
}

/// Moves them on. That does not belong to the transaction, so it comes last: what is taken back leaves a gap.
pub(crate) async fn move_on(run: &Run<'_>, set: &ChangeSet) -> Result<u64, ApplyError> {
    let mut moved = 0;
    for Sequence { schema, name, new, .. } in set.sequences() {
        let Some(SequenceState { last_value, is_called }) = *new else { continue };
        let doing = format!("moving the sequence {} on", shown_name(schema, name));
        let found = run.rows(&doing, STATE, &[schema, name]).await?;
        // It goes with its table, and may have been told of one that the statements do not make.
        let Some(row) = found.first() else { continue };
        let increment: i64 = row.get(0);
        let sequence = sql::table(schema, name);
        let now = run.rows(&doing, &format!("SELECT last_value, is_called FROM {sequence}"), &[]).await?;
        let Some(now) = now.first() else { continue };
        // What it gives next, in steps.
        let next =
            |last: i64, is_called: bool| i128::from(last) + if is_called { i128::from(increment) } else { 0 };
        let (here, there) = (next(now.get(0), now.get(1)), next(last_value, is_called));
        let is_ahead = if increment > 0 { there > here } else { there < here };
        if is_ahead {
            let set = format!(
                "SELECT pg_catalog.setval({}::pg_catalog.regclass, {last_value}, {is_called})",
                quote_literal(&sequence)
            );
            run.rows(&doing, &set, &[]).await?;
            moved += 1;
        }
    }
    Ok(moved)
}
