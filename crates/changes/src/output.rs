//! What differs, written down: for people, as lines of JSON, as CSV, or as SQL that makes it so elsewhere.

use crate::change::{
    shown_name, Compared, Ending, LeftOut, Only, Part, Row, Sequence, SequenceState, Summary, Table,
};
use serde_json::{json, Map, Value};
use std::{borrow::Cow, fmt::Write};

/// Characters of a value that people are shown.
const SHOWN_MAX: usize = 60;

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: a line a row, long values cut.
    Table,
    /// An object a line, which stands for itself; its `kind` says what it tells of.
    JsonLines,
    /// A line for each value of a row that differs, with a head. NULL is empty, and any other value is in quotes.
    Csv,
    /// Statements in one transaction, which make the snapshot's data those of the branch.
    Sql,
}

/// Writes parts down in their order.
#[derive(Debug)]
pub struct Printer {
    format: Format,
    /// What the two sides are called.
    branch: String,
    snapshot: String,
    table: Option<Table>,
    /// Statements of a table that come after its others: updates, and then insertions.
    updates: String,
    insertions: String,
    is_begun: bool,
}

impl Printer {
    /// Nothing is written yet.
    #[must_use]
    pub fn new(format: Format) -> Printer {
        Printer::between(format, "the snapshot", "the branch")
    }

    /// The same of two sides that are called otherwise. The changes lead from the first to the second.
    #[must_use]
    pub fn between(format: Format, from: &str, to: &str) -> Printer {
        let (updates, insertions) = (String::new(), String::new());
        let (branch, snapshot) = (to.to_owned(), from.to_owned());
        Printer { format, branch, snapshot, table: None, updates, insertions, is_begun: false }
    }

