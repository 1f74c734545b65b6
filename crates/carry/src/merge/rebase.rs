//! A change set of the child, made anew for the parent as it is: before-images are the parent's rows, after-images what the merge
//! gives. So applying it finds every row as it is to be, and does all that it does for any other.

use super::{
    conflict::{told, Found, MergeConflict, Reason, Taken},
    three::{decide, Decided, Known, Rules},
    Definitions, MergeOptions, Strategy,
};
use crate::{
    apply::{
        check::common,
        run::Run,
        sql::{self, Side},
        stage::stage,
        target::{Catalogue, TargetTable},
    },
    error::{ApplyError, SetError},
    read::ChangeSet,
    set::ROW_BYTES_MAX,
    write::ChangeSetWriter,
};
use duramen_changes::{shown_name, Ending, Only, Part, Row, Summary, Table};
use futures_util::TryStreamExt;
use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    pin::pin,
};

/// The values of a row without a key.
type Values = Vec<Option<String>>;

/// Makes it at `path`, and tells the conflicts.
pub(super) async fn rebase(
    run: &Run<'_>,
    set: &ChangeSet,
    options: &MergeOptions,
    path: &Path,
    found: &mut Found,
) -> Result<ChangeSet, ApplyError> {
    let head = set.head();
    let is_same = options.definitions == Definitions::Same;
    let ddl = if is_same { &[] } else { set.ddl() };
    let mut writer = ChangeSetWriter::create(path, head.origin.clone(), head.warnings.clone(), ddl)?;
    let here = Catalogue::read(run, set).await?;
    let rules = Rules { strategy: options.strategy, equal: options.equal };
    for (number, stored) in set.tables().iter().enumerate() {
        let Some(table) = as_in_parent(&stored.table, options.definitions) else { continue };
        writer.part(&Part::Table(table.clone()))?;
        let mut carried = Carried { writer: &mut writer, ending: Ending::default() };
        let there = here.tables.get(number).and_then(Option::as_ref);
        let there = there.filter(|there| fits(&table, there, !ddl.is_empty()));
        match there {
            // What is in the way there is told by applying it.
            None => all(set, number, &mut carried)?,
            Some(_) if stored.rows.total() == 0 => {}
            Some(there) if table.key.is_empty() => {
                let work = Work { run, set, number, table: &table, there };
                without_key(&work, rules, &mut carried, found).await?;
            }
            Some(there) => {
                let known = table.columns.iter().map(|column| Known {
                    is_coming: table.is_new(&column.name),
                    is_without_base: is_same && stored.table.is_new(&column.name),
                });
                let known: Vec<Known> = known.collect();
                let work = Work { run, set, number, table: &table, there };
                with_key(&work, &known, rules, &mut carried, found).await?;
            }
        }
        let ending = carried.ending;
        writer.part(&Part::Ending(ending))?;
    }
    for sequence in set.sequences() {
        writer.part(&Part::Sequence(sequence.clone()))?;
    }
    writer.part(&Part::Summary(Summary::default()))?;
    writer.finish()?;
    Ok(ChangeSet::open(path)?)
}

/// The table as the parent has it before it is written to; `None` if it has gone there as well.
fn as_in_parent(table: &Table, definitions: Definitions) -> Option<Table> {
    match definitions {
        Definitions::Behind => Some(table.clone()),
        Definitions::Same if table.only_in == Some(Only::Snapshot) => None,
        Definitions::Same => {
            let left_out = table.left_out.iter().filter(|column| column.only_in.is_none()).cloned().collect();
            Some(Table { only_in: None, left_out, ..table.clone() })
        }
    }
}

/// Whether the parent's rows can be read and found as those of the child.
fn fits(table: &Table, there: &TargetTable, has_statements: bool) -> bool {
    let has = |place: &usize| {
        let column = &table.columns[*place];
        let found = there.columns.get(&column.name);
        found.is_some_and(|found| has_statements || found.type_name == column.type_name)
    };
    let key: BTreeSet<String> = table.key.iter().map(|place| table.columns[*place].name.clone()).collect();
    table.only_in.is_none() && common(table).iter().all(has) && (key.is_empty() || there.keys.contains(&key))
}

