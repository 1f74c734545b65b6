//! Rules and labels, resolved against the tables that there are. What does not fit is refused before anything is changed.

use super::{
    catalogue::{Catalogue, Column, ForeignKey, Table},
    labels, masker, Failure,
};
use crate::model::{Mask, Masking, Subset};
use std::collections::{BTreeMap, BTreeSet};

/// What is done with which column of which table.
#[derive(Debug)]
pub(super) struct Rules {
    /// By the ids of tables that store rows, and of those above them, by the number of the column.
    pub(super) columns: BTreeMap<u32, BTreeMap<i16, Mask>>,
    /// By the ids of tables that store rows: the name by which a condition may call its table, and the condition.
    pub(super) rows: BTreeMap<u32, (String, String)>,
    /// Columns whose rule nobody wrote: foreign keys demand it.
    pub(super) implied: BTreeSet<(u32, i16)>,
    pub(super) subset: Option<Part>,
    /// Columns that somebody wants kept as they are.
    pub(super) kept: BTreeSet<(u32, i16)>,
}

/// The part of the rows that is kept.
#[derive(Debug)]
pub(super) struct Part {
    /// The table to begin with.
    pub(super) table: u32,
    pub(super) which: Which,
    /// Tables of which all rows are kept.
    pub(super) whole: Vec<u32>,
}

/// Which rows of a table are kept.
#[derive(Debug)]
pub(super) enum Which {
    /// So many of a million.
    Share(u32),
    /// Those that meet this condition.
    Condition(String),
}

impl Rules {
    /// # Errors
    /// All that does not fit, at once.
    pub(super) fn resolve(masking: &Masking, catalogue: &Catalogue) -> Result<Rules, Failure> {
        let mut problems = Vec::new();
        let mut rules = Rules {
            columns: BTreeMap::new(),
            rows: BTreeMap::new(),
            implied: BTreeSet::new(),
            subset: None,
            kept: BTreeSet::new(),
        };
        match masking.subset.as_ref().map(|subset| part(catalogue, subset)).transpose() {
            Ok(subset) => rules.subset = subset,
            Err(mut found) => problems.append(&mut found),
        }
        // Labels first: what is asked for here goes before them.
        let mut given: BTreeMap<(u32, i16), Mask> = BTreeMap::new();
        let mut refused: BTreeMap<(u32, i16), &str> = BTreeMap::new();
        for label in &catalogue.labels {
            match labels::rule(&label.text) {
                Some(mask) => drop(given.insert((label.table, label.column), mask)),
                None => drop(refused.insert((label.table, label.column), &label.text)),
            }
        }
        for (table, columns) in &masking.columns {
            match find(catalogue, table) {
                Err(problem) => problems.push(problem),
                Ok(found) => {
                    for (name, mask) in columns {
                        let Some(column) = found.column_named(name) else {
                            problems.push(format!("{table} has no column {name:?}"));
                            continue;
                        };
                        given.insert((found.id, column.number), mask.clone());
                        refused.remove(&(found.id, column.number));
                    }
                }
            }
        }
        for (table, condition) in &masking.rows {
            match find(catalogue, table) {
                Err(problem) => problems.push(problem),
                Ok(found) => {
                    refused.remove(&(found.id, 0));
                    for part in catalogue.storing(found.id) {
                        let rule = (found.name.clone(), condition.clone());
                        if rules.rows.insert(part.id, rule).is_some() {
                            problems.push(format!("{} has two conditions", part.plain_name()));
                        }
                    }
                }
            }
        }
        for ((table, column), label) in refused {
            let Some(table) = catalogue.tables.get(&table) else { continue };
            problems.push(match table.column(column) {
                Some(column) => format!(
                    "{}.{} has the label {label:?}, which calls functions or says more than this reads: give the column a rule of its own, or keep",
                    table.plain_name(),
                    column.name
                ),
                None => format!(
                    "{} has the label {label:?}, which is not read: give the table a condition for its rows",
                    table.plain_name()
                ),
            });
        }
        for ((table, number), mask) in given {
            let Some(table) = catalogue.tables.get(&table) else { continue };
            let Some(column) = table.column(number) else { continue };
            rules.add(catalogue, table, column, &mask, &mut problems);
        }
        rules.follow_keys(catalogue, &mut problems);
        let kept = rules.columns.iter().flat_map(|(table, columns)| {
            let kept = columns.iter().filter(|(_, mask)| **mask == Mask::Keep);
            kept.map(|(column, _)| (*table, *column))
        });
        rules.kept = kept.collect();
        rules.columns.values_mut().for_each(|columns| columns.retain(|_, mask| *mask != Mask::Keep));
        rules.columns.retain(|_, columns| !columns.is_empty());
        for key in &catalogue.keys {
            problems.extend(rules.check_key(catalogue, key));
        }
        if problems.is_empty() && rules.columns.is_empty() && rules.rows.is_empty() && rules.subset.is_none()
        {
            problems
                .push("there is no rule, and the source has no label of PostgreSQL Anonymizer".to_owned());
        }
        if problems.is_empty() {
            return Ok(rules);
        }
        problems.sort();
        problems.dedup();
        Err(Failure::Refused(problems))
    }