    /// Why a column is not compared.
    fn why<'a>(&self, column: &'a LeftOut) -> Cow<'a, str> {
        match column.only_in {
            None => Cow::Borrowed(&column.why),
            Some(Only::Branch) => Cow::Owned(format!("{} alone has it", self.branch)),
            Some(Only::Snapshot) => Cow::Owned(format!("{} alone has it", self.snapshot)),
        }
    }

    /// What is written for a part: whole lines, or nothing.
    pub fn part(&mut self, part: &Part) -> String {
        let mut text = String::new();
        if !self.is_begun {
            self.is_begun = true;
            text.push_str(match self.format {
                Format::Csv => "table,change,key,column,old,new\n",
                Format::Sql => SQL_HEAD,
                Format::Table | Format::JsonLines => "",
            });
        }
        match part {
            Part::Table(table) => {
                self.begin(table, &mut text);
                self.table = Some(table.clone());
            }
            Part::Row(row) => {
                // Rows without a table are never told.
                if let Some(table) = self.table.take() {
                    self.row(&table, row, &mut text);
                    self.table = Some(table);
                }
            }
            Part::Ending(ending) => {
                if let Some(table) = self.table.take() {
                    self.ending(&table, ending, &mut text);
                }
            }
            Part::Sequence(sequence) => self.sequence(sequence, &mut text),
            Part::Summary(summary) => self.summary(summary, &mut text),
        }
        text
    }

    fn begin(&self, table: &Table, text: &mut String) {
        let name = shown_name(&table.schema, &table.name);
        match self.format {
            Format::Table => {
                let only = table.only_in.map_or_else(String::new, |side| match side {
                    Only::Branch => format!(", which {} alone has", self.branch),
                    Only::Snapshot => format!(", which {} has no more", self.branch),
                });
                line(text, &format!("{name}{only}"));
                if let Compared::Full { why } = &table.compared {
                    if table.only_in.is_none() {
                        line(text, &format!("  all of it was read: {why}"));
                    }
                }
                for column in &table.left_out {
                    line(text, &format!("  not compared: {}: {}", column.name, self.why(column)));
                }
            }
            Format::JsonLines => {
                let left_out: Vec<Value> = table
                    .left_out
                    .iter()
                    .map(
                        |column| json!({ "name": column.name, "only_in": column.only_in, "why": self.why(column) }),
                    )
                    .collect();
                let names = |places: &[usize]| -> Vec<&str> {
                    places.iter().filter_map(|place| Some(table.columns.get(*place)?.name.as_str())).collect()
                };
                let columns: Vec<Value> = table
                    .columns
                    .iter()
                    .map(|column| json!({ "name": column.name, "type": column.type_name }))
                    .collect();
                let told = json!({ "kind": "table", "table": name, "columns": columns, "key": names(&table.key),
                    "left_out": left_out, "only_in": table.only_in, "compared": table.compared });
                text.push_str(&format!("{told}\n"));
            }
            Format::Csv => {}
            Format::Sql => {
                comment(
                    text,
                    &match table.only_in {
                        None => name,
                        Some(Only::Branch) => format!("{name}, which has to be created first"),
                        Some(Only::Snapshot) => format!("{name}, which {} has no more: drop it", self.branch),
                    },
                );
                for column in &table.left_out {
                    comment(text, &format!("not compared: {}: {}", column.name, self.why(column)));
                }
            }
        }
    }

    fn row(&mut self, table: &Table, row: &Row, text: &mut String) {
        match self.format {
            Format::Table => shown_row(table, row, text),
            Format::JsonLines => json_row(table, row, text),
            Format::Csv => csv_row(table, row, text),
            Format::Sql if table.only_in == Some(Only::Snapshot) => {}
            Format::Sql => match (&row.old, &row.new) {
                (Some(old), None) => text.push_str(&deletion(table, old)),
                (Some(old), Some(new)) => self.updates.push_str(&update(table, old, new)),
                (None, Some(new)) => self.insertions.push_str(&insertion(table, new)),
                (None, None) => {}
            },
        }
    }

    fn ending(&mut self, table: &Table, ending: &Ending, text: &mut String) {
        let left = ending.total() - ending.listed;
        match self.format {
            Format::Table => {
                if left > 0 {
                    line(text, &format!("  ... {left} more"));
                }
                line(text, &format!("  {}", counts(ending)));
            }
            Format::JsonLines => {
                let name = shown_name(&table.schema, &table.name);
                let told = json!({ "kind": "table_end", "table": name, "added": ending.added,
                    "removed": ending.removed, "changed": ending.changed, "listed": ending.listed });
                text.push_str(&format!("{told}\n"));
            }
            Format::Csv => {}
            Format::Sql => {
                text.push_str(&std::mem::take(&mut self.updates));
                text.push_str(&std::mem::take(&mut self.insertions));
                if left > 0 {
                    comment(text, &format!("INCOMPLETE: {left} more rows of this table differ"));
                }
            }
        }
    }

    fn sequence(&self, sequence: &Sequence, text: &mut String) {
        let name = shown_name(&sequence.schema, &sequence.name);
        let state = |state: Option<SequenceState>| match state {
            None => "not there".to_owned(),
            Some(SequenceState { last_value, is_called: true }) => last_value.to_string(),
            Some(SequenceState { last_value, is_called: false }) => format!("{last_value} (not given out)"),
        };
        match self.format {
            Format::Table => {
                let (old, new) = (state(sequence.old), state(sequence.new));
                line(text, &format!("{name} (sequence): {old} -> {new}"));
            }
            Format::JsonLines => {
                let told =
                    json!({ "kind": "sequence", "sequence": name, "old": sequence.old, "new": sequence.new });
                text.push_str(&format!("{told}\n"));
            }
            Format::Csv => {
                let value = |state: Option<SequenceState>| state.map(|it| it.last_value.to_string());
                let (old, new) = (value(sequence.old), value(sequence.new));
                csv(text, [Some(&name), Some("sequence"), None, None, old.as_deref(), new.as_deref()]);
            }
            Format::Sql => match sequence.new {
                Some(SequenceState { last_value, is_called }) => {
                    if sequence.old.is_none() {
                        comment(text, &format!("{name}, which has to be created first"));
                    }
                    let name = literal(&qualified(&sequence.schema, &sequence.name));
                    text.push_str(&format!("SELECT pg_catalog.setval({name}, {last_value}, {is_called});\n"));
                }
                None => comment(text, &format!("{name}, which {} has no more: drop it", self.branch)),
            },
        }
    }

    fn summary(&self, summary: &Summary, text: &mut String) {
        let Summary { tables, differing, rows, sequences } = summary;
        match self.format {
            Format::Table if summary.is_empty() => {
                line(text, &format!("no row differs in {tables} tables"));
            }
            Format::Table => {
                let counts = counts(rows);
                line(
                    text,
                    &format!("{counts} in {differing} of {tables} tables; {sequences} sequences differ"),
                );
            }
            Format::JsonLines => {
                let told = json!({ "kind": "summary", "tables": tables, "differing": differing,
                    "added": rows.added, "removed": rows.removed, "changed": rows.changed, "listed": rows.listed,
                    "sequences": sequences });
                text.push_str(&format!("{told}\n"));
            }
            Format::Csv => {}
            Format::Sql if rows.is_cut() => {
                comment(text, "INCOMPLETE: more rows differ than were asked for");
                text.push_str("ROLLBACK;\n");
            }
            Format::Sql => text.push_str("COMMIT;\n"),
        }
    }
}

