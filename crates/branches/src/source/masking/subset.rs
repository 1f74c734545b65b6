//! A part of the rows is kept: some of one table, all that belongs to them, and all that these refer to.
//!
//! First down: rows whose foreign keys refer to kept rows are kept, and so on. Then up: rows that kept rows refer to are kept,
//! and so on, but what else refers to those is not. Cycles and tables that refer to themselves end when a round finds nothing.
//! What is kept is a list of places for each table; the role that may only read finds them, because keys are compared by
//! operators of the source, and the administrator removes all rows that are in no list.

use super::{
    catalogue::{Catalogue, ForeignKey, Table},
    failed, masked,
    pseudonym::Pseudonyms,
    rules::{Part, Rules, Which},
    stream::{self, Plan},
    Failure, Sessions, READER, SCHEMA,
};
use crate::model::{Percent, Sanitised};
use duramen_postgres::quote_identifier;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many rounds rows are looked for in: as long may be a chain of rows that each refer to the next.
const ROUNDS: u32 = 10_000;
/// What queries of this module call the row that they look for.
const ROW: &str = "duramen_row";

/// Keeps the part that the rules say, if they say any.
pub(super) async fn keep(
    sessions: &Sessions,
    catalogue: &Catalogue,
    rules: &Rules,
    drawn: &Pseudonyms,
) -> Result<Vec<Sanitised>, Failure> {
    let Some(part) = &rules.subset else { return Ok(Vec::new()) };
    let connected = connected(catalogue, part);
    let places = Plan::of_places(drawn);
    let mut kept = Kept { sessions, catalogue, places, lists: 0, rounds: 0 };
    for table in connected.iter().filter_map(|id| catalogue.tables.get(id)) {
        kept.begin(table).await?;
    }
    // What was found last, by table: only its neighbours are looked at next.
    let mut begun: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    // A condition calls its table by the name of the whole, whichever part of it is looked at.
    let named =
        catalogue.tables.get(&part.table).map(|table| quote_identifier(&table.name)).unwrap_or_default();
    for table in catalogue.storing(part.table) {
        let condition = Kept::which(table, &named, part, drawn);
        let list = kept.find((table, &named), &condition, "choosing the rows to keep").await?;
        begun.entry(table.id).or_default().extend(list);
    }
    let mut all = kept.follow(begun, Way::Down).await?;
    for table in part.whole.iter().flat_map(|id| catalogue.storing(*id)) {
        let list = kept.find((table, ROW), "true", "keeping whole tables").await?;
        all.entry(table.id).or_default().extend(list);
    }
    kept.follow(all, Way::Up).await?;
    let mut report = Vec::new();
    for table in connected.iter().filter_map(|id| catalogue.tables.get(id)) {
        let (left, removed) = kept.remove_others(table).await?;
        let action = format!("{removed} removed, {left} kept (subset)");
        report.push(masked("rows", &table.plain_name(), action));
    }
    let rest = catalogue.tables.values().filter(|it| it.kind == 'r' && !connected.contains(&it.id));
    for table in rest {
        let action = "all kept: no foreign key connects it with the subset".to_owned();
        report.push(masked("rows", &table.plain_name(), action));
    }
    Ok(report)
}

/// The tables that store rows and that a chain of foreign keys, in whichever direction, connects with the subset's.
fn connected(catalogue: &Catalogue, part: &Part) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = BTreeSet::new();
    let mut open: Vec<u32> = vec![part.table];
    open.extend(&part.whole);
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let family: BTreeSet<u32> = catalogue.family(id).iter().map(|table| table.id).collect();
        found.extend(catalogue.storing(id).map(|table| table.id));
        for key in &catalogue.keys {
            if family.contains(&key.table) {
                open.push(key.target);
            }
            if family.contains(&key.target) {
                open.push(key.table);
            }
        }
        // A key may be one of the whole of which this is a part.
        open.extend(catalogue.tables.values().filter(|it| it.children.contains(&id)).map(|it| it.id));
        open.extend(family);
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the rows that refer to kept ones.
    Down,
    /// To the rows that kept ones refer to.
    Up,
}