/// A table whose rows are looked at.
struct Work<'a> {
    run: &'a Run<'a>,
    set: &'a ChangeSet,
    number: usize,
    /// As in the parent.
    table: &'a Table,
    there: &'a TargetTable,
}

impl Work<'_> {
    fn shown(&self) -> String {
        shown_name(&self.table.schema, &self.table.name)
    }

    fn name(&self) -> String {
        sql::table(&self.table.schema, &self.table.name)
    }

    fn conflict(&self, reason: Reason, values: &[Option<String>], taken: Option<Taken>) -> MergeConflict {
        let Table { schema, name, columns, key, .. } = self.table;
        let named = columns.iter().zip(values).enumerate();
        let named = named.filter(|(place, _)| key.is_empty() || key.contains(place));
        let key = named.map(|(_, (column, value))| (column.name.clone(), told(value.as_deref())));
        MergeConflict {
            reason,
            schema: schema.clone(),
            table: name.clone(),
            key: key.collect(),
            columns: Vec::new(),
            detail: None,
            taken,
        }
    }

    async fn let_go(&self, side: Side) -> Result<(), ApplyError> {
        let sql = format!("DROP TABLE {}", sql::staged(sql::TEMPORARY, side, self.number));
        self.run.batch("letting go of what was compared", &sql).await
    }
}

/// Rows that go into the set.
struct Carried<'a> {
    writer: &'a mut ChangeSetWriter,
    ending: Ending,
}

impl Carried<'_> {
    fn row(&mut self, row: Row) -> Result<(), SetError> {
        match (&row.old, &row.new) {
            (Some(_), Some(_)) => self.ending.changed += 1,
            (Some(_), None) => self.ending.removed += 1,
            _ => self.ending.added += 1,
        }
        self.ending.listed += 1;
        self.writer.part(&Part::Row(row))
    }
}

/// All rows as they are.
fn all(set: &ChangeSet, number: usize, carried: &mut Carried<'_>) -> Result<(), SetError> {
    let mut blocks = set.blocks(number)?;
    while let Some(rows) = blocks.next()? {
        rows.into_iter().try_for_each(|row| carried.row(row))?;
    }
    Ok(())
}

/// Rows with a key: each is locked and read.
async fn with_key(
    work: &Work<'_>,
    known: &[Known],
    rules: Rules,
    carried: &mut Carried<'_>,
    found: &mut Found,
) -> Result<(), ApplyError> {
    let Work { run, set, number, table, there } = work;
    let (shown, name, keys) = (work.shown(), work.name(), sql::staged(sql::TEMPORARY, Side::Key, *number));
    stage(run, set, *number, Side::Key, &table.key).await?;
    let same = sql::is_same(table, there);
    let lock = format!(
        "SELECT count(*) FROM (SELECT 1 FROM ONLY {name} t JOIN {keys} s ON {same} FOR UPDATE OF t) locked"
    );
    run.rows(&format!("locking rows of {shown}"), &lock, &[]).await?;
    // A statement of its own: it sees what whoever held a lock has committed.
    let places = common(table);
    let sql = format!(
        "SELECT r.n, r.is_there, CASE WHEN pg_catalog.pg_column_size(r.image) <= {ROW_BYTES_MAX} THEN r.image END FROM \
           (SELECT s.n, t.ctid IS NOT NULL AS is_there, CASE WHEN t.ctid IS NOT NULL THEN {} END AS image \
            FROM {keys} s LEFT JOIN ONLY {name} t ON {same} ORDER BY s.n) r",
        sql::image(table, &places)
    );
    let doing = format!("reading the rows of {shown}");
    {
        let failed = |error| run.failed(&doing, error);
        let none: [i64; 0] = [];
        let mut here = pin!(run.client.query_raw(&sql, none).await.map_err(failed)?);
        let mut blocks = set.blocks(*number)?;
        let mut n = 0_i64;
        while let Some(rows) = blocks.next()? {
            for row in rows {
                n += 1;
                let read = here.try_next().await.map_err(failed)?;
                let Some(read) = read.filter(|read| read.get::<_, i64>(0) == n) else {
                    let what = format!("rows of {shown} in it are not told apart by their key");
                    return Err(SetError::Malformed { file: "the change set".to_owned(), what }.into());
                };
                let ours = match (read.get::<_, bool>(1), read.get::<_, Option<Values>>(2)) {
                    (false, _) => None,
                    (true, Some(image)) => Some(at_their_places(table, &places, image)),
                    (true, None) => {
                        let why = format!("it has more than {ROW_BYTES_MAX} bytes");
                        let what = format!("a row of table {shown} of the parent");
                        return Err(SetError::NotCarried { what, why }.into());
                    }
                };
                let sides = [row.old.as_deref(), ours.as_deref(), row.new.as_deref()];
                let Decided { row: decided, clashes } = decide(table, known, sides, rules);
                for clash in clashes {
                    let values = row.new.as_deref().or(row.old.as_deref()).unwrap_or_default();
                    let conflict = work.conflict(clash.reason, values, clash.taken);
                    found.push(MergeConflict { columns: clash.columns, ..conflict });
                }
                if let Some(decided) = decided {
                    carried.row(decided)?;
                }
            }
        }
    }
    work.let_go(Side::Key).await
}