fn counts(ending: &Ending) -> String {
    let Ending { added, removed, changed, .. } = ending;
    format!("{added} added, {removed} removed, {changed} changed")
}

/// A line for a terminal: what was stored may hold what moves its cursor.
fn line(text: &mut String, line: &str) {
    for character in line.chars() {
        if character.is_control() {
            let _ = write!(text, "{}", character.escape_default());
        } else {
            text.push(character);
        }
    }
    text.push('\n');
}

/// The columns of a row that are told, with both values: those that differ, or all of a row that one side has.
fn told<'a>(
    table: &'a Table,
    row: &'a Row,
) -> impl Iterator<Item = (usize, &'a str, Option<&'a str>, Option<&'a str>)> {
    let value =
        |values: &'a Option<Vec<Option<String>>>, place: usize| values.as_ref()?.get(place)?.as_deref();
    table.columns.iter().enumerate().filter_map(move |(place, column)| {
        let (old, new) = (value(&row.old, place), value(&row.new, place));
        let is_told = row.old.is_none() || row.new.is_none() || old != new;
        is_told.then_some((place, column.name.as_str(), old, new))
    })
}

/// The values that identify a row.
fn identity<'a>(table: &'a Table, row: &'a Row) -> Vec<(&'a str, Option<&'a str>)> {
    let values = row.old.as_ref().or(row.new.as_ref());
    let of = |place: &usize| {
        let value = values?.get(*place)?.as_deref();
        Some((table.columns.get(*place)?.name.as_str(), value))
    };
    table.key.iter().filter_map(of).collect()
}

fn change(row: &Row) -> &'static str {
    match (&row.old, &row.new) {
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
        _ => "added",
    }
}

fn shown_row(table: &Table, row: &Row, text: &mut String) {
    let shown = |value: Option<&str>| match value {
        None => "NULL".to_owned(),
        Some(value) if value.chars().count() > SHOWN_MAX => {
            let begin: String = value.chars().take(SHOWN_MAX).collect();
            format!("'{begin}'...")
        }
        Some(value) => format!("'{value}'"),
    };
    let key: Vec<String> =
        identity(table, row).into_iter().map(|(name, value)| format!("{name} {}", shown(value))).collect();
    let is_changed = row.old.is_some() && row.new.is_some();
    let values: Vec<String> = told(table, row)
        .filter(|(place, ..)| !table.key.contains(place))
        .map(|(_, name, old, new)| match is_changed {
            true => format!("{name} {} -> {}", shown(old), shown(new)),
            false => format!("{name} {}", shown(old.or(new))),
        })
        .collect();
    let mark = if is_changed {
        '~'
    } else if row.new.is_some() {
        '+'
    } else {
        '-'
    };
    let separator = if key.is_empty() || values.is_empty() { "" } else { ": " };
    line(text, &format!("  {mark} {}{separator}{}", key.join(", "), values.join(", ")));
}

fn json_row(table: &Table, row: &Row, text: &mut String) {
    let object = |values: Vec<(&str, Option<&str>)>| -> Map<String, Value> {
        values.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
    };
    let mut line =
        json!({ "kind": "row", "table": shown_name(&table.schema, &table.name), "change": change(row) });
    if !table.key.is_empty() {
        line["key"] = object(identity(table, row)).into();
    }
    if row.old.is_some() {
        line["old"] = object(told(table, row).map(|(_, name, old, _)| (name, old)).collect()).into();
    }
    if row.new.is_some() {
        line["new"] = object(told(table, row).map(|(_, name, _, new)| (name, new)).collect()).into();
    }
    text.push_str(&format!("{line}\n"));
}

