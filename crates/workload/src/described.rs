//! Workloads that are described in TOML: transactions with names, parameters that are drawn, and checks.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Fault, WorkloadError};
use crate::schema::Schema;
use crate::script::{check_name, Script};
use crate::workload::{self, in_figures, Kind, Source, MOST_WEIGHT};

/// What a file says.
pub(crate) struct Described {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) schema: Option<Schema>,
    pub(crate) scale: Option<u32>,
    pub(crate) clients: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    setup: Option<String>,
    scale: Option<u32>,
    clients: Option<u32>,
    #[serde(default)]
    transaction: Vec<toml::Spanned<Transaction>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transaction {
    name: String,
    #[serde(default = "one")]
    weight: u32,
    sql: Option<Vec<String>>,
    script: Option<String>,
    isolation: Option<String>,
    #[serde(default)]
    parameters: BTreeMap<String, Parameter>,
    check: Option<String>,
}

fn one() -> u32 {
    1
}

/// A number, or an expression.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Expression(String),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Expression(text) => write!(f, "({text})"),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameter {
    uniform: Option<[Number; 2]>,
    zipf: Option<[Number; 2]>,
    exponent: Option<f64>,
    sequence: Option<i64>,
    value: Option<Number>,
}

/// Whether a file is described in TOML.
pub(crate) fn is_described(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// The files that a text names. What cannot be read is told when it is parsed.
pub(crate) fn names(text: &str) -> Vec<String> {
    let Ok(text) = toml::from_str::<Text>(text) else { return Vec::new() };
    let scripts = text.transaction.into_iter().filter_map(|transaction| transaction.into_inner().script);
    text.setup.into_iter().filter(|name| name != crate::schema::PGBENCH).chain(scripts).collect()
}

/// Reads a file.
pub(crate) fn parse(source: &Source) -> Result<Described, WorkloadError> {
    let line_of = |at: usize| {
        1 + source.text.as_bytes()[..at.min(source.text.len())].iter().filter(|b| **b == b'\n').count()
    };
    let text: Text = toml::from_str(&source.text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let word = source.text.get(span.clone()).unwrap_or_default();
        let word = word.split('\n').next().unwrap_or_default();
        Fault::new(line_of(span.start), word, error.message()).of(&source.name)
    })?;
    let beside = |name: &str| source.beside.iter().find(|(of, _)| of == name).map(|(_, text)| text.clone());
    let schema = match text.setup {
        Some(name) if name == crate::schema::PGBENCH => Some(Schema::parse(&crate::schema::pgbench())?),
        Some(name) => {
            let text = beside(&name).ok_or_else(|| {
                WorkloadError::Whole(format!("the file {name:?} of the schema was not read"))
            })?;
            Some(Schema::parse(&Source { name, text, weight: 1, beside: Vec::new() })?)
        }
        None => None,
    };
    let mut kinds = Vec::new();
    for transaction in text.transaction {
        let line = line_of(transaction.span().start);
        let transaction = transaction.into_inner();
        let name = transaction.name.clone();
        let kind = kind(transaction, line, &beside);
        // What is wrong within a script has a line of the script.
        let kind = kind.map_err(|(file, fault)| {
            fault.of(&file.unwrap_or_else(|| format!("{}, transaction {name:?}", source.name)))
        })?;
        kinds.push(kind);
    }
    if text.clients.is_some_and(|clients| !(1..=MOST_CLIENTS).contains(&clients)) {
        return Err(WorkloadError::Whole(format!(
            "{}: clients is not from 1 to {MOST_CLIENTS}",
            source.name
        )));
    }
    Ok(Described { kinds, schema, scale: text.scale, clients: text.clients })
}

/// No workload has more sessions.
pub const MOST_CLIENTS: u32 = 128;

