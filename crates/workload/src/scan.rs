//! Text of scripts, cut into statements and commands. What stands in quotes and comments is told from what does not.

use crate::error::Fault;
use crate::expression::lexer::is_of_name;

/// No file is longer.
pub(crate) const LONGEST_FILE: usize = 4 << 20;
/// No body of a function that SQL has written out has more words.
const LONGEST_BODY: usize = 10_000;

/// A statement, or several that are sent at once, or a backslash command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Sql(Sql),
    /// `\word rest`.
    Meta {
        line: usize,
        word: String,
        rest: String,
    },
}

/// SQL that is sent at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sql {
    /// Where it begins.
    pub(crate) line: usize,
    /// What is sent, in parts.
    pub(crate) parts: Vec<Part>,
    /// The words outside of quotes and comments, in lower case, of each of the statements in it.
    pub(crate) statements: Vec<Vec<Word>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    /// A variable, whether it stands outside of quotes and comments, and its line.
    Variable {
        name: String,
        is_bare: bool,
        line: usize,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Word {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Sql {
    fn is_empty(&self) -> bool {
        self.statements.iter().all(Vec::is_empty)
            && !self.parts.iter().any(|part| matches!(part, Part::Variable { is_bare: true, .. }))
    }

    fn push(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    fn word(&mut self, line: usize, text: &str) {
        if self.statements.is_empty() {
            self.statements.push(Vec::new());
        }
        if let Some(statement) = self.statements.last_mut() {
            statement.push(Word { line, text: text.to_ascii_lowercase() });
        }
    }

    /// Whether a semicolon is within the body of a function that SQL has written out (BEGIN ATOMIC).
    fn is_in_body(&self) -> bool {
        let Some(words) = self.statements.last() else { return false };
        let text = |word: &Word| word.text.clone();
        let beginning: Vec<String> = words.iter().take(4).map(text).collect();
        let makes = beginning.first().is_some_and(|first| first == "create")
            && beginning.iter().any(|word| word == "function" || word == "procedure");
        if !makes || words.len() > LONGEST_BODY {
            return false;
        }
        let mut depth = 0_usize;
        for (at, word) in words.iter().enumerate() {
            let begins = word.text == "begin" && words.get(at + 1).is_some_and(|next| next.text == "atomic");
            match word.text.as_str() {
                _ if begins => depth += 1,
                "case" if depth > 0 => depth += 1,
                "end" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        depth > 0
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    sql: Sql,
    parentheses: usize,
    items: Vec<Item>,
}

/// Cuts a text.
pub(crate) fn items(text: &str) -> Result<Vec<Item>, Fault> {
    if text.len() > LONGEST_FILE {
        return Err(Fault::new(1, "", format!("the file is longer than {LONGEST_FILE} bytes")));
    }
    if let Some(at) = text.find('\0') {
        let line = 1 + text[..at].matches('\n').count();
        return Err(Fault::new(line, "\0", "a script has no zero bytes"));
    }
    // The mark of byte order that editors of other systems put before.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut scanner =
        Scanner { text, at: 0, line: 1, sql: Sql::default(), parentheses: 0, items: Vec::new() };
    scanner.scan()?;
    Ok(scanner.items)
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes some bytes as a part of the statement.
    fn keep(&mut self, length: usize) {
        let taken = &self.rest()[..length];
        if self.sql.parts.is_empty() && self.sql.statements.is_empty() {
            self.sql.line = self.line;
        }
        self.sql.push(taken);
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        self.line += self.rest()[..length].matches('\n').count();
        self.at += length;
    }

    /// Takes quoted text, in which only variables are looked for.
    fn keep_quoted(&mut self, length: usize) {
        let end = self.at + length;
        while self.at < end {
            let rest = &self.text[self.at..end];
            match rest.find(':') {
                None => self.keep(rest.len()),
                Some(0) => self.colon(end, false),
                Some(before) => self.keep(before),
            }
        }
    }

    /// A colon: of a variable, a cast, or itself.
    fn colon(&mut self, end: usize, is_bare: bool) {
        let rest = &self.text[self.at + 1..end];
        let length = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
        if length > 0 {
            if self.sql.parts.is_empty() {
                self.sql.line = self.line;
            }
            let name = rest[..length].to_owned();
            self.sql.parts.push(Part::Variable { name, is_bare, line: self.line });
            self.skip(1 + length);
            return;
        }
        let colons = self.text[self.at..end].find(|c| c != ':').unwrap_or(end - self.at);
        self.keep(colons);
    }

    fn end_statement(&mut self) {
        let sql = std::mem::take(&mut self.sql);
        self.parentheses = 0;
        if !sql.is_empty() {
            self.items.push(Item::Sql(sql));
        }
    }

    fn scan(&mut self) -> Result<(), Fault> {
        while let Some(first) = self.rest().chars().next() {
            let rest = self.rest();
            match first {
                '-' if rest.starts_with("--") => {
                    let length = rest.find('\n').unwrap_or(rest.len());
                    self.comment(length);
                }
                '/' if rest.starts_with("/*") => {
                    let length = self.comment_length()?;
                    self.comment(length);
                }
                '\'' => {
                    let escapes = self.follows_letter(&['e', 'E']);
                    let length = self.quoted('\'', escapes)?;
                    self.sql_word("'");
                    self.keep_quoted(length);
                }
                '"' => {
                    let length = self.quoted('"', false)?;
                    self.sql_word("\"");
                    self.keep_quoted(length);
                }
                '$' => match self.dollar()? {
                    Some(length) => {
                        self.sql_word("'");
                        self.keep_quoted(length);
                    }
                    None => self.keep(1),
                },
                '\\' if rest.starts_with("\\;") => {
                    self.skip(1);
                    self.keep(1);
                    self.sql.statements.push(Vec::new());
                }
                '\\' if rest.starts_with("\\:") => {
                    self.skip(1);
                    self.keep(1);
                }
                '\\' => {
                    self.end_statement();
                    self.meta()?;
                }
                ';' if self.parentheses == 0 && !self.sql.is_in_body() => {
                    self.skip(1);
                    self.end_statement();
                }
                ':' => self.colon(self.text.len(), true),
                '(' | ')' => {
                    self.parentheses = match first {
                        '(' => self.parentheses + 1,
                        _ => self.parentheses.saturating_sub(1),
                    };
                    self.sql_word(&first.to_string());
                    self.keep(1);
                }
                first if first.is_alphabetic() || first == '_' => {
                    let is_of = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
                    let length = rest.find(|c: char| !is_of(c)).unwrap_or(rest.len());
                    self.sql_word(&rest[..length]);
                    self.keep(length);
                }
                first if first.is_whitespace() && self.sql.parts.is_empty() => self.skip(first.len_utf8()),
                first if first.is_whitespace() => self.keep(first.len_utf8()),
                first => {
                    let length = match first.is_ascii_digit() {
                        true => rest.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(rest.len()),
                        false => first.len_utf8(),
                    };
                    self.sql_word(&rest[..length]);
                    self.keep(length);
                }
            }
        }
        self.end_statement();
        Ok(())
    }

    fn sql_word(&mut self, text: &str) {
        if self.sql.parts.is_empty() {
            self.sql.line = self.line;
        }
        let line = self.line;
        self.sql.word(line, text);
    }

    /// A comment: a part of a statement if it has begun.
    fn comment(&mut self, length: usize) {
        match self.sql.parts.is_empty() {
            true => self.skip(length),
            false => self.keep_quoted(length),
        }
    }

    fn comment_length(&self) -> Result<usize, Fault> {
        let (rest, mut depth, mut at) = (self.rest().as_bytes(), 0_usize, 0);
        while at < rest.len() {
            match rest.get(at..at + 2) {
                Some(b"/*") => (depth, at) = (depth + 1, at + 2),
                Some(b"*/") => (depth, at) = (depth - 1, at + 2),
                _ => at += 1,
            }
            if depth == 0 {
                return Ok(at);
            }
        }
        Err(Fault::new(self.line, "/*", "the comment has no end"))
    }

    /// Whether what stands before is one of these letters, as a word of its own.
    fn follows_letter(&self, letters: &[char]) -> bool {
        let mut before = self.text[..self.at].chars().rev();
        before.next().is_some_and(|c| letters.contains(&c))
            && !before.next().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
    }

    fn quoted(&self, quote: char, escapes: bool) -> Result<usize, Fault> {
        let mut characters = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = characters.next() {
            if escapes && c == '\\' {
                characters.next();
            } else if c == quote {
                match characters.peek() {
                    Some((_, next)) if *next == quote => {
                        characters.next();
                    }
                    _ => return Ok(at + 1),
                }
            }
        }
        Err(Fault::new(self.line, quote, "the quote has no end"))
    }

    /// The length of text in dollar quotes, if it begins here.
    fn dollar(&self) -> Result<Option<usize>, Fault> {
        let rest = self.rest();
        let Some(length) = rest[1..].find('$') else { return Ok(None) };
        let tag = &rest[..length + 2];
        let name = &tag[1..tag.len() - 1];
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !is_name {
            return Ok(None);
        }
        match rest[tag.len()..].find(tag) {
            Some(end) => Ok(Some(tag.len() + end + tag.len())),
            None => Err(Fault::new(self.line, tag, "the quote has no end")),
        }
    }

    /// A backslash command, to the end of its line; a backslash at the end of a line continues it.
    fn meta(&mut self) -> Result<(), Fault> {
        let (line, mut text) = (self.line, String::new());
        self.skip(1);
        loop {
            let rest = self.rest();
            let length = rest.find('\n').unwrap_or(rest.len());
            let part = rest[..length].trim_end_matches('\r');
            let continued = part.strip_suffix('\\');
            text.push_str(continued.unwrap_or(part));
            self.skip((length + 1).min(rest.len()));
            match continued {
                Some(_) => text.push(' '),
                None => break,
            }
        }
        let length = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(length);
        if word.is_empty() {
            return Err(Fault::new(line, "\\", "a command is missing after it"));
        }
        let (word, rest) = (word.to_owned(), rest.trim().to_owned());
        self.items.push(Item::Meta { line, word, rest });
        Ok(())
    }
}
