//! A verdict by hand, which stands beside the computed one (X4).

use super::{note, Series, SeriesError};
use crate::{
    event::{Event, Verdict},
    state::Try,
    verdict,
};

impl Series<'_> {
    /// Decides a try of the segment by hand. One that is kept from now on comes on top of the head; one that
    /// is not any more is taken out of the stack. A try that is still open is given up, and ends as
    /// inconclusive before that. Returns the head.
    ///
    /// # Errors
    /// When the reason is empty, there is no such try, another one is open, a try that crashed, failed a
    /// check, is invalid or suspicious were kept (X5, X16), the stack does not hold together, or git or the log refuse.
    pub fn decide(&mut self, number: u32, by_hand: Verdict, reason: &str) -> Result<String, SeriesError> {
        note::check("the reason", reason, "say why the computed verdict does not hold")?;
        let current = self.current()?;
        let segment = self.state.current().ok_or(SeriesError::NoBaseline)?;
        let found = segment.tries.iter().find(|known| known.number == number).cloned();
        let found = found.ok_or(SeriesError::NoTry { number, segment: current.number })?;
        if let Some(open) = self.state.open_try().filter(|open| open.number != number) {
            return Err(undecidable(
                number,
                &format!("try {} is open; `resume` it or give it up first", open.number),
            ));
        }
        let was_kept = segment.keeps.iter().any(|kept| kept.number == number);
        let stack: Vec<String> = segment.keeps.iter().map(|kept| kept.commit.clone()).collect();
        let head = match (was_kept, by_hand == Verdict::Keep) {
            (false, true) => self.put_on(&current.head, &found)?,
            (true, false) => {
                let rest = self.repository.without(&current.start, &stack, &found.candidate)?;
                rest.ok_or_else(|| {
                    undecidable(number, "tries that were kept after it build on it; decide those first")
                })?
            }
            _ => current.head.clone(),
        };
        if found.is_open() {
            let reason = "given up by hand before it was measured to its end".to_owned();
            let judgement = verdict::unmeasured(&current.spec, Verdict::Inconclusive, reason);
            self.append(Event::TryEnded { number, judgement, head: current.head.clone() })?;
        }
        // The ref comes first: what the log names is never without one.
        self.repository.set_ref(&Self::reference(&current.spec.name, "head"), &head)?;
        let reason = reason.trim().to_owned();
        self.append(Event::Overridden { number, verdict: by_hand, reason, head: head.clone() })?;
        Ok(head)
    }

    fn put_on(&self, head: &str, found: &Try) -> Result<String, SeriesError> {
        let number = found.number;
        match found.judgement.as_ref().map(|judgement| judgement.verdict) {
            None => return Err(undecidable(number, "it is still open; `resume` it first")),
            Some(Verdict::Crash | Verdict::ChecksFailed | Verdict::Invalid | Verdict::Suspicious) => {
                let why = "what crashed, failed a check, is invalid or suspicious is never kept; try the change again";
                return Err(undecidable(number, why));
            }
            Some(_) if found.files.is_empty() => return Err(undecidable(number, "it changes nothing")),
            Some(_) => {}
        }
        if found.base == head {
            return Ok(found.candidate.clone());
        }
        self.transplant(&found.candidate, head, &self.repository.message(&found.candidate)?)
    }
}

fn undecidable(number: u32, why: &str) -> SeriesError {
    SeriesError::Undecidable { number, why: why.to_owned() }
}
