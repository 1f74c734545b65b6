//! What looks personal in the copy and has no rule: by the names of columns, and by a sample of their values, which the role
//! that may only read reads. No value is kept.

use super::{
    catalogue::{Catalogue, Column, Table},
    class::Class,
    failed, guess, masker,
    rules::Rules,
    Failure,
};
use crate::model::{Fake, Finding, Generalise, Mask, Masking, Personal, Unit};
use duramen_postgres::quote_identifier;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio_postgres::{Client, SimpleQueryMessage};

/// How many rows of a table are looked at, how much of a value, and how many columns.
const ROWS: u32 = 1000;
const LETTERS: u32 = 4000;
const COLUMNS: usize = 300;
/// How many places within the JSON of a column are told apart.
const PATHS: usize = 200;
/// Of a table with more pages, a sample is taken from all of them.
const SAMPLED_FROM: i32 = 200;
/// How long looking into one table, and into all of them, may take. What is not looked into in time is judged by names.
const TABLE_LIMIT_MS: u32 = 5000;
const LIMIT: Duration = Duration::from_secs(60);
/// Types of addresses in networks.
const NETWORK: [u32; 2] = [869, 650];

/// A column that may be told something of, with what it holds.
struct Looked<'a> {
    column: &'a Column,
    values: Vec<String>,
}

/// What looks personal in a database and is not masked by `rules`. `reader` is a session of the role that may only read.
pub(super) async fn look(
    admin: &Client,
    reader: &Client,
    rules: Option<&Masking>,
) -> Result<Vec<Finding>, Failure> {
    let catalogue = Catalogue::read(admin).await?;
    let rules = rules.map(|rules| Rules::resolve(rules, &catalogue)).transpose()?;
    let kept = rules.as_ref().map(|rules| rules.kept.clone()).unwrap_or_default();
    let sizes = "select c.oid, c.relpages from pg_catalog.pg_class c where c.oid >= 16384::oid";
    let sizes = admin.query(sizes, &[]).await.map_err(failed("looking for personal data"))?;
    let pages: BTreeMap<u32, i32> = sizes.iter().map(|row| (row.get(0), row.get(1))).collect();
    let limit = format!("set statement_timeout = {TABLE_LIMIT_MS}");
    reader.batch_execute(&limit).await.map_err(failed("looking for personal data"))?;
    let begin = duramen_base::clock::now();
    let parts: BTreeSet<u32> =
        catalogue.tables.values().flat_map(|table| table.children.iter().copied()).collect();
    let refers: BTreeSet<(u32, i16)> =
        catalogue.keys.iter().flat_map(|key| key.columns.iter().map(|column| (key.table, *column))).collect();
    let mut found = Vec::new();
    // Rules of what inherits from a table are those of that table.
    for table in
        catalogue.tables.values().filter(|it| ['r', 'p'].contains(&it.kind) && !parts.contains(&it.id))
    {
        let is_open = |column: &&Column| {
            let masked = rules.as_ref().is_some_and(|rules| rules.masks(table.id, column.number));
            !column.generated
                && !column.partition_key
                && !masked
                && !kept.contains(&(table.id, column.number))
                && !refers.contains(&(table.id, column.number))
        };
        let open: Vec<&Column> = table.columns.iter().filter(is_open).take(COLUMNS).collect();
        let values = if begin.elapsed() < LIMIT {
            sample(reader, table, &open, pages.get(&table.id).copied().unwrap_or(0)).await
        } else {
            None
        };
        let values = values.unwrap_or_else(|| vec![Vec::new(); open.len()]);
        for (column, values) in open.into_iter().zip(values) {
            found.extend(Looked { column, values }.judge(table));
        }
    }
    Ok(found)
}

/// The rules of a source with one for each finding.
pub(super) fn with_findings(rules: Option<&Masking>, found: &[Finding]) -> Masking {
    let mut rules = rules.cloned().unwrap_or_default();
    for finding in found {
        let columns = rules.columns.entry(finding.table.clone()).or_default();
        match (&finding.path, columns.get_mut(&finding.column)) {
            (Some(path), Some(Mask::Json(paths))) => drop(paths.insert(path.clone(), finding.rule.clone())),
            (Some(path), _) => {
                let paths = BTreeMap::from([(path.clone(), finding.rule.clone())]);
                columns.insert(finding.column.clone(), Mask::Json(paths));
            }
            (None, _) => drop(columns.insert(finding.column.clone(), finding.rule.clone())),
        }
    }
    rules
}

/// Some values of columns, as text. `None` if they cannot be read in time: then names alone tell.
async fn sample(reader: &Client, table: &Table, columns: &[&Column], pages: i32) -> Option<Vec<Vec<String>>> {
    let is_read = |column: &Column| {
        column.class().is_some_and(|class| {
            class.is_text() || matches!(class, Class::Json | Class::Jsonb | Class::Int8 | Class::Numeric)
        })
    };
    let read: Vec<usize> = (0..columns.len()).filter(|index| is_read(columns[*index])).collect();
    let mut values = vec![Vec::new(); columns.len()];
    if read.is_empty() {
        return Some(values);
    }
    let names = read.iter().map(|index| {
        let name = quote_identifier(&columns[*index].name);
        format!("case when length(t.{name}::text) <= {LETTERS} then t.{name}::text end")
    });
    let sampled = if table.kind == 'r' && pages > SAMPLED_FROM {
        let share = f64::from(SAMPLED_FROM) * 100.0 / f64::from(pages);
        format!(" tablesample system ({share}) repeatable (0)")
    } else {
        String::new()
    };
    let sql = format!(
        "select {} from {} t{sampled} limit {ROWS}",
        names.collect::<Vec<_>>().join(", "),
        table.quoted()
    );
    for message in reader.simple_query(&sql).await.ok()? {
        let SimpleQueryMessage::Row(row) = message else { continue };
        for (place, index) in read.iter().enumerate() {
            values[*index].extend(row.get(place).map(str::to_owned));
        }
    }
    Some(values)
}