/// The lists of rows that are kept.
struct Kept<'a> {
    sessions: &'a Sessions,
    catalogue: &'a Catalogue,
    places: Arc<Plan>,
    /// How many lists of newly found rows there were.
    lists: u32,
    rounds: u32,
}

impl<'a> Kept<'a> {
    /// The list of all kept rows of a table.
    fn list(table: u32) -> String {
        format!("{SCHEMA}.kept_{table}")
    }

    async fn begin(&self, table: &Table) -> Result<(), Failure> {
        let list = Kept::list(table.id);
        let sql = format!("create table {list} (place tid primary key); grant select on {list} to {READER}");
        self.sessions.write.batch_execute(&sql).await.map_err(failed("keeping a subset"))
    }

    /// The condition for the rows of a table to begin with.
    fn which(table: &Table, named: &str, part: &Part, drawn: &Pseudonyms) -> String {
        match &part.which {
            // On lines of its own, so that a comment at its end takes nothing else with it.
            Which::Condition(text) => format!("(\n{text}\n)"),
            Which::Share(share) => {
                // By what names a row, so that they are the same ones after a refresh.
                let key = table.primary.iter().filter_map(|number| table.column(*number));
                let key: Vec<String> = key.map(|column| quote_identifier(&column.name)).collect();
                let key = if key.is_empty() {
                    format!("{named}.ctid::text")
                } else {
                    format!("row({named}.{})::text", key.join(&format!(", {named}.")))
                };
                let salt = (drawn.number("subset", &[table.plain_name().as_bytes()]) as u64).cast_signed();
                let whole = Percent::WHOLE;
                format!(
                    "mod(hashtextextended({key} collate \"C\", {salt}) & 9223372036854775807, {whole}) < {share}"
                )
            }
        }
    }

    /// Adds the rows of a table, called by a name, that meet a condition, by their places, to those that are kept; the name of the list of those
    /// that were not among them yet, if there are any.
    async fn find(
        &mut self,
        (table, name): (&Table, &str),
        condition: &str,
        reading: &str,
    ) -> Result<Option<String>, Failure> {
        let query = format!(
            "select {name}.ctid from only {} {name} where ({condition}) and not exists \
             (select from {} duramen_kept where duramen_kept.place operator(pg_catalog.=) {name}.ctid)",
            table.quoted(),
            Kept::list(table.id)
        );
        let list = format!("found_{}", self.lists);
        self.lists += 1;
        let (reader, admin) = (&self.sessions.reader, &self.sessions.write);
        let columns = ["place tid".to_owned()];
        let reading = format!("{reading} of {}", table.plain_name());
        let found =
            stream::into_table((reader, &query, &reading), admin, (&list, &columns), &self.places).await?;
        let list = format!("{SCHEMA}.{list}");
        let sql = if found.rows == 0 {
            format!("drop table {list}")
        } else {
            let all = Kept::list(table.id);
            format!(
                "insert into {all} select l.place from {list} l; grant select on {list} to {READER}; \
                 analyze {list}; analyze {all}"
            )
        };
        admin.batch_execute(&sql).await.map_err(failed(&reading))?;
        Ok((found.rows > 0).then_some(list))
    }

