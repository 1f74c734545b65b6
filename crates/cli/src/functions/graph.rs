//! A function as it is written on the command line: SQL, an expression of functions and operators, or an envelope.

use super::handle::Session;
use crate::failure::Failure;
use std::io::Read;

/// The longest text that is read from the standard input.
const TEXT_MAX: u64 = 64 << 20;
/// Words that statements begin with and expressions do not.
const STATEMENTS: &str = " select with insert update delete merge values table call do create alter drop truncate \
    grant revoke refresh copy vacuum analyze reindex cluster comment notify listen lock set reset show explain \
    execute import security reassign checkpoint load ";
/// What makes an expression.
const SIGNS: [&str; 6] = ["~>", "|=>", "?>", "!>", "@>", "df."];

/// Reads the text from the standard input if it is `-`.
pub(crate) fn text(written: String) -> Result<String, Failure> {
    if written != "-" {
        return Ok(written);
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().take(TEXT_MAX).read_to_string(&mut text);
    read.map_err(Failure::io("read a function from", "the standard input".as_ref()))?;
    Ok(text)
}

/// Whether a text is an expression that the server has to evaluate. A statement may mention an operator as well, and
/// an expression may be two quoted texts with `&` between them.
pub(crate) fn is_expression(text: &str) -> bool {
    let text = text.trim_start();
    if text.starts_with('{') {
        return false;
    }
    if text.starts_with(['\'', '$']) {
        return true;
    }
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let word = format!(" {} ", text[..end].to_ascii_lowercase());
    let is_statement = end > 0 && STATEMENTS.contains(&word);
    !is_statement && SIGNS.iter().any(|sign| text.contains(sign))
}

/// What `df.start` and `df.explain` take: an expression is evaluated, with the rights of the role that is connected.
pub(crate) async fn evaluated(session: &Session<'_>, text: String) -> Result<String, Failure> {
    if !is_expression(&text) {
        return Ok(text);
    }
    // Where pg_catalog was not open to them, the operators are in df.
    let path =
        "SELECT set_config('search_path', concat_ws(', ', nullif(current_setting('search_path'), ''), \
        'df'), false)";
    session.row(path, &[]).await?;
    let expression = text.trim_end().trim_end_matches(';');
    let row = session.row(&format!("SELECT ({expression}\n)::text"), &[]).await.map_err(|failure| {
        Failure::Other(format!(
            "the expression cannot be evaluated: {failure}; in a shell it stands in double quotes: \
             \"'SELECT 1' ~> 'SELECT 2'\""
        ))
    })?;
    row.get::<_, Option<String>>(0)
        .ok_or_else(|| Failure::Other(format!("the expression is NULL, not a function: {expression}")))
}

#[cfg(test)]
#[path = "../../tests/unit/written_functions.rs"]
mod tests;
