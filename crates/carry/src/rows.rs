//! Rows as bytes. The picture is in `docs/design/change-sets.md`.

use duramen_base::varint;
use duramen_changes::Row;

const OLD: u8 = 1;
const NEW: u8 = 2;

/// Appends a row.
pub(crate) fn put(row: &Row, out: &mut Vec<u8>) {
    let mut sides = 0;
    if row.old.is_some() {
        sides |= OLD;
    }
    if row.new.is_some() {
        sides |= NEW;
    }
    out.push(sides);
    for values in [&row.old, &row.new].into_iter().flatten() {
        for value in values {
            match value {
                None => varint::put(out, 0),
                Some(text) => {
                    varint::put(out, text.len() as u64 + 1);
                    out.extend_from_slice(text.as_bytes());
                }
            }
        }
    }
}

/// The row at a place, which moves behind it. `Err` says what is wrong, in words that fit after "a row".
pub(crate) fn get(bytes: &[u8], at: &mut usize, columns: usize) -> Result<Row, &'static str> {
    let sides = *bytes.get(*at).ok_or("ends too early")?;
    *at += 1;
    if sides == 0 || sides > OLD | NEW {
        return Err("is on no side");
    }
    let mut side = |bit: u8| -> Result<Option<Vec<Option<String>>>, &'static str> {
        if sides & bit == 0 {
            return Ok(None);
        }
        (0..columns).map(|_| value(bytes, at)).collect::<Result<_, _>>().map(Some)
    };
    Ok(Row { old: side(OLD)?, new: side(NEW)? })
}

fn value(bytes: &[u8], at: &mut usize) -> Result<Option<String>, &'static str> {
    let length = varint::get(bytes, at).map_err(|_| "holds a wrong length")?;
    let Some(length) = length.checked_sub(1) else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| "holds a length beyond its end")?;
    let end = at.checked_add(length).ok_or("holds a length beyond its end")?;
    let text = bytes.get(*at..end).ok_or("holds a length beyond its end")?;
    *at = end;
    let text = std::str::from_utf8(text).map_err(|_| "holds what is not text")?;
    if text.contains('\0') {
        return Err("holds a character that PostgreSQL does not have");
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{get, put};
    use duramen_changes::Row;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let some = |text: &str| Some(text.to_owned());
        let rows = [
            Row { old: Some(vec![some("1"), None, some("")]), new: None },
            Row { old: None, new: Some(vec![some("tab\t"), some("\u{fc}"), None]) },
            Row {
                old: Some(vec![None, None, None]),
                new: Some(vec![some("'"), some("\\N"), some("x".repeat(300).as_str())]),
            },
        ];
        let mut bytes = Vec::new();
        rows.iter().for_each(|row| put(row, &mut bytes));
        let mut at = 0;
        for row in &rows {
            assert_eq!(get(&bytes, &mut at, 3).as_ref(), Ok(row));
        }
        assert_eq!(at, bytes.len());
        // Truncated at any byte, it is rejected, and nothing panics.
        for end in 0..bytes.len() {
            let mut at = 0;
            while at < end {
                if get(&bytes[..end], &mut at, 3).is_err() {
                    break;
                }
            }
        }
        assert!(get(&[4], &mut 0, 0).is_err() && get(&[0], &mut 0, 0).is_err());
        assert!(get(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f], &mut 0, 1).is_err());
        assert!(get(&[1, 2, 0], &mut 0, 1).is_err(), "text must not contain a zero byte");
    }
}
