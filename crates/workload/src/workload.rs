//! A workload: kinds of transactions with their weights, the schema that they need, and its size.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::described;
use crate::error::{Fault, WorkloadError};
use crate::scan::{items, Item, LONGEST_FILE};
use crate::schema::{self, Schema};
use crate::script::{refuse, Script, Statement, What};

/// No workload has more kinds.
pub const MOST_KINDS: usize = 64;
/// No weight is greater.
pub(crate) const MOST_WEIGHT: u32 = 1_000_000;
/// No workload is larger.
pub(crate) const MOST_SCALE: u32 = 100_000;

/// The texts of a workload, as they were read: what an agent on another machine makes the same workload of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sources {
    /// Files of transactions.
    pub files: Vec<Source>,
    /// The file of the schema, if it stands alone.
    pub schema: Option<Source>,
    /// The variable `scale`.
    pub scale: Option<u32>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Its name, for messages.
    pub name: String,
    /// What is in it.
    pub text: String,
    /// Its weight among the files.
    pub weight: u32,
    /// Files that it names, by these names.
    pub beside: Vec<(String, String)>,
}

/// A workload that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    pub(crate) kinds: Vec<Kind>,
    schema: Option<Schema>,
    scale: u32,
    clients: Option<u32>,
}

/// A kind of transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// Its name in figures.
    pub name: String,
    /// How often it is drawn, beside the others.
    pub weight: u64,
    pub(crate) script: Script,
    /// Asked on the standby after a commit: whether it is there.
    pub(crate) check: Option<Statement>,
    /// Variables that count on through a run: their first value. Each client has its own share of the numbers.
    pub(crate) sequences: Vec<(String, i64)>,
}

impl Sources {
    /// Reads the files. An argument is `FILE` or `FILE@WEIGHT`.
    ///
    /// # Errors
    /// When a file cannot be read, or a weight is none.
    pub fn read(files: &[String], schema: Option<&Path>, scale: Option<u32>) -> Result<Self, WorkloadError> {
        let files = files.iter().map(|argument| {
            let (path, weight) = weighted(argument)?;
            source(&path, weight)
        });
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let schema = match schema {
            // The tables that scripts of pgbench expect, unless there is a file of that name.
            Some(path) if path == Path::new(schema::PGBENCH) && !path.exists() => Some(schema::pgbench()),
            Some(path) => Some(source(path, 1)?),
            None => None,
        };
        Ok(Self { files, schema, scale })
    }
}

/// `FILE@WEIGHT`: what stands after the last `@`, if it is a number.
fn weighted(argument: &str) -> Result<(PathBuf, u32), WorkloadError> {
    match argument.rsplit_once('@') {
        Some((path, weight)) if !path.is_empty() && weight.chars().all(|c| c.is_ascii_digit()) => {
            let weight = weight.parse().ok().filter(|weight| (1..=MOST_WEIGHT).contains(weight));
            let weight = weight.ok_or_else(|| {
                WorkloadError::Whole(format!("the weight of {argument:?} is not from 1 to {MOST_WEIGHT}"))
            })?;
            Ok((path.into(), weight))
        }
        _ => Ok((argument.into(), 1)),
    }
}

fn source(path: &Path, weight: u32) -> Result<Source, WorkloadError> {
    let text = read(path)?;
    let mut beside = Vec::new();
    if described::is_described(path) {
        for name in described::names(&text) {
            let file = path.parent().unwrap_or(Path::new("")).join(&name);
            beside.push((name, read(&file)?));
        }
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Source { name, text, weight, beside })
}