fn kind(
    transaction: Transaction,
    line: usize,
    beside: &dyn Fn(&str) -> Option<String>,
) -> Result<Kind, (Option<String>, Fault)> {
    let at = |word: &str, why: &str| (None, Fault::new(line, word, why));
    if !(1..=MOST_WEIGHT).contains(&transaction.weight) {
        let why = format!("a weight is from 1 to {MOST_WEIGHT}");
        return Err(at(&transaction.weight.to_string(), &why));
    }
    let mut sequences = Vec::new();
    let mut text = String::new();
    for (name, parameter) in &transaction.parameters {
        check_name(name, line).map_err(|fault| (None, fault))?;
        let drawn = match parameter {
            Parameter {
                uniform: Some([min, max]),
                zipf: None,
                exponent: None,
                sequence: None,
                value: None,
            } => {
                format!("random({min}, {max})")
            }
            Parameter { zipf: Some([min, max]), uniform: None, sequence: None, value: None, exponent } => {
                let exponent = exponent.unwrap_or(1.1);
                if !crate::random::ZIPF.contains(&exponent) {
                    return Err(at(&exponent.to_string(), "an exponent is from 1.001 to 1000"));
                }
                format!("random_zipfian({min}, {max}, {exponent:?})")
            }
            Parameter { sequence: Some(first), uniform: None, zipf: None, exponent: None, value: None } => {
                sequences.push((name.clone(), *first));
                continue;
            }
            Parameter { value: Some(value), uniform: None, zipf: None, exponent: None, sequence: None } => {
                value.to_string()
            }
            _ => return Err(at(name, "a parameter has one of uniform, zipf, sequence and value")),
        };
        text.push_str(&format!("\\set {name} {}\n", drawn.replace('\n', " ")));
    }
    // They are computed in the order of their names, which no description may depend on.
    let names: Vec<&str> = transaction.parameters.keys().map(String::as_str).collect();
    let counted: Vec<&str> = sequences.iter().map(|(name, _)| name.as_str()).collect();
    let drawn = Script::parse(&format!("{text};SELECT 1;"), &counted);
    drawn.map_err(|fault| (None, Fault { line, ..fault }))?;
    let (file, script) = match (&transaction.sql, &transaction.script) {
        (Some(sql), None) => {
            let begin = match &transaction.isolation {
                Some(level) => match level.to_ascii_lowercase().as_str() {
                    "read committed" | "repeatable read" | "serializable" => {
                        format!("BEGIN ISOLATION LEVEL {level}")
                    }
                    _ => return Err(at(level, "it is read committed, repeatable read or serializable")),
                },
                None => "BEGIN".to_owned(),
            };
            for one in sql {
                let script = Script::parse(one, &names).map_err(|fault| (None, Fault { line, ..fault }))?;
                if !script.is_plain() {
                    return Err(at(
                        one,
                        "sql holds statements alone; what begins or ends a transaction is the lab's",
                    ));
                }
            }
            if sql.is_empty() {
                return Err(at("sql", "it has no statement"));
            }
            // A comment in the last line of a statement ends before the semicolon.
            (None, format!("{begin};\n{}\n;\nCOMMIT;", sql.join("\n;\n")))
        }
        (None, Some(name)) if transaction.isolation.is_none() => {
            let script = beside(name).ok_or_else(|| at(name, "the file was not read"))?;
            Script::parse(&script, &names).map_err(|fault| (Some(name.clone()), fault))?;
            (Some(name.clone()), script)
        }
        (None, Some(_)) => return Err(at("isolation", "a script begins its transactions itself")),
        _ => return Err(at(&transaction.name, "a transaction has either sql or script")),
    };
    let script = Script::parse(&format!("{text}{script}"), &counted).map_err(|fault| (file, fault))?;
    let check = match &transaction.check {
        Some(check) => {
            Some(workload::check(check, &script, &names).map_err(|fault| (None, Fault { line, ..fault }))?)
        }
        None => None,
    };
    Ok(Kind {
        name: in_figures(&transaction.name),
        weight: u64::from(transaction.weight),
        script,
        check,
        sequences,
    })
}
