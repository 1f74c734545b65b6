//! Rows as models read them: few, short, and with the types of their columns (M3).

use duramen_api::model::StatementReply;
use serde_json::{value::RawValue, Value};

/// Bytes of rows in a reply; what does not fit is left out, and that is said.
const BYTES_MAX: usize = 32 << 10;
/// Characters of a value in a reply; a longer one is cut, and its length is said.
const CELL_MAX: usize = 1000;
/// Columns in a reply.
const COLUMNS_MAX: usize = 200;

/// A result as one JSON object: `columns` (`"name type"`), `rows`, and what was left out. A statement without columns gives its
/// command tag alone.
///
/// # Errors
/// When the rows are not what the daemon sends.
pub(super) fn text(result: &StatementReply) -> Result<String, String> {
    if result.columns.is_empty() {
        return Ok(format!("{{\"command\":{}}}", Value::from(result.command.as_str())));
    }
    let rows: Vec<Vec<&RawValue>> = serde_json::from_str(result.rows.get())
        .map_err(|error| format!("the rows cannot be read: {error}"))?;
    let shown = result.columns.iter().take(COLUMNS_MAX);
    let columns: Vec<String> = shown.map(|column| format!("{} {}", column.name, column.type_name)).collect();
    let columns_shown = columns.len();
    let mut text = format!("{{\"columns\":{},\"rows\":[", Value::from(columns));
    let (mut count, mut is_cut) = (0, false);
    // However many there are, one row fits.
    let cell_max = CELL_MAX.min(BYTES_MAX / columns_shown.max(1));
    let mut line = String::new();
    for row in &rows {
        line.clear();
        for (index, cell) in row.iter().take(COLUMNS_MAX).enumerate() {
            line.push(if index == 0 { '[' } else { ',' });
            is_cut |= push_cell(cell.get(), cell_max, &mut line);
        }
        line.push(']');
        if count > 0 && text.len() + line.len() > BYTES_MAX {
            break;
        }
        if count > 0 {
            text.push(',');
        }
        text.push_str(&line);
        count += 1;
    }
    text.push_str("],\"row_count\":");
    text.push_str(&count.to_string());
    let mut notes = Vec::new();
    if result.truncated && rows.is_empty() {
        notes.push("not even one row fits (16 MiB): take substr(), or the part of a document that you need");
    } else if result.truncated || count < rows.len() {
        notes.push("there are more rows: narrow the statement, aggregate, or ask for the next ones with LIMIT and OFFSET");
    }
    if is_cut {
        notes.push("long values are cut: take substr(), or the part of a document that you need");
    }
    if result.columns.len() > COLUMNS_MAX {
        notes.push("there are more columns: name those that you need");
    }
    if !notes.is_empty() {
        text.push_str(",\"truncated\":");
        text.push_str(&Value::from(notes.join("; ")).to_string());
    }
    text.push('}');
    Ok(text)
}

/// Appends a value; says whether it was cut.
fn push_cell(json: &str, cell_max: usize, line: &mut String) -> bool {
    if json.len() <= cell_max {
        line.push_str(json);
        return false;
    }
    let whole = match serde_json::from_str(json) {
        Ok(Value::String(text)) => text,
        _ => json.to_owned(),
    };
    let Some((end, _)) = whole.char_indices().nth(cell_max) else {
        line.push_str(json);
        return false;
    };
    let cut = format!("{}... ({} characters)", &whole[..end], whole.chars().count());
    line.push_str(&Value::from(cut).to_string());
    true
}

#[cfg(test)]
#[path = "../tests/unit/short_rows.rs"]
mod tests;
