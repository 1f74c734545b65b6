//! Lines `METRIC name=value`, as the autoresearch loops print them.

use super::{Figures, ReadError};

pub(super) fn read(text: &str, figures: &mut Figures) -> Result<(), ReadError> {
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("METRIC").filter(|rest| rest.starts_with(char::is_whitespace))
        else {
            continue;
        };
        let Some((name, value)) = rest.trim().split_once('=') else { continue };
        let one_word = !value.is_empty() && !value.contains(char::is_whitespace);
        if one_word && !name.is_empty() && name.chars().all(is_of_name) {
            figures.put(name, value.parse().ok(), value)?;
        }
    }
    Ok(())
}

/// Letters, digits and `_`, `.`, `-`, `/`, and the micro sign in both of its forms.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.-/".contains(c) || matches!(c, '\u{b5}' | '\u{3bc}')
}
