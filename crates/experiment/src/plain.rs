//! Text from programs, as it may be shown: no control characters, no sequences that steer a terminal, nothing that turns
//! the direction of writing.

/// A text of which only what can be seen is left, with its lines and tabs.
pub(crate) fn text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => plain.push(c),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => plain.push('\n'),
            '\u{1b}' | '\u{9b}' => skip_sequence(c, &mut chars),
            _ if !is_hidden(c) => plain.push(c),
            _ => {}
        }
    }
    plain
}

/// Whether a character is not seen, or changes how others are.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// After an escape, up to the end of what it begins.
fn skip_sequence(begin: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let kind = if begin == '\u{9b}' { Some('[') } else { chars.next_if(|c| !c.is_control()) };
    match kind {
        // Parameters, and one letter.
        Some('[') => while chars.next_if(|c| (' '..='?').contains(c)).is_some() {},
        // A text for the terminal, up to a bell or an escape and a backslash. One without end takes its line.
        Some(']' | 'P' | '^' | '_' | 'X') => {
            while let Some(c) = chars.next_if(|c| *c != '\n') {
                if c == '\u{7}' {
                    return;
                }
                if c == '\u{1b}' {
                    chars.next_if(|c| *c == '\\');
                    return;
                }
            }
            return;
        }
        Some(c) if (' '..='/').contains(&c) => {}
        _ => return,
    }
    chars.next_if(|c| ('@'..='~').contains(c) || c.is_ascii_alphanumeric());
}

/// The end of a text, of so many bytes at most, from the beginning of a line on where there is one.
pub(crate) fn end(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut from = text.len() - bytes;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let tail = &text[from..];
    tail.split_once('\n').map_or(tail, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::{end, text};

    #[test]
    fn nothing_but_what_is_seen_is_left() {
        for (given, left) in [
            ("a\tb\nc\r\nd", "a\tb\nc\nd"),
            ("10 %\r20 %", "10 %\n20 %"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{9b}2Jgone", "gone"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]no end\nnext", "\nnext"),
            ("\u{1b}(Bset", "set"),
            ("\u{1b}cfull", "full"),
            ("\u{202e}right\u{2069}", "right"),
            ("\u{0}\u{8}\u{7f}x\u{1b}", "x"),
        ] {
            assert_eq!(text(given), left, "{given:?}");
        }
        assert_eq!(end("one\ntwo\nthree", 9), "three");
        assert_eq!(end("short", 9), "short");
        assert_eq!(end("\u{e4}\u{e4}\u{e4}", 3), "\u{e4}");
    }
}
