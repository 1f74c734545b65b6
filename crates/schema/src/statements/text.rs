//! Lists in properties. Their items are names and literals that are quoted, so what stands between quotes never divides
//! them, whatever the name holds.

/// The lines of a text.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    split(text, '\n')
}

/// The items of a list with commas.
pub(crate) fn items(text: &str) -> Vec<&str> {
    split(text, ',').into_iter().map(str::trim).collect()
}

fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut items, mut begin, mut inside) = (Vec::new(), 0, None);
    // A quote within quotes is written twice, so it ends them and begins them again.
    for (at, letter) in text.char_indices() {
        match (inside, letter) {
            (None, '\'' | '"') => inside = Some(letter),
            (Some(quote), letter) if quote == letter => inside = None,
            (None, letter) if letter == separator => {
                items.push(&text[begin..at]);
                begin = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    if begin < text.len() {
        items.push(&text[begin..]);
    }
    items
}

/// The first name of an item, quoted as it stands, and what follows it.
pub(crate) fn first_name(item: &str) -> (&str, &str) {
    let end = end_of_name(item);
    (&item[..end], item[end..].trim_start())
}

/// The schema of a qualified name, quoted as it stands.
pub(crate) fn schema(ident: &str) -> &str {
    &ident[..end_of_name(ident)]
}

fn end_of_name(text: &str) -> usize {
    let mut inside = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => inside = !inside,
            '.' | ' ' if !inside => return at,
            _ => {}
        }
    }
    text.len()
}
