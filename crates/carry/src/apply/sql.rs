//! The statements that bring rows into a table. Every name is quoted, and everything of the system's is named as such, for they run
//! under the search path of whoever applies.

use super::target::TargetTable;
use duramen_changes::Table;
use duramen_postgres::quote_identifier;

/// A table as statements name it.
pub(crate) fn table(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// Which rows a temporary table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// As they were.
    Old,
    /// As they are to be.
    New,
    /// As they are to be, as far as the table has such columns before the statements.
    Early,
    /// The keys of all, whatever is to become of them.
    Key,
}

/// The schema of tables that go with the transaction.
pub(crate) const TEMPORARY: &str = "pg_temp";

/// The name of a table with rows of the change set's table of that number. `home` is its schema, as statements name it.
pub(crate) fn staged(home: &str, side: Side, number: usize) -> String {
    let side = match side {
        Side::Old => "old",
        Side::New => "new",
        Side::Early => "early",
        Side::Key => "key",
    };
    format!("{home}.duramen_{side}_{number}")
}

/// Makes such a table, with the types of the columns at `places`: `n` is the number of the row, and `g` its group.
pub(crate) fn make_staged(of: &Table, home: &str, side: Side, number: usize, places: &[usize]) -> String {
    let columns: Vec<String> = places
        .iter()
        .map(|place| format!(", t.{} AS c{place}", quote_identifier(&of.columns[*place].name)))
        .collect();
    let name = staged(home, side, number);
    let make = match name.strip_prefix("pg_temp.") {
        Some(name) => format!("CREATE TEMPORARY TABLE {name} ON COMMIT DROP"),
        None => format!("CREATE TABLE {name}"),
    };
    format!(
        "{make} AS SELECT 0::pg_catalog.int8 AS n, 0::pg_catalog.int4 AS g{} \
         FROM ONLY {} t WITH NO DATA",
        columns.concat(),
        table(&of.schema, &of.name)
    )
}

/// A value as the text that stands in change sets; of a composite of NULLs too.
fn text(value: &str) -> String {
    format!("CASE WHEN {value} IS NOT DISTINCT FROM NULL THEN NULL ELSE pg_catalog.format('%s', {value}) END")
}

/// The texts of some values of a row of the table itself.
pub(crate) fn image(of: &Table, places: &[usize]) -> String {
    let values =
        places.iter().map(|place| text(&format!("t.{}", quote_identifier(&of.columns[*place].name))));
    format!("ARRAY[{}]::pg_catalog.text[]", values.collect::<Vec<_>>().join(", "))
}

/// The same of a row of a temporary table.
pub(crate) fn staged_image(places: &[usize]) -> String {
    let values = places.iter().map(|place| text(&format!("s.c{place}")));
    format!("ARRAY[{}]::pg_catalog.text[]", values.collect::<Vec<_>>().join(", "))
}

/// Whether a row of the table, `t`, is that of a temporary table, `s`, by its key.
pub(crate) fn is_same(of: &Table, here: &TargetTable) -> String {
    is_same_as(of, here, "t", "s")
}

/// The same for rows that a statement calls otherwise.
pub(crate) fn is_same_as(of: &Table, here: &TargetTable, t: &str, s: &str) -> String {
    let same = of.key.iter().map(|place| {
        let name = &of.columns[*place].name;
        let column = quote_identifier(name);
        match here.columns.get(name).is_some_and(|column| column.is_compared_by_system) {
            true => format!("{t}.{column} OPERATOR(pg_catalog.=) {s}.c{place}"),
            // An operator of a user's may find other things equal.
            false => format!(
                "pg_catalog.format('%s', {t}.{column}) OPERATOR(pg_catalog.=) pg_catalog.format('%s', {s}.c{place})"
            ),
        }
    });
    same.collect::<Vec<_>>().join(" AND ")
}

/// Takes rows with a key away: those of the group -1.
pub(crate) fn delete(of: &Table, here: &TargetTable, home: &str, number: usize) -> String {
    format!(
        "DELETE FROM ONLY {} t USING {} s WHERE s.g OPERATOR(pg_catalog.=) -1 AND {}",
        table(&of.schema, &of.name),
        staged(home, Side::Old, number),
        is_same(of, here)
    )
}

/// Takes rows without a key away: as many of each as there are in the temporary table.
pub(crate) fn delete_whole(of: &Table, home: &str, number: usize, places: &[usize]) -> String {
    let (name, old) = (table(&of.schema, &of.name), staged(home, Side::Old, number));
    let (image, staged_image) = (image(of, places), staged_image(places));
    format!(
        "DELETE FROM ONLY {name} WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY( \
           SELECT h.place FROM (SELECT t.ctid AS place, {image} AS image, \
               pg_catalog.row_number() OVER (PARTITION BY {image}) AS nth FROM ONLY {name} t) h \
             JOIN (SELECT {staged_image} AS image, pg_catalog.count(*) AS times FROM {old} s GROUP BY 1) w \
               ON w.image OPERATOR(pg_catalog.=) h.image AND h.nth OPERATOR(pg_catalog.<=) w.times))"
    )
}

/// Changes rows of a group.
pub(crate) fn update(
    of: &Table,
    here: &TargetTable,
    home: &str,
    (side, number): (Side, usize),
    group: usize,
    places: &[usize],
) -> String {
    let set: Vec<String> = places
        .iter()
        .map(|place| format!("{} = s.c{place}", quote_identifier(&of.columns[*place].name)))
        .collect();
    format!(
        "UPDATE ONLY {} t SET {} FROM {} s WHERE s.g OPERATOR(pg_catalog.=) {group} AND {}",
        table(&of.schema, &of.name),
        set.join(", "),
        staged(home, side, number),
        is_same(of, here)
    )
}

/// Brings rows: those of the group -1, in their order.
pub(crate) fn insert(of: &Table, home: &str, number: usize) -> String {
    let columns: Vec<String> = of.columns.iter().map(|column| quote_identifier(&column.name)).collect();
    let values: Vec<String> = (0..of.columns.len()).map(|place| format!("s.c{place}")).collect();
    format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} s WHERE s.g OPERATOR(pg_catalog.=) -1 ORDER BY s.n",
        table(&of.schema, &of.name),
        columns.join(", "),
        values.join(", "),
        staged(home, Side::New, number)
    )
}
