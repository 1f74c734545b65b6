//! The values of columns are replaced.
//!
//! A table's rows are read, masked on their way, and loaded again ([`super::reload`]). Where the server refuses that, what is
//! made of the values comes back as a table with the place of each row, and one statement writes all columns. Both are done by the
//! role that may do as much as a branch's holder, because constraints, domains and generated columns are code of the source.
//! Expressions are evaluated by the role that may only read.

use super::{
    catalogue::{Catalogue, Column, Table},
    class::{Class, PADDED},
    failed, masked,
    masker::Masker,
    pseudonym::Pseudonyms,
    rules::Rules,
    stream::{self, Plan, Planned, Sum, Tally, Unfit},
    Failure, Sessions, HOLDER, READER, SCHEMA,
};
use crate::model::{Mask, Sanitised};
use duramen_postgres::{quote_identifier, quote_literal};
use std::{path::Path, sync::Arc};

/// A column with what becomes of it.
pub(super) struct Masked<'a> {
    pub(super) column: &'a Column,
    pub(super) mask: &'a Mask,
}

impl Masked<'_> {
    fn quoted(&self) -> String {
        quote_identifier(&self.column.name)
    }

    /// Its column in the table of what was made.
    fn kept(&self) -> String {
        format!("k{}", self.column.number)
    }

    /// The type of that.
    fn kept_type(&self) -> String {
        self.column
            .class()
            .map_or_else(|| self.column.base_name.clone(), |class| class.type_name().to_owned())
    }

    /// How it is read, in a query that calls its table `alias`.
    pub(super) fn reading(&self, alias: &str) -> String {
        let name = format!("{alias}.{}", self.quoted());
        match (self.mask, self.column.class()) {
            // On lines of its own, so that a comment at its end takes nothing else with it. A length is not cast to: that
            // would cut a value off.
            (Mask::Sql(text), Some(Class::Text(_))) => format!("(\n{text}\n)::pg_catalog.text"),
            (Mask::Sql(text), _) => format!("(\n{text}\n)::{}", self.column.base_name),
            (Mask::Hash, Some(class)) => class.raw(&name),
            (_, Some(class)) => class.plain(&name),
            (_, None) => format!("{name}::{}", self.column.base_name),
        }
    }

    /// The table in which its values are dealt out.
    pub(super) fn dealt(&self, table: &Table) -> String {
        format!("{SCHEMA}.dealt_{}_{}", table.id, self.column.number)
    }

    /// How what it holds in the end is read, to be compared with what was made.
    pub(super) fn checking(&self) -> String {
        let name = format!("t.{}", self.quoted());
        self.column
            .class()
            .map_or_else(|| format!("{name}::{}", self.column.base_name), |class| class.plain(&name))
    }

    pub(super) fn is_made(&self) -> bool {
        !matches!(self.mask, Mask::Null | Mask::Keep | Mask::Constant(_) | Mask::Shuffle)
    }
}

/// One table, and what becomes of its columns.
pub(super) struct Work<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) table: &'a Table,
    pub(super) columns: Vec<Masked<'a>>,
    /// In errors.
    pub(super) doing: String,
    pub(super) drawn: &'a Pseudonyms,
    /// A directory of the scratch, for files.
    pub(super) dir: &'a Path,
}

/// Applies the rules for columns, and makes sure that they were. Returns what is reported, and the tables that were loaded again, of
/// which nothing is left in their files that was there before.
pub(super) async fn mask(
    sessions: &Sessions,
    catalogue: &Catalogue,
    rules: &Rules,
    (pseudonyms, dir): (&Pseudonyms, &Path),
) -> Result<(Vec<Sanitised>, Vec<u32>), Failure> {
    let mut report = Vec::new();
    let mut reloaded = Vec::new();
    for (id, wanted) in &rules.columns {
        let Some(table) = catalogue.tables.get(id).filter(|table| table.kind == 'r') else { continue };
        let columns: Vec<Masked<'_>> = wanted
            .iter()
            .filter_map(|(number, mask)| Some(Masked { column: table.column(*number)?, mask }))
            .collect();
        if columns.len() != wanted.len() {
            return Err(Failure::Wrong(format!("a column of {} is not there any more", table.plain_name())));
        }
        let doing = format!("masking {}", table.plain_name());
        let work = Work { sessions, table, columns, doing, drawn: pseudonyms, dir };
        if work.apply().await? {
            reloaded.push(*id);
        }
        for column in &work.columns {
            let name = format!("{}.{}", table.plain_name(), column.column.name);
            let implied = rules.implied.contains(&(*id, column.column.number));
            let why = if implied { ", as the other side of its foreign key" } else { "" };
            report.push(masked("column", &name, format!("masked ({}{why})", column.mask)));
        }
    }
    Ok((report, reloaded))
}

