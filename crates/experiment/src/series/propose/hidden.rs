//! What a proposer is not told: which scales are held out, what they stand for, and where that is written.

use crate::{
    event::Judgement,
    spec::{values, Spec},
    state::Segment,
};
use std::path::Path;

/// In the place of a reason that says something of what is held out.
const GENERIC: &str = "it does not hold at a scale that was held out";
/// A value of so many characters or more is looked for anywhere, a shorter one as a word.
const LONG: usize = 6;

/// The names and values of what is held out.
pub(super) struct Hidden {
    names: Vec<String>,
    values: Vec<String>,
}

impl Hidden {
    pub(super) fn new(spec: &Spec, segment: Option<&Segment>, home: Option<&Path>) -> Hidden {
        let held_out: Vec<_> = spec.held_out().collect();
        let mut values: Vec<String> = held_out.iter().map(|scale| scale.value.clone()).collect();
        values.extend(held_out.iter().flat_map(|scale| {
            let path = scale.values.iter();
            path.flat_map(|path| [path.clone(), values::expanded(path, home).to_string_lossy().into_owned()])
        }));
        values.extend(segment.into_iter().flat_map(Segment::all_drawn).map(str::to_owned));
        values.retain(|value| !value.is_empty());
        Hidden { names: held_out.into_iter().map(|scale| scale.name).collect(), values }
    }

    /// A reason that says nothing of it. What was judged before a confirmation cannot have seen it.
    pub(super) fn without<'r>(&self, judgement: &'r Judgement) -> &'r str {
        let reason = judgement.reason.as_str();
        let names_one = self.names.iter().any(|name| contains_word(reason, name));
        // Figures of other scales may have the same digits as a short value; those of a confirmation may be it.
        let is_after = judgement.confirmed.is_some();
        let shows_one = self.values.iter().any(|value| {
            if value.chars().count() < LONG {
                is_after && contains_word(reason, value)
            } else {
                reason.contains(value.as_str())
            }
        });
        if names_one && is_after || shows_one {
            GENERIC
        } else {
            reason
        }
    }

    pub(super) fn is_scale(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

/// Whether a text holds another one that is not a part of a longer word or number.
fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}
