//! Sequences go on behind the values that rows were merged with (M8).

use crate::{
    apply::{run::Run, sql, target::Catalogue},
    error::ApplyError,
    read::ChangeSet,
};
use duramen_changes::shown_name;
use duramen_postgres::quote_literal;

/// Which columns of whole numbers of a table draw from which sequences: those of identity columns, and those in defaults. Columns of a
/// partition draw from those of its partitioned tables, too.
const DRAWN: &str = "
    SELECT DISTINCT a.attname::text, n.nspname::text, c.relname::text, p.seqincrement, p.seqmin, p.seqmax
    FROM (
      SELECT d.refobjid AS relation, d.refobjsubid AS number, d.objid AS sequence FROM pg_depend d
      WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
      UNION ALL
      SELECT f.adrelid, f.adnum, d.refobjid FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid
      WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
    ) draws
    JOIN pg_sequence p ON p.seqrelid = draws.sequence
    JOIN pg_class c ON c.oid = p.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = draws.relation AND a.attnum = draws.number
    WHERE draws.relation = ANY($1) AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
    ORDER BY 2, 3, 1";

/// Moves sequences beyond what was inserted or changed. A value behind which a sequence would have nothing left is passed over: it was
/// written by hand, and the sequence would end.
pub(super) async fn move_on(run: &Run<'_>, set: &ChangeSet) -> Result<(), ApplyError> {
    let here = Catalogue::read(run, set).await?;
    for (number, (stored, found)) in set.tables().iter().zip(&here.tables).enumerate() {
        let Some(found) = found.as_ref().filter(|_| stored.rows.added + stored.rows.changed > 0) else {
            continue;
        };
        let table = &stored.table;
        let doing = format!("looking for the sequences of {}", shown_name(&table.schema, &table.name));
        for row in run.rows(&doing, DRAWN, &[&found.lineage]).await? {
            let column: String = row.get(0);
            let Some(place) = table.columns.iter().position(|it| it.name == column) else { continue };
            let (increment, least, most): (i64, i64, i64) = (row.get(3), row.get(4), row.get(5));
            let sequence = sql::table(&row.get::<_, String>(1), &row.get::<_, String>(2));
            let (furthest, ahead) = if increment > 0 { ("max", ">") } else { ("min", "<") };
            // In one statement, so that little comes in between.
            let sql = format!(
                "SELECT pg_catalog.setval({}::pg_catalog.regclass, s.value, true) FROM \
                   (SELECT {furthest}(c{place})::pg_catalog.int8 AS value FROM {}) s, {sequence} q \
                 WHERE s.value::pg_catalog.numeric + {increment} BETWEEN {least} AND {most} \
                   AND s.value BETWEEN {least} AND {most} \
                   AND (s.value {ahead} q.last_value OR (s.value = q.last_value AND NOT q.is_called))",
                quote_literal(&sequence),
                sql::staged(sql::TEMPORARY, sql::Side::New, number),
            );
            run.rows(&format!("moving the sequence {sequence} on"), &sql, &[]).await?;
        }
    }
    Ok(())
}