    /// A rule for a column, and so for that column of all that inherit from its table.
    fn add(
        &mut self,
        catalogue: &Catalogue,
        table: &Table,
        column: &Column,
        mask: &Mask,
        problems: &mut Vec<String>,
    ) {
        let mut rules = Vec::new();
        for part in catalogue.family(table.id) {
            let Some(own) = part.column_named(&column.name) else { continue };
            rules.push((part.id, own.number));
            let named = format!("{}.{}", part.plain_name(), own.name);
            if part.kind == 'f' {
                // Its rows are elsewhere, and no branch reads them.
                continue;
            }
            let problem = match mask {
                Mask::Keep => None,
                _ if !['r', 'p'].contains(&part.kind) => {
                    Some(format!("{named} is not a column of a table: give the columns rules that it shows"))
                }
                _ if own.generated => {
                    Some(format!("{named} is generated: give the columns rules that it is made of"))
                }
                _ if own.partition_key => {
                    Some(format!("{named} decides in which partition a row lies, and cannot be masked"))
                }
                Mask::Null if own.not_null => Some(format!("{named} may not be null: use constant or hash")),
                _ => masker::misfit(mask, part, own),
            };
            problems.extend(problem);
        }
        for (part, number) in rules {
            let columns = self.columns.entry(part).or_default();
            match columns.get(&number) {
                // That of a part itself may differ only where the whole has none.
                Some(other) if other != mask => problems.push(format!(
                    "{}.{} and what it inherits from have different rules",
                    catalogue.tables.get(&part).map(Table::plain_name).unwrap_or_default(),
                    column.name
                )),
                _ => drop(columns.insert(number, mask.clone())),
            }
        }
    }

    /// Gives the other side of a foreign key the rule that one side has, if that makes of equal values equal ones, and nobody
    /// said what becomes of the other.
    fn follow_keys(&mut self, catalogue: &Catalogue, problems: &mut Vec<String>) {
        loop {
            let mut found: Vec<(u32, i16, Mask)> = Vec::new();
            for key in catalogue.keys.iter().filter(|key| !key.inherited) {
                for (column, other) in key.columns.iter().zip(&key.target_columns) {
                    let sides = [(key.table, *column), (key.target, *other)];
                    let rules = sides.map(|(table, column)| self.mask(table, column));
                    for (from, to) in [(0, 1), (1, 0)] {
                        let rule = rules[from].filter(|rule| masker::keeps_keys(rule) && rules[to].is_none());
                        found.extend(rule.map(|rule| (sides[to].0, sides[to].1, rule.clone())));
                    }
                }
            }
            found.retain(|(table, column, _)| self.mask(*table, *column).is_none());
            if found.is_empty() {
                return;
            }
            for (table, number, mask) in found {
                let Some(table) = catalogue.tables.get(&table) else { continue };
                let Some(column) = table.column(number) else { continue };
                let before = problems.len();
                // Two keys may demand two rules of one column: the second is then told as a difference of that key.
                if self.mask(table.id, number).is_none() {
                    self.add(catalogue, table, column, &mask, problems);
                    let parts = catalogue.family(table.id);
                    let own = parts
                        .iter()
                        .filter_map(|part| Some((part.id, part.column_named(&column.name)?.number)));
                    self.implied.extend(own);
                }
                for problem in &mut problems[before..] {
                    *problem += &format!(" (a foreign key of it has {mask} on its other side)");
                }
            }
        }
    }

    fn mask(&self, table: u32, column: i16) -> Option<&Mask> {
        self.columns.get(&table)?.get(&column)
    }