impl Work<'_> {
    /// Whether the table was loaded again.
    async fn apply(&self) -> Result<bool, Failure> {
        let doing = &*self.doing;
        let reader = &self.sessions.reader;
        let count = format!("select count(*) from only {}", self.table.quoted());
        let count = reader.query_one(&count, &[]).await.map_err(failed(doing))?;
        let count = u64::try_from(count.get::<_, i64>(0)).unwrap_or_default();
        self.shuffle().await?;
        let before = self.dealt_out().await?;
        let reloaded = self.reload(count).await?;
        if !reloaded {
            self.rewrite(count).await?;
        }
        if self.dealt_out().await? != before {
            return Err(Failure::Wrong(format!(
                "{doing}: values were lost when they were dealt out to other rows"
            )));
        }
        self.check_plain().await?;
        let drop = format!("drop table if exists {SCHEMA}.of_{}", self.table.id);
        let quiet = format!("set client_min_messages = warning; {drop}");
        self.sessions.write.batch_execute(&quiet).await.map_err(failed(doing))?;
        Ok(reloaded)
    }

    /// Writes all columns where they are.
    async fn rewrite(&self, count: u64) -> Result<(), Failure> {
        let doing = format!("{} ({})", self.doing, self.named());
        let made = self.make().await?;
        if made.as_ref().is_some_and(|made| made.rows != count) {
            return Err(Failure::Wrong(format!("{doing}: not every row was read")));
        }
        let written = self.sessions.holder.execute(&self.update(), &[]).await.map_err(failed(&doing))?;
        if written != count {
            return Err(Failure::Wrong(format!("{doing}: {written} of {count} rows were written")));
        }
        match made {
            Some(made) => self.check_made(&made).await,
            None => Ok(()),
        }
    }

    /// The rules of the table, for errors that a server does not tell the column of.
    pub(super) fn named(&self) -> String {
        let rules = self.columns.iter().map(|it| format!("{} of {}", it.mask, it.column.name));
        rules.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn made(&self) -> impl Iterator<Item = &Masked<'_>> {
        self.columns.iter().filter(|column| column.is_made())
    }

    /// What is done to a column whose values are made here. What says whose they are is added to `owners`, read from `alias`.
    pub(super) fn planned(
        &self,
        column: &Masked<'_>,
        alias: &str,
        owners: &mut Vec<String>,
    ) -> Result<Planned, Failure> {
        let Some(masker) = Masker::of(column.mask, self.table, column.column) else {
            return Err(Failure::Wrong(format!("{}: no rule for {}", self.doing, column.column.name)));
        };
        let person = if let Mask::Shift(shift) = column.mask {
            let person = self.table.column_named(&shift.person);
            person.and_then(|it| Some(it.class()?.raw(&format!("{alias}.{}", quote_identifier(&it.name)))))
        } else {
            None
        };
        let owner = person.map(|read| {
            owners.iter().position(|other| *other == read).unwrap_or_else(|| {
                owners.push(read);
                owners.len() - 1
            })
        });
        Ok(Planned {
            masker,
            limit: if let Some(Class::Text(limit)) = column.column.class() { limit } else { None },
            padded: column.column.base.0 == PADDED,
            not_null: column.column.not_null,
            owner,
        })
    }

    /// Makes the table with what stands for a table's values, if any of its columns has that.
    async fn make(&self) -> Result<Option<Tally>, Failure> {
        let table = self.table;
        let mut planned = Vec::new();
        let mut owners: Vec<String> = Vec::new();
        let alias = quote_identifier(&table.name);
        let mut reading = vec![format!("{alias}.ctid")];
        let mut kept = vec!["place tid".to_owned()];
        let mut evaluates = false;
        for column in self.made() {
            evaluates |= matches!(column.mask, Mask::Sql(_));
            reading.push(column.reading(&alias));
            kept.push(format!("{} {}", column.kept(), column.kept_type()));
            planned.push(self.planned(column, &alias, &mut owners)?);
        }
        if planned.is_empty() {
            return Ok(None);
        }
        let (placed, count) = (true, owners.len());
        let plan = Arc::new(Plan { drawn: self.drawn.clone(), placed, columns: planned, owners: count });
        reading.append(&mut owners);
        let query = format!("select {} from only {} {alias}", reading.join(", "), table.quoted());
        let doing = format!("reading {}", table.plain_name());
        let name = format!("of_{}", table.id);
        // Expressions are the operator's, and name what is the source's.
        let from = if evaluates { &self.sessions.reader } else { &self.sessions.read };
        let doing = if evaluates { format!("{doing} ({})", self.named()) } else { doing };
        let to = &self.sessions.write;
        let tally = stream::into_table((from, &query, &doing), to, (&name, &kept), &plan).await?;
        self.refuse_unfit(&tally.unfit.iter().collect::<Vec<_>>(), tally.rows)?;
        let ready =
            format!("grant select on {SCHEMA}.{name} to {HOLDER}, {READER}; analyze {SCHEMA}.{name} (place)");
        to.batch_execute(&ready).await.map_err(failed(&doing))?;
        Ok(Some(tally))
    }

    /// Refuses what was made, of so many rows, if any of it cannot be in its column.
    pub(super) fn refuse_unfit(&self, unfit: &[&Unfit], rows: u64) -> Result<(), Failure> {
        let mut problems = Vec::new();
        for (column, unfit) in self.made().zip(unfit) {
            let of =
                format!("the rule {} of {}.{}", column.mask, self.table.plain_name(), column.column.name);
            for (count, why) in [
                (unfit.unmade, "it makes nothing of"),
                (unfit.too_long, "what it makes is too long for the column for"),
                (unfit.null, "it makes null, which the column may not be, of"),
            ] {
                if count > 0 {
                    problems.push(format!("{of}: {why} {count} of {rows} values"));
                }
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure::Wrong(problems.join("; ")))
    }

    /// Makes a table for each column whose values are dealt out. The administrator does, who runs nothing of the source by it:
    /// rows are sorted by what is drawn for their places, and values are only carried.
    async fn shuffle(&self) -> Result<(), Failure> {
        for column in self.columns.iter().filter(|column| *column.mask == Mask::Shuffle) {
            let (table, name) = (self.table.quoted(), column.quoted());
            let parts = [self.table.plain_name(), column.column.name.clone()];
            let salt = self.drawn.number("shuffle", &[parts[0].as_bytes(), parts[1].as_bytes()]);
            let list = column.dealt(self.table);
            let sql = format!(
                "create table {list} as select a.place, b.value from \
                 (select t.ctid as place, pg_catalog.row_number() over () as n from only {table} t) a join \
                 (select t.{name} as value, pg_catalog.row_number() over (order by \
                   pg_catalog.hashtidextended(t.ctid, {salt}::pg_catalog.int8), t.ctid) as n from only {table} t) b \
                 on a.n operator(pg_catalog.=) b.n; \
                 grant select on {list} to {HOLDER}, {READER}; analyze {list} (place)",
                salt = (salt as u64).cast_signed(),
            );
            self.sessions.write.batch_execute(&sql).await.map_err(failed(&self.doing))?;
        }
        Ok(())
    }

    /// Of each column whose values are dealt out: how many there are, and the sum of their hashes.
    async fn dealt_out(&self) -> Result<Vec<(i64, String)>, Failure> {
        let mut found = Vec::new();
        for column in self.columns.iter().filter(|column| *column.mask == Mask::Shuffle) {
            let name = column.quoted();
            let sql = format!(
                "select count(t.{name}::text), coalesce(sum(hashtextextended(t.{name}::text collate \"C\", 0)::numeric), 0)::text \
                 from only {} t",
                self.table.quoted()
            );
            let row = self.sessions.reader.query_one(&sql, &[]).await.map_err(failed(&self.doing))?;
            found.push((row.get(0), row.get(1)));
        }
        Ok(found)
    }

    /// The statement that writes all columns.
    fn update(&self) -> String {
        let id = self.table.id;
        let mut tables = Vec::new();
        let mut joined = Vec::new();
        if self.made().next().is_some() {
            tables.push(format!("{SCHEMA}.of_{id} m"));
            joined.push("t.ctid operator(pg_catalog.=) m.place".to_owned());
        }
        let mut values = Vec::new();
        for column in &self.columns {
            let number = column.column.number;
            let value = match column.mask {
                Mask::Constant(text) => quote_literal(text),
                Mask::Null | Mask::Keep => "null".to_owned(),
                Mask::Shuffle => {
                    tables.push(format!("{} d{number}", column.dealt(self.table)));
                    joined.push(format!("t.ctid operator(pg_catalog.=) d{number}.place"));
                    format!("d{number}.value")
                }
                _ => format!("m.{}", column.kept()),
            };
            values.push(format!("{} = {value}", column.quoted()));
        }
        let joined = if tables.is_empty() {
            String::new()
        } else {
            format!(" from {} where {}", tables.join(", "), joined.join(" and "))
        };
        format!("update only {} t set {}{joined}", self.table.quoted(), values.join(", "))
    }

    /// Checks that columns hold exactly the values that were made for them.
    async fn check_made(&self, made: &Tally) -> Result<(), Failure> {
        let names: Vec<String> = self.made().map(Masked::checking).collect();
        let query = format!("select {} from only {} t", names.join(", "), self.table.quoted());
        let reader = &self.sessions.reader;
        let found = stream::sums((reader, &query, &self.doing), self.drawn, names.len()).await?;
        let pairs = self.made().zip(made.sums.iter().zip(&found.sums));
        let wrong = |(column, (made, found)): (&Masked<'_>, (&Sum, &Sum))| {
            (made != found).then(|| column.column.name.clone())
        };
        let wrong: Vec<String> = pairs.filter_map(wrong).collect();
        if wrong.is_empty() && found.rows == made.rows {
            return Ok(());
        }
        let doing = &self.doing;
        Err(Failure::Wrong(format!("{doing}: values of {} are not what the rule makes", wrong.join(", "))))
    }

    /// Checks that columns of one value hold no other.
    async fn check_plain(&self) -> Result<(), Failure> {
        let wrong = self.columns.iter().filter_map(|column| {
            let name = format!("t.{}", column.quoted());
            let wrong = match column.mask {
                Mask::Constant(text) => format!(
                    "{name}::pg_catalog.text is distinct from ({}::{})::pg_catalog.text",
                    quote_literal(text),
                    column.column.type_name
                ),
                // Composite values are `not null` only if all their fields are.
                Mask::Null => format!("{name} is distinct from null"),
                _ => return None,
            };
            Some((column, format!("count(*) filter (where {wrong})")))
        });
        let (columns, counts): (Vec<_>, Vec<String>) = wrong.unzip();
        if columns.is_empty() {
            return Ok(());
        }
        let sql = format!("select {} from only {} t", counts.join(", "), self.table.quoted());
        let row = self.sessions.reader.query_one(&sql, &[]).await.map_err(failed(&self.doing))?;
        for (index, column) in columns.iter().enumerate() {
            let left: i64 = row.get(index);
            if left > 0 {
                let (doing, name) = (&self.doing, &column.column.name);
                return Err(Failure::Wrong(format!(
                    "{doing}: {left} values of {name} are not what the rule makes"
                )));
            }
        }
        Ok(())
    }
}