impl Looked<'_> {
    fn judge(&self, table: &Table) -> Vec<Finding> {
        let class = self.column.class();
        if class.is_some_and(|class| matches!(class, Class::Json | Class::Jsonb)) {
            return self.judge_json(table);
        }
        let content = guess::by_content(self.values.iter().map(String::as_str));
        let name = guess::by_name(&table.name, &self.column.name).filter(|kind| self.may_be(*kind));
        let (kind, why) = match (content, name) {
            (Some(kind), _) => (kind, "by its values"),
            (None, Some(kind)) => (kind, "by its name"),
            (None, None) if NETWORK.contains(&self.column.base.0) => (Personal::Ip, "by its type"),
            (None, None) => return Vec::new(),
        };
        // A text that holds JSON is told of by what lies in it.
        vec![Finding {
            table: written(table),
            column: self.column.name.clone(),
            path: None,
            looks_like: kind,
            why: why.to_owned(),
            rule: rule(kind, table, self.column),
        }]
    }

    /// Whether a column of this type can hold it, so that its name may say so.
    fn may_be(&self, kind: Personal) -> bool {
        match self.column.class() {
            Some(Class::Text(_)) => true,
            Some(Class::Bytes) => kind == Personal::Secret,
            Some(class) if class.is_time() => kind == Personal::Birthday,
            Some(Class::Int8 | Class::Numeric) => {
                matches!(kind, Personal::Phone | Personal::Card | Personal::NationalId)
            }
            Some(_) => false,
            None => kind == Personal::Ip && NETWORK.contains(&self.column.base.0),
        }
    }

    fn judge_json(&self, table: &Table) -> Vec<Finding> {
        let mut places: BTreeMap<String, Place> = BTreeMap::new();
        for value in &self.values {
            if let Ok(value) = serde_json::from_str::<Value>(value) {
                gather(&value, "$".to_owned(), "", &mut places);
            }
        }
        let told = |(path, place): (String, Place)| {
            let content = guess::by_content(place.values.iter().map(String::as_str));
            let name = guess::by_name(&table.name, &place.key).filter(|_| !place.values.is_empty());
            let why = if content.is_some() { "by its values" } else { "by its name" };
            let kind = content.or(name)?;
            let rule = within_json(kind);
            let (table, column) = (written(table), self.column.name.clone());
            Some(Finding { table, column, path: Some(path), looks_like: kind, why: why.to_owned(), rule })
        };
        places.into_iter().filter_map(told).collect()
    }
}

/// A place within the JSON of a column.
#[derive(Default)]
struct Place {
    key: String,
    values: Vec<String>,
}

fn gather(value: &Value, path: String, key: &str, places: &mut BTreeMap<String, Place>) {
    if places.len() > PATHS {
        return;
    }
    match value {
        Value::String(text) => {
            let place = places.entry(path).or_default();
            key.clone_into(&mut place.key);
            place.values.push(text.clone());
        }
        Value::Array(elements) => {
            elements.iter().for_each(|it| gather(it, format!("{path}[*]"), key, places))
        }
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let plain =
                !name.is_empty() && name.chars().all(|it| it.is_alphanumeric() || it == '_' || it == '-');
            let step = if plain { name.clone() } else { Value::from(name.as_str()).to_string() };
            gather(value, format!("{path}.{step}"), name, places);
        }),
        _ => (),
    }
}

/// A table as rules name it.
fn written(table: &Table) -> String {
    let part = |name: &str| {
        let plain = name.starts_with(|it: char| it.is_ascii_lowercase() || it == '_')
            && name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
        if plain {
            name.to_owned()
        } else {
            format!("\"{}\"", name.replace('"', "\"\""))
        }
    };
    format!("{}.{}", part(&table.schema), part(&table.name))
}

/// The first rule for what a column looks like that fits it.
fn rule(kind: Personal, table: &Table, column: &Column) -> Mask {
    let first = match kind {
        Personal::Birthday => Mask::Generalise(Generalise::To(Unit::Year)),
        kind => within_json(kind),
    };
    let nothing = if column.class().is_some_and(Class::is_text) { "" } else { "0" };
    let last = if NETWORK.contains(&column.base.0) { "192.0.2.1" } else { nothing };
    let null = (!column.not_null).then_some(Mask::Null);
    let candidates = [Some(first), Some(Mask::Hash), null];
    let mut fitting =
        candidates.into_iter().flatten().filter(|mask| masker::misfit(mask, table, column).is_none());
    fitting.next().unwrap_or_else(|| Mask::Constant(last.to_owned()))
}

/// The rule for a value within JSON.
fn within_json(kind: Personal) -> Mask {
    match kind {
        Personal::Email => Mask::Email,
        Personal::Phone => Mask::Phone,
        Personal::Card => Mask::Card,
        Personal::Iban => Mask::Iban,
        Personal::Name => Mask::Fake(Fake::Name),
        Personal::FirstName => Mask::Fake(Fake::FirstName),
        Personal::LastName => Mask::Fake(Fake::LastName),
        Personal::Address => Mask::Fake(Fake::Address),
        Personal::Street => Mask::Fake(Fake::Street),
        Personal::City => Mask::Fake(Fake::City),
        Personal::Zip | Personal::NationalId | Personal::Birthday => Mask::Shape,
        Personal::Ip | Personal::Secret => Mask::Hash,
    }
}
