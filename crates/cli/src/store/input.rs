//! What commands are fed with: one value, or a line for each.

use crate::failure::Failure;
use serde::de::DeserializeOwned;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
};

/// More than any value may have, written in whatever way.
pub(crate) const VALUE_BYTES_MAX: u64 = 64 << 20;

/// Where a command reads what it is fed with.
#[derive(Debug)]
pub(crate) enum Input {
    /// The standard input.
    Standard,
    /// A file that a line of the shell names behind `<`.
    File(PathBuf),
    /// Nowhere: the lines of a shell come from the standard input.
    Taken,
}

impl Input {
    /// Opens it, which is done by the commands that read it.
    pub(crate) fn open(&self) -> Result<Box<dyn BufRead>, Failure> {
        Ok(match self {
            Input::Standard => Box::new(std::io::stdin().lock()),
            Input::File(path) => Box::new(BufReader::new(File::open(path).map_err(Failure::io("open", path))?)),
            Input::Taken => {
                return Err(Failure::Usage(
                    "the lines of the shell come from the standard input, so a command cannot read it; name a file \
                     at the end of its line, as in `kv load < pairs.jsonl`"
                        .to_owned(),
                ))
            }
        })
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Standard | Input::Taken => "the standard input".to_owned(),
        }
    }

    /// All of it.
    pub(crate) fn all(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let read = self.open()?.take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failure::Other(format!("cannot read {}: {error}", self.name())))?;
        if bytes.len() as u64 > VALUE_BYTES_MAX {
            let most = VALUE_BYTES_MAX >> 20;
            return Err(Failure::Other(format!("{} has more than {most} MiB; no value may", self.name())));
        }
        Ok(bytes)
    }

    /// All of it as text, without the line break at its end.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        let mut text = String::from_utf8(self.all()?).map_err(|error| {
            let (name, at) = (self.name(), error.utf8_error().valid_up_to());
            Failure::Other(format!("{name} is not UTF-8 text from byte {at} on; try --type bytes"))
        })?;
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }

    /// Its lines that are not blank, each as `parse` reads it. The first bad one ends it.
    pub(crate) fn lines<T>(&self, parse: impl FnMut(&str) -> Result<T, String>) -> Result<Vec<T>, Failure> {
        self.lines_of(self.open()?, parse)
    }

    /// As [`lines`](Self::lines), of what was opened already.
    pub(crate) fn lines_of<T>(
        &self,
        opened: Box<dyn BufRead>,
        mut parse: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, Failure> {
        let mut parsed = Vec::new();
        for (index, line) in opened.lines().enumerate() {
            let number = index + 1;
            let line = line.map_err(|error| {
                Failure::Other(format!("cannot read line {number} of {}: {error}", self.name()))
            })?;
            if line.trim().is_empty() {
                continue;
            }
            let item = parse(&line).map_err(|reason| {
                Failure::Other(format!("line {number} of {}: {reason}; nothing was written", self.name()))
            })?;
            parsed.push(item);
        }
        Ok(parsed)
    }

    /// JSON that was given as an argument, or `-` for what the command is fed with.
    pub(crate) fn json_argument(&self, what: &str, text: &str) -> Result<serde_json::Value, Failure> {
        if text == "-" {
            let text = self.text()?;
            return serde_json::from_str(&text).map_err(|error| {
                Failure::Other(format!("the {what} on {} is not JSON: {error}", self.name()))
            });
        }
        serde_json::from_str(text).map_err(|error| {
            Failure::Usage(format!(
                "the {what} is not JSON: {error}; a text stands in double quotes: '\"text\"'"
            ))
        })
    }
}

/// A line that is JSON.
pub(crate) fn json<T: DeserializeOwned>(line: &str, example: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("{error}; write it like {example}"))
}
