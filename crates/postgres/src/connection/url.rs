//! Connection strings as they may be shown.

/// A connection string, or any text with one in it, as it may be shown: without passwords.
///
/// ```
/// use duramen_postgres::connection::without_password;
/// assert_eq!(without_password("--url=postgres://me:secret@db/shop"), "--url=postgres://me@db/shop");
/// assert_eq!(without_password("host=db password='a secret' user=me"), "host=db password=*** user=me");
/// ```
#[must_use]
pub fn without_password(text: &str) -> String {
    let (mut masked, is_url) = match (text.find("://"), text.rfind('@')) {
        (Some(start), Some(end)) if start + 3 < end => {
            let user = text[start + 3..end].split(':').next().unwrap_or_default();
            (format!("{}://{user}@{}", &text[..start], &text[end + 1..]), true)
        }
        (scheme, _) => (text.to_owned(), scheme.is_some()),
    };
    let mut from = 0;
    while let Some(found) = masked[from..].find("password") {
        let name_end = from + found + "password".len();
        let rest = masked[name_end..].trim_start();
        from = name_end;
        if let Some(value) = rest.strip_prefix('=') {
            let begin = masked.len() - value.len();
            let end = begin + length_of_value(value, is_url);
            masked.replace_range(begin..end, "***");
            from = begin + "***".len();
        }
    }
    masked
}

/// How long the value at the beginning of a text is: up to the end of its quotes, of the word, or of a URL's parameter.
fn length_of_value(text: &str, is_url: bool) -> usize {
    let blanks = text.len() - text.trim_start().len();
    let value = &text[blanks..];
    let quoted = value.starts_with('\'');
    let mut escaped = false;
    for (at, c) in value.char_indices().skip(usize::from(quoted)) {
        let ends = match c {
            _ if escaped => false,
            '\'' if quoted => return blanks + at + 1,
            '&' => is_url,
            c => !quoted && c.is_whitespace(),
        };
        if ends {
            return blanks + at;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}
