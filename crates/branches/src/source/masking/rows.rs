//! Rows that do not meet the condition of their table, and those that refer to them.

use super::{
    catalogue::{Catalogue, ForeignKey, Table},
    failed, masked,
    pseudonym::Pseudonyms,
    rules::Rules,
    stream::{self, Plan},
    Failure, Sessions, SCHEMA,
};
use crate::model::Sanitised;
use duramen_postgres::quote_identifier;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Removes them, and says how many there were of each table.
pub(super) async fn remove(
    sessions: &Sessions,
    catalogue: &Catalogue,
    rules: &Rules,
    drawn: &Pseudonyms,
) -> Result<Vec<Sanitised>, Failure> {
    let mut report = Vec::new();
    let places = Plan::of_places(drawn);
    let mut gone = Gone { sessions, catalogue, places, tables: 0, changed: BTreeSet::new() };
    for (id, (name, condition)) in &rules.rows {
        let Some(table) = catalogue.tables.get(id) else { continue };
        // On lines of its own, so that a comment at its end takes nothing else with it.
        let query = format!(
            "select {name}.ctid from only {} {name} where (\n{condition}\n) is not true",
            table.quoted(),
            name = quote_identifier(name)
        );
        let reading = format!("evaluating the condition for rows of {}", table.plain_name());
        let count = gone.remove(table, &query, &reading).await?;
        report.push(masked(
            "rows",
            &table.plain_name(),
            format!("{count} removed (do not meet the condition)"),
        ));
    }
    // Rows that refer to removed ones may be referred to themselves.
    let mut referring: BTreeMap<String, u64> = BTreeMap::new();
    while !gone.changed.is_empty() {
        let changed = std::mem::take(&mut gone.changed);
        for key in catalogue.keys.iter().filter(|key| !key.inherited) {
            if !catalogue.family(key.target).iter().any(|table| changed.contains(&table.id)) {
                continue;
            }
            for part in catalogue.storing(key.table) {
                let Some(query) = catalogue.orphans(key, part) else { continue };
                let reading = format!("finding the rows of {} that refer to removed ones", part.plain_name());
                *referring.entry(part.plain_name()).or_default() +=
                    gone.remove(part, &query, &reading).await?;
            }
        }
    }
    for (table, count) in referring.into_iter().filter(|(_, count)| *count > 0) {
        report.push(masked("rows", &table, format!("{count} removed (referred to removed rows)")));
    }
    Ok(report)
}

struct Gone<'a> {
    sessions: &'a Sessions,
    catalogue: &'a Catalogue,
    places: Arc<Plan>,
    /// How many lists of rows there were.
    tables: u32,
    /// Tables that lost rows which others may refer to.
    changed: BTreeSet<u32>,
}

impl Gone<'_> {
    /// Removes the rows of a table whose places `query` finds. It is evaluated as the role that may only read; the
    /// administrator removes what has these places, which runs nothing of the source: triggers and rules are off.
    async fn remove(&mut self, table: &Table, query: &str, reading: &str) -> Result<u64, Failure> {
        debug_assert!(self.catalogue.tables.contains_key(&table.id), "of this database");
        let list = format!("gone_{}", self.tables);
        self.tables += 1;
        let (reader, admin) = (&self.sessions.reader, &self.sessions.write);
        let columns = ["place tid".to_owned()];
        let found =
            stream::into_table((reader, query, reading), admin, (&list, &columns), &self.places).await?;
        let found = found.rows;
        if found == 0 {
            return Ok(0);
        }
        let delete = format!(
            "delete from only {} t using {SCHEMA}.{list} g where t.ctid operator(pg_catalog.=) g.place",
            table.quoted()
        );
        let doing = format!("removing rows of {}", table.plain_name());
        let removed = admin.execute(&delete, &[]).await.map_err(failed(&doing))?;
        if removed != found {
            return Err(Failure::Wrong(format!("{doing}: {removed} of {found} were removed")));
        }
        self.changed.insert(table.id);
        Ok(found)
    }
}

/// Makes sure that every foreign key with a masked side still holds: its triggers were off.
pub(super) async fn check_keys(
    sessions: &Sessions,
    catalogue: &Catalogue,
    rules: &Rules,
) -> Result<(), Failure> {
    // One that nobody checked at the source need not hold here, unless a rule is to keep it.
    let concerned = |key: &&ForeignKey| rules.touches(key) || rules.subset.is_some() && key.validated;
    for key in catalogue.keys.iter().filter(|key| !key.inherited).filter(concerned) {
        for part in catalogue.storing(key.table) {
            let Some(query) = catalogue.orphans(key, part) else { continue };
            let doing = format!("checking the foreign key {} of {}", key.name, part.plain_name());
            let row = sessions.reader.query_one(&format!("select count(*) > 0 from ({query}) o"), &[]).await;
            if row.map_err(failed(&doing))?.get(0) {
                return Err(Failure::Wrong(format!(
                    "rows of {} refer to nothing by the foreign key {} after the rules were applied",
                    part.plain_name(),
                    key.name
                )));
            }
        }
    }
    Ok(())
}