    /// Whether what refers stays equal to what it refers to.
    fn check_key(&self, catalogue: &Catalogue, key: &ForeignKey) -> Vec<String> {
        let (Some(own), Some(target)) = (catalogue.tables.get(&key.table), catalogue.tables.get(&key.target))
        else {
            return Vec::new();
        };
        let pairs = key.columns.iter().zip(&key.target_columns);
        let problem = |(column, other): (&i16, &i16)| {
            let (refers, referred) = (self.mask(own.id, *column), self.mask(target.id, *other));
            let (column, other) = (own.column(*column)?, target.column(*other)?);
            let classes = [column, other].map(Column::class);
            let alike = match refers {
                Some(Mask::Hash) => classes[0] == classes[1],
                Some(mask) => masker::keeps_keys(mask) || matches!(mask, Mask::Constant(_)),
                None => true,
            };
            // A reference that is null refers to nothing, and one that another row had refers to something.
            if refers == Some(&Mask::Null)
                || refers == Some(&Mask::Shuffle) && referred.is_none() && key.columns.len() == 1
                || refers == referred && alike
            {
                return None;
            }
            let (column, other) = (
                format!("{}.{}", own.plain_name(), column.name),
                format!("{}.{}", target.plain_name(), other.name),
            );
            if refers == referred && refers != Some(&Mask::Hash) {
                let rule = refers.map_or_else(String::new, Mask::to_string);
                return Some(format!(
                    "the foreign key {} compares {column} and {other}, and {rule} does not keep what they have in common: use hash or shape",
                    key.name
                ));
            }
            if refers == referred {
                return Some(format!(
                    "the foreign key {} compares {column} and {other}, whose types have different hashes: use null for {column}",
                    key.name
                ));
            }
            let (missing, rule) = match (refers, referred) {
                (None, Some(rule)) => (column.clone(), rule),
                (Some(rule), None) => (other.clone(), rule),
                _ => {
                    return Some(format!(
                        "the foreign key {} compares {column} and {other}, which have different rules: give both the same",
                        key.name
                    ))
                }
            };
            Some(format!(
                "the foreign key {} compares {column} and {other}: add {rule} for {missing}",
                key.name
            ))
        };
        pairs.filter_map(problem).collect()
    }

    /// Whether a rule is about a column.
    pub(super) fn masks(&self, table: u32, column: i16) -> bool {
        self.mask(table, column).is_some()
    }

    /// Whether a rule touches a side of a foreign key.
    pub(super) fn touches(&self, key: &ForeignKey) -> bool {
        key.columns.iter().any(|column| self.mask(key.table, *column).is_some())
            || key.target_columns.iter().any(|column| self.mask(key.target, *column).is_some())
    }
}

/// The part of the rows that is kept, or all that is wrong about it.
fn part(catalogue: &Catalogue, subset: &Subset) -> Result<Part, Vec<String>> {
    let mut problems = Vec::new();
    let mut one = |written: &str| {
        let found = find(catalogue, written).and_then(|table| match table.kind {
            'r' | 'p' => Ok(table.id),
            _ => Err(format!("{written} is not a table, and no subset begins with it or keeps it")),
        });
        found.map_err(|problem| problems.push(problem)).ok()
    };
    let table = one(&subset.table);
    let whole: Vec<u32> = subset.keep.iter().filter_map(|written| one(written)).collect();
    let which = match (subset.percent, &subset.condition) {
        (Some(share), None) => Some(Which::Share(share.millionths())),
        (None, Some(condition)) => Some(Which::Condition(condition.clone())),
        _ => {
            problems.push("a subset takes either percent or where".to_owned());
            None
        }
    };
    match (table, which) {
        (Some(table), Some(which)) if problems.is_empty() => Ok(Part { table, which, whole }),
        _ => Err(problems),
    }
}

fn find<'a>(catalogue: &'a Catalogue, written: &str) -> Result<&'a Table, String> {
    let (schema, name) = split(written)
        .ok_or_else(|| format!("{written:?} is not a table name: write schema.table, as in SQL"))?;
    catalogue.named(&schema, &name).ok_or_else(|| {
        let there = catalogue.tables.values().map(Table::plain_name).collect::<Vec<_>>();
        let hint = duramen_base::suggest::closest(written, there.iter().map(String::as_str));
        let hint = hint.map(|name| format!("; is {name} meant?")).unwrap_or_default();
        format!("there is no table {written}{hint}")
    })
}

/// The two parts of a table's name. Those in quotes are taken as they are, others as PostgreSQL folds them.
fn split(written: &str) -> Option<(String, String)> {
    let mut parts = Vec::new();
    let mut rest = written;
    loop {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut letters = quoted.char_indices().peekable();
            let end = loop {
                match letters.next()? {
                    (_, '"') if letters.peek().is_some_and(|next| next.1 == '"') => {
                        letters.next();
                        part.push('"');
                    }
                    (place, '"') => break place + 1,
                    (_, letter) => part.push(letter),
                }
            };
            (part, &quoted[end..])
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            (rest[..end].to_lowercase(), &rest[end..])
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => break,
            None => return None,
        }
    }
    <[String; 2]>::try_from(parts).ok().map(|[schema, name]| (schema, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sql_reads_them() {
        let name = |schema: &str, table: &str| Some((schema.to_owned(), table.to_owned()));
        for (written, expected) in [
            ("public.users", name("public", "users")),
            ("Public.Users", name("public", "users")),
            ("public.\"Users\"", name("public", "Users")),
            ("\"a.b\".\"c\"\"d\"", name("a.b", "c\"d")),
            ("users", None),
            ("a.b.c", None),
            ("a.", None),
            (".b", None),
            ("a.\"b", None),
            ("\"a\"b.c", None),
        ] {
            assert_eq!(split(written), expected, "{written}");
        }
    }
}
