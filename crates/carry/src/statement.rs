//! Which statements a change set may hold.
//!
//! They are texts from outside and run with the rights of whoever applies them. What is looked at here is only that each
//! of them is one that changes definitions, so that none ends the transaction in which all of it is done.

/// The words with which statements that change definitions begin.
const VERBS: [&str; 7] = ["alter", "comment", "create", "drop", "grant", "refresh", "revoke"];

/// Why a statement is not run; `None` if nothing speaks against it.
pub(crate) fn refused(sql: &str) -> Option<&'static str> {
    if sql.contains('\0') {
        return Some("it holds a character that PostgreSQL does not have");
    }
    let words = words(sql, 4);
    let Some(first) = words.first() else { return Some("it is empty") };
    if !VERBS.contains(&first.as_str()) {
        return Some(
            "it does not change definitions: ALTER, COMMENT, CREATE, DROP, GRANT, REFRESH and REVOKE do",
        );
    }
    let second = words.get(1).map_or("", String::as_str);
    match (first.as_str(), second) {
        ("alter", "system") => Some("ALTER SYSTEM is about the whole server"),
        ("create" | "drop", "database" | "tablespace" | "subscription") => {
            Some("it cannot be done in a transaction")
        }
        _ if words.iter().skip(1).any(|word| word == "concurrently") => {
            Some("CONCURRENTLY cannot be done in a transaction; run it afterwards, by itself")
        }
        _ => None,
    }
}

/// Whether a statement, as comparisons of definitions write it, only says that a column has a value in every row.
pub(crate) fn sets_not_null(sql: &str) -> bool {
    sql.starts_with("alter table ") && sql.ends_with(" set not null")
}

/// The first words of a statement in lower case, without comments.
fn words(sql: &str, most: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = sql;
    while words.len() < most {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if rest.starts_with("/*") {
            rest = behind_comment(rest);
        } else {
            let end = rest
                .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                .unwrap_or(rest.len());
            if end == 0 {
                break;
            }
            words.push(rest[..end].to_ascii_lowercase());
            rest = &rest[end..];
        }
    }
    words
}

/// What comes after a comment, which may hold others.
fn behind_comment(text: &str) -> &str {
    let (mut depth, mut at) = (0_u32, 0);
    while let Some(rest) = text.get(at..) {
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return &text[at..];
            }
        } else {
            match rest.chars().next() {
                Some(letter) => at += letter.len_utf8(),
                None => break,
            }
        }
    }
    ""
}

/// Whether a statement makes or changes the table of applied change sets, which no change set carries.
#[must_use]
pub fn is_of_registry(sql: &str) -> bool {
    const BEGINS: [&str; 9] = [
        "create table duramen.applied_changes",
        "alter table duramen.applied_changes",
        "alter table only duramen.applied_changes",
        "comment on table duramen.applied_changes",
        "comment on schema duramen",
        "create schema duramen",
        "alter schema duramen",
        "drop schema duramen",
        "drop table duramen.applied_changes",
    ];
    let lower = sql.to_ascii_lowercase();
    let is_grant = (lower.starts_with("grant ") || lower.starts_with("revoke "))
        && (lower.contains(" on schema duramen ") || lower.contains(" on table duramen.applied_changes "));
    let ends_there = |begin: &&str| {
        lower.strip_prefix(begin).is_some_and(|rest| {
            !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
        })
    };
    is_grant || BEGINS.iter().any(ends_there)
}

#[cfg(test)]
mod tests {
    use super::{is_of_registry, refused};

    #[test]
    fn c6_what_would_end_the_transaction_is_refused() {
        for sql in [
            "commit",
            " /* a /* nested */ one */ COMMIT",
            "-- a line\nrollback",
            "begin",
            "do $$ begin end $$",
            "set search_path = x",
            "update t set a = 1",
            "select 1",
            "vacuum",
            "call p()",
            "copy t to program 'x'",
            "",
            "/* never ends",
            "alter system set x = 1",
            "create database d",
            "CREATE UNIQUE INDEX CONCURRENTLY i ON t (a)",
            "drop index concurrently i",
            "create table \0",
        ] {
            assert!(refused(sql).is_some(), "{sql:?}");
        }
        for sql in [
            "create table concurrently.t (a int)",
            "alter table public.t add column commit int",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1; select 2'",
            "comment on table t is 'commit'",
            "grant select on t to r",
            "refresh materialized view v",
        ] {
            let is_schema_of_that_name = sql.contains("concurrently.");
            assert_eq!(refused(sql).is_some(), is_schema_of_that_name, "{sql:?}");
        }
    }

    #[test]
    fn the_table_of_applied_sets_is_known() {
        for sql in [
            "create schema duramen",
            "create table duramen.applied_changes (a int)",
            "grant usage on schema duramen to r",
        ] {
            assert!(is_of_registry(sql), "{sql}");
        }
        for sql in [
            "create schema duramen2",
            "create table duramen.other (a int)",
            "create function f() as 'create schema duramen'",
        ] {
            assert!(!is_of_registry(sql), "{sql}");
        }
    }
}