fn csv_row(table: &Table, row: &Row, text: &mut String) {
    let name = shown_name(&table.schema, &table.name);
    let key: Map<String, Value> =
        identity(table, row).into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let key = (!key.is_empty()).then(|| Value::from(key).to_string());
    for (_, column, old, new) in told(table, row) {
        csv(text, [Some(&name), Some(change(row)), key.as_deref(), Some(column), old, new]);
    }
}

fn csv(text: &mut String, values: [Option<&str>; 6]) {
    let quoted =
        values.map(|value| value.map_or_else(String::new, |it| format!("\"{}\"", it.replace('"', "\"\""))));
    text.push_str(&quoted.join(","));
    text.push('\n');
}

/// What the text of values is read with.
const SQL_HEAD: &str = "SET client_encoding = 'UTF8';\nSET datestyle = 'ISO, YMD';\nSET intervalstyle = 'postgres';\n\
    SET timezone = 'UTC';\nSET extra_float_digits = 1;\nSET bytea_output = 'hex';\nSET lc_monetary = 'C';\nBEGIN;\n";

/// A name that was stored must not end the comment.
fn comment(text: &mut String, comment: &str) {
    text.push_str("-- ");
    line(text, comment);
}

// As in the crate `postgres`, which programs for other systems are built without.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match doubled.contains('\\') {
        // Whatever `standard_conforming_strings` is.
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

fn value(value: Option<&str>) -> String {
    value.map_or_else(|| "NULL".to_owned(), literal)
}

fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", identifier(schema), identifier(name))
}

/// The condition that holds for one row, by its values in the snapshot.
fn condition(table: &Table, values: &[Option<String>]) -> String {
    let value = |place: usize| values.get(place).and_then(|value| value.as_deref());
    let has_key = !table.key.is_empty() && table.key.iter().all(|place| value(*place).is_some());
    let mut conditions = Vec::new();
    for (place, column) in table.columns.iter().enumerate() {
        let name = identifier(&column.name);
        match value(place) {
            Some(text) if has_key && table.key.contains(&place) => {
                conditions.push(format!("{name} = {}", literal(text)));
            }
            _ if has_key => {}
            // The value as it was written: not every type has an operator that compares.
            Some(text) => conditions.push(format!("pg_catalog.format('%s', {name}) = {}", literal(text))),
            None => {}
        }
        if !has_key {
            let is = if value(place).is_some() { "IS DISTINCT FROM" } else { "IS NOT DISTINCT FROM" };
            conditions.push(format!("{name} {is} NULL"));
        }
    }
    let all = conditions.join(" AND ");
    if has_key {
        return all;
    }
    // Of several rows that are the same, one.
    format!("ctid = (SELECT ctid FROM ONLY {} WHERE {all} LIMIT 1)", qualified(&table.schema, &table.name))
}

fn deletion(table: &Table, old: &[Option<String>]) -> String {
    let name = qualified(&table.schema, &table.name);
    format!("DELETE FROM ONLY {name} WHERE {};\n", condition(table, old))
}

fn update(table: &Table, old: &[Option<String>], new: &[Option<String>]) -> String {
    let places = table.columns.iter().enumerate().zip(old.iter().zip(new));
    let set: Vec<String> = places
        .filter(|(_, (old, new))| old != new)
        .map(|((_, column), (_, new))| format!("{} = {}", identifier(&column.name), value(new.as_deref())))
        .collect();
    let name = qualified(&table.schema, &table.name);
    format!("UPDATE ONLY {name} SET {} WHERE {};\n", set.join(", "), condition(table, old))
}

fn insertion(table: &Table, new: &[Option<String>]) -> String {
    let name = qualified(&table.schema, &table.name);
    let columns: Vec<String> = table.columns.iter().map(|column| identifier(&column.name)).collect();
    let values: Vec<String> = new.iter().map(|it| value(it.as_deref())).collect();
    let is_always = table.columns.iter().any(|column| column.is_always_generated);
    let overriding = if is_always { " OVERRIDING SYSTEM VALUE" } else { "" };
    format!("INSERT INTO {name} ({}){overriding} VALUES ({});\n", columns.join(", "), values.join(", "))
}

#[cfg(test)]
#[path = "../tests/unit/output.rs"]
mod tests;
