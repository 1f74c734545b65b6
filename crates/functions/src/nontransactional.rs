//! Statements that refuse to run in a transaction.

use crate::substitute::lex;

/// Whether the server would refuse the statement in a transaction block.
///
/// The first words decide, after white space and comments: `VACUUM`, `ALTER SYSTEM`, `CREATE` or `DROP` of a
/// `DATABASE`, `TABLESPACE` or `SUBSCRIPTION`, `ALTER DATABASE .. SET TABLESPACE`, indexes made, dropped or rebuilt
/// `CONCURRENTLY`, `REINDEX` of a schema or database, and `CLUSTER` of all tables.
/// (`REFRESH MATERIALIZED VIEW CONCURRENTLY` runs in a transaction.) What depends on the tables themselves, such as
/// `CLUSTER` of a partitioned one, is not known here.
///
/// ```
/// use duramen_functions::nontransactional::refuses_transactions;
/// assert!(refuses_transactions("-- tidy up\n vacuum (analyze) orders"));
/// assert!(refuses_transactions("CREATE UNIQUE INDEX CONCURRENTLY ON orders (id)"));
/// assert!(!refuses_transactions("CREATE INDEX ON orders (id)"));
/// ```
pub fn refuses_transactions(text: &str) -> bool {
    let mut words = Words { rest: text };
    let mut next = || words.next().unwrap_or_default();
    match next().as_str() {
        "vacuum" => true,
        "create" => match next().as_str() {
            "database" | "tablespace" | "subscription" => true,
            "index" => next() == "concurrently",
            "unique" => next() == "index" && next() == "concurrently",
            _ => false,
        },
        "drop" => match next().as_str() {
            "database" | "tablespace" | "subscription" => true,
            "index" => next() == "concurrently",
            _ => false,
        },
        "alter" => match next().as_str() {
            "system" => true,
            "database" => {
                next();
                next() == "set" && next() == "tablespace"
            }
            _ => false,
        },
        "reindex" => {
            let mut word = next();
            if word == "(" {
                while !matches!(word.as_str(), "" | ")") {
                    word = next();
                    if word == "concurrently" {
                        return !matches!(next().as_str(), "false" | "off" | "0");
                    }
                }
                word = next();
            }
            matches!(word.as_str(), "schema" | "database" | "system") || next() == "concurrently"
        }
        "cluster" => {
            let mut word = next();
            if word == "(" {
                while !matches!(word.as_str(), "" | ")") {
                    word = next();
                }
                word = next();
            } else if word == "verbose" {
                word = next();
            }
            matches!(word.as_str(), "" | ";")
        }
        _ => false,
    }
}

/// Whether a statement that refuses transactions acts on more than the database that it runs in: on the whole server, on
/// another database, or on another server.
///
/// ```
/// use duramen_functions::nontransactional::is_external;
/// assert!(is_external("CREATE DATABASE archive"));
/// assert!(!is_external("VACUUM orders"));
/// ```
pub fn is_external(text: &str) -> bool {
    let mut words = Words { rest: text };
    let mut next = || words.next().unwrap_or_default();
    match next().as_str() {
        "create" | "drop" => ["database", "tablespace", "subscription"].contains(&next().as_str()),
        "alter" => ["system", "database"].contains(&next().as_str()),
        _ => false,
    }
}

/// Whether parsing the statement can run nobody's code. Literals of user-defined types could, so there are none, but in
/// statements whose literals are options.
///
/// ```
/// use duramen_functions::nontransactional::is_harmless;
/// assert!(is_harmless("CREATE INDEX CONCURRENTLY ON orders (id)"));
/// assert!(is_harmless("ALTER SYSTEM SET work_mem = '8MB'"));
/// assert!(!is_harmless("CREATE INDEX CONCURRENTLY ON orders (id) WHERE kind = 'a'"));
/// ```
pub fn is_harmless(text: &str) -> bool {
    let mut words = Words { rest: text };
    let mut next = || words.next().unwrap_or_default();
    let options = match next().as_str() {
        "create" | "drop" => ["database", "tablespace", "subscription"].contains(&next().as_str()),
        "alter" => next() == "system",
        _ => false,
    };
    options || !text.contains(['\'', '$'])
}

/// The words and signs of a statement: words in lower case, quoted names as they are with their quotes.
struct Words<'a> {
    rest: &'a str,
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let text = &self.rest[lex::blank(self.rest)..];
        let first = text.chars().next()?;
        let len = match first {
            '"' | '\'' => quoted_len(text, first),
            _ => match text.bytes().position(|byte| !(lex::is_word(byte) || byte == b'$')) {
                Some(0) => first.len_utf8(),
                end => end.unwrap_or(text.len()),
            },
        };
        self.rest = &text[len..];
        Some(text[..len].to_ascii_lowercase())
    }
}

/// The length of the quoted name or literal that `text` begins with.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(end) = text[at..].find(quote) {
        at += end + 1;
        if !text[at..].starts_with(quote) {
            return at;
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests;
