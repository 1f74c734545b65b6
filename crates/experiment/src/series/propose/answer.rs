//! What a proposer says: a JSON object in a file that the question names, or the last line of its output that is one.

use super::Claim;
use crate::series::{note::TEXT_LIMIT, notes};
use rustix::fs::{open, Mode, OFlags};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

/// An answer is not longer than this, in bytes.
const BYTES_MAX: u64 = 256 << 10;

/// An answer, as far as it can be read.
pub(super) struct Answer {
    fields: Map<String, Value>,
    pub(super) stop: bool,
}

impl Answer {
    /// The answer in the file, if it is there, else in what was printed.
    pub(super) fn find(file: &Path, output: &str) -> Result<Answer, String> {
        let Some(text) = read(file)? else { return Answer::parse(output) };
        let fields = serde_json::from_str::<Map<String, Value>>(text.trim()).map_err(|error| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            format!("the proposer's file {name} holds no JSON object: {error}")
        })?;
        Answer::of(fields)
    }

    fn parse(output: &str) -> Result<Answer, String> {
        let object = output
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str::<Map<String, Value>>(line.trim()).ok());
        Answer::of(
            object
                .ok_or("the proposer left no file with an answer, and printed no line with a JSON object")?,
        )
    }

    fn of(fields: Map<String, Value>) -> Result<Answer, String> {
        let stop = match fields.get("stop") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(stop)) => *stop,
            Some(_) => return Err("the proposer's `stop` is neither true nor false".to_owned()),
        };
        Ok(Answer { fields, stop })
    }

    /// Why there is nothing more to propose.
    pub(super) fn why_stop(&self) -> String {
        match self.text("hypothesis").unwrap_or_default() {
            Some(why) => format!("the proposer has nothing more: {why}"),
            None => "the proposer has nothing more".to_owned(),
        }
    }

    /// What is said of the change, or as much of it as can be read, and what is wrong with it.
    pub(super) fn claim(&self) -> (Claim, Option<String>) {
        let mut claim = Claim::default();
        let wrong = self.fill(&mut claim).err();
        (claim, wrong)
    }

    fn fill(&self, claim: &mut Claim) -> Result<(), String> {
        claim.hypothesis = self.text("hypothesis")?.ok_or("the proposer said no `hypothesis`")?;
        claim.mechanism = self.text("mechanism")?.ok_or("the proposer said no `mechanism`")?;
        claim.axis = self.text("axis")?;
        claim.idea = match self.fields.get("idea") {
            None | Some(Value::Null) => None,
            Some(idea) => {
                let number = idea.as_u64().and_then(|number| u32::try_from(number).ok());
                Some(number.ok_or("the proposer's `idea` is not a number of an idea")?)
            }
        };
        claim.notes = self.notes()?;
        Ok(())
    }

    /// What else it says. A value that is not text is taken as it is written.
    fn notes(&self) -> Result<BTreeMap<String, String>, String> {
        let fields = match self.fields.get("notes") {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(fields)) => fields,
            Some(_) => {
                return Err("the proposer's `notes` must be a JSON object whose values are text".to_owned())
            }
        };
        let text = |value: &Value| match value {
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        let found: BTreeMap<String, String> =
            fields.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        match notes::wrong(&found) {
            None => Ok(found),
            Some((wrong, advice)) => Err(format!("one of the proposer's `notes` is {wrong}; {advice}")),
        }
    }

    /// A text that says something.
    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.len() > TEXT_LIMIT => {
                Err(format!("the proposer's `{name}` is longer than {TEXT_LIMIT} bytes"))
            }
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(_) => Err(format!("the proposer's `{name}` is not text")),
        }
    }
}

/// The text of a file that is one: no link, no pipe, and not too long.
fn read(file: &Path) -> Result<Option<String>, String> {
    let name = || file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file_of = match open(file, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(format!("the proposer's file {} cannot be read: {error}", name())),
        Ok(fd) => File::from(fd),
    };
    let read = |text: &mut Vec<u8>| -> std::io::Result<bool> {
        let is_file = file_of.metadata()?.is_file();
        (&file_of).take(BYTES_MAX + 1).read_to_end(text)?;
        Ok(is_file)
    };
    let mut text = Vec::new();
    match read(&mut text) {
        Ok(true) if text.len() as u64 <= BYTES_MAX => {}
        Ok(true) => return Err(format!("the proposer's file {} is longer than 256 KiB", name())),
        Ok(false) | Err(_) => return Err(format!("the proposer's {} is not a regular file", name())),
    }
    match String::from_utf8(text) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(format!("the proposer's file {} is no UTF-8", name())),
    }
}
