//! A line as words, quoted as in a POSIX shell, and the file behind `<` that feeds its command.

use crate::failure::Failure;

/// What a line looks like at its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline {
    /// Where its last word begins; its length if that is still to come.
    pub(super) word: usize,
    /// The quotes that are open.
    pub(super) open: Option<char>,
    /// Where the first `<` stands that is not quoted.
    pub(super) input: Option<usize>,
}

/// Looks at the quotes of a line.
pub(super) fn outline(text: &str) -> Outline {
    let mut outline = Outline { word: text.len(), open: None, input: None };
    let (mut in_word, mut is_escaped, mut in_comment) = (false, false, false);
    for (at, letter) in text.char_indices() {
        if in_comment {
            in_comment = letter != '\n';
            continue;
        }
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match (outline.open, letter) {
            (Some(open), _) if open == letter => outline.open = None,
            (Some('\''), _) => {}
            (_, '\\') => is_escaped = true,
            (Some(_), _) => {}
            (None, ' ' | '\t' | '\n') => {
                in_word = false;
                continue;
            }
            (None, '#') if !in_word => {
                in_comment = true;
                continue;
            }
            (None, '\'' | '"') => outline.open = Some(letter),
            (None, '<') => {
                outline.input.get_or_insert(at);
                in_word = false;
                continue;
            }
            (None, _) => {}
        }
        if !in_word {
            outline.word = at;
            in_word = true;
        }
    }
    if !in_word {
        outline.word = text.len();
    }
    outline
}

/// The words of a text.
pub(super) fn words(text: &str) -> Result<Vec<String>, Failure> {
    let unclosed = || {
        Failure::Usage(
            "the line ends within quotes, or with a backslash; close them, or quote them with '...'"
                .to_owned(),
        )
    };
    shlex::split(text).ok_or_else(unclosed)
}

/// The words of a line, and the file that feeds its command.
pub(super) fn split(text: &str) -> Result<(Vec<String>, Option<String>), Failure> {
    let Some(at) = outline(text).input else { return Ok((words(text)?, None)) };
    let mut files = words(&text[at + 1..])?;
    match (files.pop(), files.is_empty()) {
        (Some(file), true) if outline(&text[at + 1..]).input.is_none() => {
            Ok((words(&text[..at])?, Some(file)))
        }
        _ => Err(Failure::Usage(
            "one file stands behind <, at the end of the line; quote a < that is meant as such: '<'"
                .to_owned(),
        )),
    }
}

/// A word that is still being written, without its quotes.
pub(super) fn unquoted(word: &str, open: Option<char>) -> String {
    let mut closed = word.to_owned();
    closed.extend(open);
    // A backslash at the end quotes what is not there yet.
    let parts = shlex::split(&closed).or_else(|| shlex::split(word.trim_end_matches('\\')));
    parts.and_then(|parts| parts.into_iter().next()).unwrap_or_default()
}