fn read(path: &Path) -> Result<String, WorkloadError> {
    let open = || {
        let mut text = String::new();
        File::open(path)?.take(LONGEST_FILE as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    open().map_err(|source| WorkloadError::Read { path: path.to_owned(), source })
}

impl Workload {
    /// Makes a workload of texts.
    ///
    /// # Errors
    /// What is wrong in them, with file, line and word.
    pub fn parse(sources: &Sources) -> Result<Self, WorkloadError> {
        let mut kinds: Vec<Kind> = Vec::new();
        let (mut schema, mut scale, mut clients) = (None, None, None);
        for source in &sources.files {
            if described::is_described(Path::new(&source.name)) {
                let described = described::parse(source)?;
                schema = described.schema.or(schema);
                scale = described.scale.or(scale);
                clients = described.clients.or(clients);
                // All of a file together weigh what the file does.
                let whole: u64 = described.kinds.iter().map(|kind| kind.weight).sum();
                let many = sources.files.len() > 1;
                kinds.extend(described.kinds.into_iter().map(|kind| {
                    let weight = match many {
                        true => (kind.weight * 1_000 * u64::from(source.weight)).div_ceil(whole.max(1)),
                        false => kind.weight,
                    };
                    Kind { weight, ..kind }
                }));
            } else {
                let script = Script::parse(&source.text, &[]).map_err(|fault| fault.of(&source.name))?;
                let many = sources.files.iter().any(|file| described::is_described(Path::new(&file.name)));
                let weight = u64::from(source.weight) * if many { 1_000 } else { 1 };
                let name = source.name.rsplit_once('.').map_or(&*source.name, |(stem, _)| stem);
                kinds.push(Kind {
                    name: in_figures(name),
                    weight,
                    script,
                    check: None,
                    sequences: Vec::new(),
                });
            }
        }
        let scale = sources.scale.or(scale).unwrap_or(1);
        if !(1..=MOST_SCALE).contains(&scale) {
            return Err(WorkloadError::Whole(format!("the scale {scale} is not from 1 to {MOST_SCALE}")));
        }
        if kinds.is_empty() {
            return Err(WorkloadError::Whole("the workload has no transaction".to_owned()));
        }
        if kinds.len() > MOST_KINDS {
            return Err(WorkloadError::Whole(format!(
                "the workload has more than {MOST_KINDS} transactions"
            )));
        }
        for at in 1..kinds.len() {
            if kinds[..at].iter().any(|other| other.name == kinds[at].name) {
                kinds[at].name = format!("{}_{}", kinds[at].name, at + 1);
            }
        }
        let schema = match &sources.schema {
            Some(source) => Some(Schema::parse(source)?),
            None => schema,
        };
        Ok(Self { kinds, schema, scale, clients })
    }

    /// The kinds of transactions.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The variable `scale`.
    #[must_use]
    pub fn scale(&self) -> u32 {
        self.scale
    }

    /// How many sessions it asks for.
    #[must_use]
    pub fn clients(&self) -> Option<u32> {
        self.clients
    }

    /// The schema that is set up for it.
    #[must_use]
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    /// Whether there is anything to be asked for on the standby.
    #[must_use]
    pub fn has_checks(&self) -> bool {
        self.kinds.iter().any(|kind| kind.check.is_some())
    }
}

impl Kind {
    /// Whether it has a check.
    #[must_use]
    pub fn has_check(&self) -> bool {
        self.check.is_some()
    }
}

/// A name as it stands in figures, whose parts are divided by slashes.
pub(crate) fn in_figures(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().take(40).map(safe).collect();
    if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    }
}

/// The statement of a check: one, that asks.
pub(crate) fn check(text: &str, script: &Script, defined: &[&str]) -> Result<Statement, Fault> {
    let mut known: Vec<&str> = defined.to_vec();
    known.extend(script.sets());
    if let [Item::Sql(sql)] = &items(text)?[..] {
        refuse(sql)?;
        let first = sql.statements.first().and_then(|words| words.first());
        if first.is_some_and(|word| matches!(word.text.as_str(), "select" | "with" | "values" | "table")) {
            let parsed = Script::parse(text, &known)?;
            if let Some(What::Sql(statement)) = parsed.commands.into_iter().next().map(|command| command.what)
            {
                if statement.effects.len() == 1 {
                    return Ok(statement);
                }
            }
        }
    }
    Err(Fault::new(1, text, "a check is one SELECT"))
}