/// Values that were read for some columns, with NULL for the others.
fn at_their_places(table: &Table, places: &[usize], image: Values) -> Values {
    let mut values = vec![None; table.columns.len()];
    for (place, value) in places.iter().zip(image) {
        values[*place] = value;
    }
    values
}

/// Rows without a key: whole rows, as many as there are.
async fn without_key(
    work: &Work<'_>,
    rules: Rules,
    carried: &mut Carried<'_>,
    found: &mut Found,
) -> Result<(), ApplyError> {
    let Work { set, number, table, .. } = work;
    let places = common(table);
    let lacking = missing(work, &places).await?;
    let taken = match rules.strategy {
        Strategy::Fail => None,
        Strategy::Ours => Some(Taken::Ours),
        Strategy::Theirs => Some(Taken::Theirs),
    };
    for Lacking { values, expected, lacking } in &lacking {
        let conflict = work.conflict(Reason::TooFew, &at_their_places(table, &places, values.clone()), taken);
        let there = expected - lacking;
        let detail = format!("the child took {expected} such rows away, and the parent has {there}");
        found.push(MergeConflict { detail: Some(detail), ..conflict });
    }
    let mut left: HashMap<Values, i64> = lacking.into_iter().map(|it| (it.values, it.lacking)).collect();
    let mut blocks = set.blocks(*number)?;
    while let Some(rows) = blocks.next()? {
        for row in rows {
            if let Some(old) = &row.old {
                let values: Values = places.iter().map(|place| old[*place].clone()).collect();
                if let Some(left) = left.get_mut(&values).filter(|left| **left > 0) {
                    *left -= 1;
                    continue;
                }
            }
            carried.row(row)?;
        }
    }
    Ok(())
}

/// Rows without a key that the parent has fewer of than the child took away.
struct Lacking {
    values: Values,
    /// How many the child took away.
    expected: i64,
    /// How many of these the parent does not have.
    lacking: i64,
}

async fn missing(work: &Work<'_>, places: &[usize]) -> Result<Vec<Lacking>, ApplyError> {
    let Work { run, set, number, table, .. } = work;
    let (shown, name, old) = (work.shown(), work.name(), sql::staged(sql::TEMPORARY, Side::Old, *number));
    stage(run, set, *number, Side::Old, places).await?;
    // Which rows they are is not known before all are read.
    run.batch(&format!("locking {shown}"), &format!("LOCK TABLE ONLY {name} IN SHARE ROW EXCLUSIVE MODE"))
        .await?;
    let (image, staged_image) = (sql::image(table, places), sql::staged_image(places));
    let sql = format!(
        "SELECT w.image, w.times, w.times - coalesce(h.times, 0) FROM \
           (SELECT {staged_image} AS image, count(*) AS times FROM {old} s GROUP BY 1) w \
           LEFT JOIN (SELECT {image} AS image, count(*) AS times FROM ONLY {name} t GROUP BY 1) h ON h.image = w.image \
         WHERE coalesce(h.times, 0) < w.times ORDER BY w.image"
    );
    let rows = run.rows(&format!("comparing the rows of {shown}"), &sql, &[]).await?;
    work.let_go(Side::Old).await?;
    let lacking =
        |row: &tokio_postgres::Row| Lacking { values: row.get(0), expected: row.get(1), lacking: row.get(2) };
    Ok(rows.iter().map(lacking).collect())
}
