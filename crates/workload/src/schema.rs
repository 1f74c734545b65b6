//! What a workload needs to be there: SQL that is run once, by the workload's own role, in its own schema.

use crate::error::{Fault, WorkloadError};
use crate::scan::{items, Item, Part};
use crate::script::refuse;
use crate::workload::Source;

/// The name of the schema that scripts of pgbench expect.
pub const PGBENCH: &str = "pgbench";
/// How many statements it may have.
const MOST_STATEMENTS: usize = 10_000;

/// Statements, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    file: String,
    statements: Vec<(usize, Vec<Part>)>,
}

impl Schema {
    /// Reads it. `:scale` stands for the size.
    ///
    /// # Errors
    /// What is wrong or not supported, with its line and word.
    pub fn parse(source: &Source) -> Result<Self, WorkloadError> {
        let statements = statements(&source.text).map_err(|fault| fault.of(&source.name))?;
        Ok(Self { file: source.name.clone(), statements })
    }

    /// The name of its file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The statements as they are run, with the lines in which they begin.
    pub fn statements(&self, scale: u32) -> impl Iterator<Item = (usize, String)> + '_ {
        self.statements.iter().map(move |(line, parts)| {
            let text = parts.iter().map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Variable { name, .. } if name == "scale" => scale.to_string(),
                Part::Variable { name, .. } => format!(":{name}"),
            });
            (*line, text.collect())
        })
    }
}

fn statements(text: &str) -> Result<Vec<(usize, Vec<Part>)>, Fault> {
    let mut statements = Vec::new();
    for item in items(text)? {
        match item {
            Item::Sql(sql) => {
                refuse(&sql)?;
                for part in &sql.parts {
                    if let Part::Variable { name, is_bare: true, line } = part {
                        if name != "scale" && !name.starts_with(|c: char| c.is_ascii_digit()) {
                            return Err(Fault::new(*line, format!(":{name}"), "a schema has only :scale"));
                        }
                    }
                }
                statements.push((sql.line, sql.parts));
            }
            Item::Meta { line, word, .. } => {
                let why = "a schema is SQL alone: backslash commands are not supported";
                return Err(Fault::new(line, format!("\\{word}"), why));
            }
        }
        if statements.len() > MOST_STATEMENTS {
            return Err(Fault::new(1, "", format!("the schema has more than {MOST_STATEMENTS} statements")));
        }
    }
    Ok(statements)
}

/// The four tables that scripts of pgbench expect, with 100,000 accounts for each unit of the scale.
pub(crate) fn pgbench() -> Source {
    let text = "
CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88)) WITH (fillfactor = 100);
CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
INSERT INTO pgbench_branches (bid, bbalance) SELECT bid, 0 FROM generate_series(1, :scale) bid;
INSERT INTO pgbench_tellers (tid, bid, tbalance)
    SELECT tid, (tid - 1) / 10 + 1, 0 FROM generate_series(1, 10 * :scale) tid;
INSERT INTO pgbench_accounts (aid, bid, abalance, filler)
    SELECT aid, (aid - 1) / 100000 + 1, 0, '' FROM generate_series(1, 100000 * :scale) aid;
VACUUM ANALYZE pgbench_branches;
VACUUM ANALYZE pgbench_tellers;
VACUUM ANALYZE pgbench_accounts;
";
    Source { name: PGBENCH.to_owned(), text: text.to_owned(), weight: 1, beside: Vec::new() }
}
