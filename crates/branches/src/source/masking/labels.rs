//! The security labels of PostgreSQL Anonymizer, read as rules.
//!
//! Source: the documentation of PostgreSQL Anonymizer, "Declare masking rules". Labels are rows of the catalogue, so they
//! are there whether or not that extension is installed here.

use crate::model::Mask;

/// The provider of its labels.
pub(super) const PROVIDER: &str = "anon";

/// The rule that a label of a column is. `None` for one that has no rule of ours, as all have that call functions.
pub(super) fn rule(label: &str) -> Option<Mask> {
    let words: Vec<&str> = label.split_whitespace().take(3).collect();
    let begins = |wanted: &[&str]| {
        words.len() >= wanted.len()
            && words.iter().zip(wanted).all(|(word, it)| word.eq_ignore_ascii_case(it))
    };
    if begins(&["NOT", "MASKED"]) && words.len() == 2 {
        return Some(Mask::Keep);
    }
    if !begins(&["MASKED", "WITH", "VALUE"]) {
        return None;
    }
    let value = words.iter().fold(label, |rest, word| rest.trim_start().strip_prefix(word).unwrap_or(rest));
    literal(value.trim())
}

/// A constant as it is written in SQL: `NULL`, a number, `TRUE`, or a string in quotes or dollars.
fn literal(text: &str) -> Option<Mask> {
    if text.eq_ignore_ascii_case("null") {
        return Some(Mask::Null);
    }
    let is_number =
        text.parse::<f64>().is_ok() && !text.contains(|c: char| c.is_alphabetic() && c != 'e' && c != 'E');
    if is_number || ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(Mask::Constant(text.to_owned()));
    }
    if let Some(inner) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        let plain = inner.replace("''", "");
        return (!plain.contains('\'')).then(|| Mask::Constant(inner.replace("''", "'")));
    }
    let tag = text.strip_prefix('$')?.split_once('$')?.0;
    let quote = format!("${tag}$");
    let inner = text.strip_prefix(&*quote)?.strip_suffix(&*quote)?;
    (!inner.contains(&*quote)).then(|| Mask::Constant(inner.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_rule_only_if_it_says_no_more() {
        let constant = |text: &str| Some(Mask::Constant(text.to_owned()));
        for (label, expected) in [
            ("MASKED WITH VALUE NULL", Some(Mask::Null)),
            ("masked  with value  null ", Some(Mask::Null)),
            ("MASKED WITH VALUE $$CONFIDENTIAL$$", constant("CONFIDENTIAL")),
            ("MASKED WITH VALUE $a$x $$ y$a$", constant("x $$ y")),
            ("MASKED WITH VALUE 'it''s'", constant("it's")),
            ("MASKED WITH VALUE ''", constant("")),
            ("MASKED WITH VALUE -1.5", constant("-1.5")),
            ("NOT MASKED", Some(Mask::Keep)),
            ("MASKED WITH VALUE 'a' || 'b'", None),
            ("MASKED WITH VALUE $$a$$ || $$b$$", None),
            ("MASKED WITH VALUE CAST(0 AS INT)", None),
            ("MASKED WITH VALUE '", None),
            ("MASKED WITH VALUE", None),
            ("MASKED WITH VALUE nan", None),
            ("MASKED WITH FUNCTION anon.fake_last_name()", None),
            ("NOT MASKED AT ALL", None),
            ("MASKED", None),
        ] {
            assert_eq!(rule(label), expected, "{label}");
        }
    }
}