    /// Adds what kept rows lead to, and what that leads to; all that was added, and what it began with.
    async fn follow(
        &mut self,
        begun: BTreeMap<u32, Vec<String>>,
        way: Way,
    ) -> Result<BTreeMap<u32, Vec<String>>, Failure> {
        let mut all = begun.clone();
        let mut last = begun;
        while last.values().any(|lists| !lists.is_empty()) {
            self.rounds += 1;
            if self.rounds > ROUNDS {
                return Err(Failure::Wrong(format!(
                    "the subset was given up after {ROUNDS} rounds: rows refer to each other in a longer chain"
                )));
            }
            let mut next: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            let catalogue = self.catalogue;
            for key in catalogue.keys.iter().filter(|key| !key.inherited) {
                for (child, parent) in self.pairs(key) {
                    let (from, to) = if way == Way::Down { (parent, child) } else { (child, parent) };
                    for list in last.get(&from.id).into_iter().flatten() {
                        let Some(condition) = self.neighbours(key, child, parent, list, way) else {
                            continue;
                        };
                        let found =
                            self.find((to, ROW), &condition, "following foreign keys to rows").await?;
                        next.entry(to.id).or_default().extend(found);
                    }
                }
            }
            for (table, lists) in &next {
                all.entry(*table).or_default().extend(lists.iter().cloned());
            }
            last = next;
        }
        Ok(all)
    }

    /// The tables whose rows refer by a key, each with those whose rows it refers to.
    fn pairs(&self, key: &ForeignKey) -> Vec<(&'a Table, &'a Table)> {
        let catalogue = self.catalogue;
        let children: Vec<&'a Table> = catalogue.storing(key.table).collect();
        let parents: Vec<&'a Table> = match self.catalogue.tables.get(&key.target) {
            Some(target) if target.kind == 'p' => self.catalogue.storing(key.target).collect(),
            target => target.into_iter().collect(),
        };
        children.iter().flat_map(|child| parents.iter().map(move |parent| (*child, *parent))).collect()
    }

    /// The condition for rows of one side of a key to have one on the other side that is in a list.
    fn neighbours(
        &self,
        key: &ForeignKey,
        child: &Table,
        parent: &Table,
        list: &str,
        way: Way,
    ) -> Option<String> {
        let (own, target) = (self.catalogue.tables.get(&key.table)?, self.catalogue.tables.get(&key.target)?);
        let inner = if way == Way::Down { parent } else { child };
        let mut equal = Vec::new();
        for ((column, other), operator) in key.columns.iter().zip(&key.target_columns).zip(&key.operators) {
            // By name: a part may have its columns in another order.
            let column = quote_identifier(&child.column_named(&own.column(*column)?.name)?.name);
            let other = quote_identifier(&parent.column_named(&target.column(*other)?.name)?.name);
            let (column, other) = match way {
                Way::Down => (format!("{ROW}.{column}"), format!("duramen_other.{other}")),
                Way::Up => (format!("duramen_other.{column}"), format!("{ROW}.{other}")),
            };
            equal.push(format!("{other} {operator} {column}"));
        }
        Some(format!(
            "exists (select from only {} duramen_other join {list} duramen_list \
             on duramen_list.place operator(pg_catalog.=) duramen_other.ctid where {})",
            inner.quoted(),
            equal.join(" and ")
        ))
    }

    /// Removes the rows of a table that are not kept; how many are left, and how many went.
    async fn remove_others(&self, table: &Table) -> Result<(u64, u64), Failure> {
        let admin = &self.sessions.write;
        let doing = format!("removing the rows of {} that are not kept", table.plain_name());
        let list = Kept::list(table.id);
        let kept =
            admin.query_one(&format!("select count(*) from {list}"), &[]).await.map_err(failed(&doing))?;
        let delete = format!(
            "delete from only {} t where not exists \
             (select from {list} k where k.place operator(pg_catalog.=) t.ctid)",
            table.quoted()
        );
        let removed = admin.execute(&delete, &[]).await.map_err(failed(&doing))?;
        let left = format!("select count(*) from only {}", table.quoted());
        let left = self.sessions.reader.query_one(&left, &[]).await.map_err(failed(&doing))?;
        let (kept, left): (i64, i64) = (kept.get(0), left.get(0));
        if kept != left {
            return Err(Failure::Wrong(format!("{doing}: {left} rows are left, and {kept} should be")));
        }
        Ok((u64::try_from(left).unwrap_or_default(), removed))
    }
}
