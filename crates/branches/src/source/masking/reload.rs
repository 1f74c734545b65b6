//! A table is emptied and loaded with its own rows, masked.
//!
//! That costs one pass over it each way, where writing its rows one by one leaves a dead row for each, and the table to be
//! written a second time without those. Not every table can be read and loaded in binary form: a type may have none, and a
//! database without an encoding may hold text that is none. What the server refuses is undone, and done the other way.

use super::{
    columns::Work,
    failed,
    stream::{self, Plan, Planned, Spool, Sum, Tally},
    Failure,
};
use crate::model::Mask;
use duramen_postgres::{quote_identifier, quote_literal};
use std::sync::Arc;

/// How the rows of a table are read, and what becomes of them.
struct Reading {
    query: String,
    plan: Arc<Plan>,
    /// Where in the plan the columns are whose values are made here, in the order of [`Work::made`].
    made: Vec<usize>,
    /// How the columns are read afterwards.
    checking: Vec<String>,
    /// Columns whose values are not those that were read.
    others: Vec<usize>,
}

impl Work<'_> {
    /// Whether a table of so many rows was loaded with what its rules make of it. If not, it is as it was.
    pub(super) async fn reload(&self, count: u64) -> Result<bool, Failure> {
        let Some(reading) = self.rows()? else { return Ok(false) };
        let mut spool = Spool::new(self.dir)?;
        let doing = format!("{} ({})", self.doing, self.named());
        let reader = &self.sessions.reader;
        let read = stream::into_file((reader, &reading.query, &doing), &mut spool, &reading.plan).await;
        let Some(made) = self.unless_refused(read)? else { return Ok(false) };
        if made.rows != count {
            return Err(Failure::Wrong(format!("{doing}: not every row was read")));
        }
        let unfit: Vec<_> = reading.made.iter().map(|place| &made.unfit[*place]).collect();
        self.refuse_unfit(&unfit, made.rows)?;
        let Some(loaded) = self.unless_refused(self.load(spool, &doing).await)? else { return Ok(false) };
        if loaded != count {
            return Err(Failure::Wrong(format!("{doing}: {loaded} of {count} rows were loaded")));
        }
        self.check(&reading, &made).await?;
        // What columns that were added with a default hold in older rows: there are none, and it is a value.
        let missing = "update pg_catalog.pg_attribute set atthasmissing = false, attmissingval = null \
                       where attrelid = $1::oid and atthasmissing";
        self.sessions.write.execute(missing, &[&self.table.id]).await.map_err(failed(&doing))?;
        Ok(true)
    }

    /// How the rows of the table are read. `None` if one of its rules needs them in their places.
    fn rows(&self) -> Result<Option<Reading>, Failure> {
        let alias = quote_identifier(&self.table.name);
        let (mut planned, mut owners, mut made, mut others) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut reading, mut checking) = (Vec::new(), Vec::new());
        let mut tables = vec![format!("only {} {alias}", self.table.quoted())];
        let mut joined = Vec::new();
        for column in self.table.columns.iter().filter(|column| !column.generated) {
            let name = quote_identifier(&column.name);
            let plain = format!("t.{name}");
            let Some(masked) = self.columns.iter().find(|it| it.column.number == column.number) else {
                reading.push(format!("{alias}.{name}"));
                checking.push(plain);
                planned.push(Planned::as_it_is());
                continue;
            };
            match masked.mask {
                _ if masked.is_made() => {
                    made.push(planned.len());
                    reading.push(masked.reading(&alias));
                    checking.push(masked.checking());
                    planned.push(self.planned(masked, &alias, &mut owners)?);
                    continue;
                }
                // Of a type without a limit: a cast would cut off what is too long for the column.
                Mask::Constant(text) => match column.class() {
                    Some(class) => reading.push(class.plain(&quote_literal(text))),
                    None => return Ok(None),
                },
                Mask::Shuffle => {
                    let dealt = format!("d{}", column.number);
                    tables.push(format!("{} {dealt}", masked.dealt(self.table)));
                    joined.push(format!("{alias}.ctid operator(pg_catalog.=) {dealt}.place"));
                    reading.push(format!("{dealt}.value"));
                }
                _ => reading.push(format!("null::{}", column.type_name)),
            }
            // Both are checked in words of their own.
            others.push(planned.len());
            checking.push("null::pg_catalog.text".to_owned());
            planned.push(Planned::as_it_is());
        }
        let count = owners.len();
        reading.append(&mut owners);
        let joined =
            if joined.is_empty() { String::new() } else { format!(" where {}", joined.join(" and ")) };
        let query = format!("select {} from {}{joined}", reading.join(", "), tables.join(", "));
        let plan = Plan { drawn: self.drawn.clone(), placed: false, columns: planned, owners: count };
        Ok(Some(Reading { query, plan: Arc::new(plan), made, checking, others }))
    }

    /// Empties the table and fills it, in one transaction; how many rows it has then.
    async fn load(&self, spool: Spool, doing: &str) -> Result<u64, Failure> {
        let holder = &self.sessions.holder;
        let stored = self.table.columns.iter().filter(|column| !column.generated);
        let names: Vec<String> = stored.map(|column| quote_identifier(&column.name)).collect();
        let table = self.table.quoted();
        let copy = format!("copy {table} ({}) from stdin (format binary, freeze)", names.join(", "));
        let begin = format!("begin; truncate only {table}");
        let loaded = match holder.batch_execute(&begin).await {
            Ok(()) => spool.load(holder, &copy, doing).await,
            Err(error) => Err(failed(doing)(error)),
        };
        let end = if loaded.is_ok() { "commit" } else { "rollback" };
        let ended = holder.batch_execute(end).await.map_err(failed(doing));
        loaded.and_then(|count| ended.map(|()| count))
    }

    /// Checks that all columns hold exactly the values that were loaded.
    async fn check(&self, reading: &Reading, made: &Tally) -> Result<(), Failure> {
        let query = format!("select {} from only {} t", reading.checking.join(", "), self.table.quoted());
        let width = reading.checking.len();
        let found = stream::sums((&self.sessions.reader, &query, &self.doing), self.drawn, width).await?;
        let same =
            |(place, (made, found)): (usize, (&Sum, &Sum))| reading.others.contains(&place) || made == found;
        if found.rows == made.rows && made.sums.iter().zip(&found.sums).enumerate().all(same) {
            return Ok(());
        }
        Err(Failure::Wrong(format!("{}: values are not what the rules make", self.doing)))
    }

    /// What was done, or `None` if the server refused it.
    fn unless_refused<T>(&self, done: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Failure::Server { refusal: Some(refusal), .. }) => {
                let table = self.table.plain_name();
                tracing::warn!(%table, %refusal, "a table cannot be loaded again: its rows are written where they are");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
