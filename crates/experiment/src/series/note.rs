//! What is written down beside the tries: ideas, closed lines of thought, other tools' logs.

use super::{error::fail, Series, SeriesError};
use crate::{event::Event, import};
use std::{fs, path::Path};

/// A text of the log is not longer than this, in bytes.
pub(super) const TEXT_LIMIT: usize = 16 << 10;

/// An idea to write down.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewIdea {
    /// The idea that it replaces; nothing for a new one.
    pub idea: Option<u32>,
    /// The greater, the sooner.
    pub rank: f64,
    /// What to do.
    pub text: String,
    /// Why it should help.
    pub mechanism: String,
    /// Whether it is done with.
    pub done: bool,
}

impl Series<'_> {
    /// Writes an idea down, or another version of one, and returns its number.
    ///
    /// # Errors
    /// When the text is empty or too long, the rank is not a number, there is no idea of the number that it
    /// replaces, or the log takes no more.
    pub fn idea(&mut self, new: &NewIdea) -> Result<u32, SeriesError> {
        check("the idea", &new.text, "say what to do")?;
        short_enough("the mechanism", &new.mechanism)?;
        if !new.rank.is_finite() {
            let advice = "the greater, the sooner";
            return Err(SeriesError::Claim { what: "the rank", wrong: "no number", advice });
        }
        let idea = match new.idea {
            Some(number) if !self.state.ideas.contains_key(&number) => {
                return Err(SeriesError::NoIdea { number });
            }
            Some(number) => number,
            None => self.state.next_idea(),
        };
        let (text, mechanism) = (new.text.trim().to_owned(), new.mechanism.trim().to_owned());
        self.append(Event::Idea { idea, rank: new.rank, text, mechanism, done: new.done })?;
        Ok(idea)
    }

    /// Closes a line of thought, or opens it again. `number` is the try that showed it.
    ///
    /// # Errors
    /// When its name or the mechanism is empty or too long, there is no such try, or the log takes no more.
    pub fn axis(
        &mut self,
        axis: &str,
        closed: bool,
        mechanism: &str,
        number: Option<u32>,
    ) -> Result<(), SeriesError> {
        check("the axis", axis, "give it a name")?;
        check("the mechanism", mechanism, "say by which mechanism it failed, or why it is open again")?;
        if let Some(number) = number {
            if self.state.find_try(number).is_none() {
                let segment = self.state.current().map_or(0, |segment| segment.number);
                return Err(SeriesError::NoTry { number, segment });
            }
        }
        let (axis, mechanism) = (axis.trim().to_owned(), mechanism.trim().to_owned());
        self.append(Event::Axis { axis, closed, mechanism, number })
    }

    /// Takes in another tool's log, and returns how many rows were new. Rows that are there already are left
    /// out.
    ///
    /// # Errors
    /// When the file cannot be read or is no such log, or our log takes no more.
    pub fn import(&mut self, file: &Path) -> Result<usize, SeriesError> {
        let text = fs::read_to_string(file).map_err(fail("read", file))?;
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut new = 0;
        for event in import::autoresearch(&text, &name)? {
            if self.knows(&event) {
                continue;
            }
            self.append(event)?;
            new += 1;
        }
        Ok(new)
    }

    fn knows(&self, event: &Event) -> bool {
        let Event::Imported { file, run, commit, metric, metrics, status, description, timestamp } = event
        else {
            return false;
        };
        self.state.imported.iter().any(|row| {
            (&row.file, &row.run, &row.commit, &row.metric, &row.metrics)
                == (file, run, commit, metric, metrics)
                && (&row.status, &row.description, &row.timestamp) == (status, description, timestamp)
        })
    }
}

/// A text that must be there, and not be too long.
pub(super) fn check(what: &'static str, text: &str, advice: &'static str) -> Result<(), SeriesError> {
    if text.trim().is_empty() {
        return Err(SeriesError::Claim { what, wrong: "empty", advice });
    }
    short_enough(what, text)
}

fn short_enough(what: &'static str, text: &str) -> Result<(), SeriesError> {
    if text.len() > TEXT_LIMIT {
        return Err(SeriesError::Claim { what, wrong: "longer than 16 KiB", advice: "say it shorter" });
    }
    Ok(())
}
