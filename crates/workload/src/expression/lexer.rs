//! The words of an expression.

use crate::error::Fault;

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Int(i64),
    /// 9223372036854775808, which only fits when it is negated.
    TooLarge,
    Double(f64),
    Variable(String),
    Word(String),
    Operator(String),
    End,
}

impl Token {
    /// As it is told.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::TooLarge => "9223372036854775808".to_owned(),
            Self::Double(number) => number.to_string(),
            Self::Variable(name) => format!(":{name}"),
            Self::Word(text) | Self::Operator(text) => text.clone(),
            Self::End => String::new(),
        }
    }
}

pub(super) struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    next: Token,
    negated: bool,
}

/// What a variable's name consists of.
pub(crate) fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, line: usize) -> Result<Self, Fault> {
        let mut lexer = Self { rest: text, line, next: Token::End, negated: false };
        lexer.next()?;
        Ok(lexer)
    }

    pub(super) fn fault(&self, word: &str, why: &str) -> Fault {
        Fault::new(self.line, word, why)
    }

    pub(super) fn peek(&self) -> Token {
        self.next.clone()
    }

    /// A minus stands before what is too large.
    pub(super) fn negate(&mut self) {
        self.negated = true;
    }

    pub(super) fn was_negated(&mut self) -> bool {
        std::mem::take(&mut self.negated)
    }

    pub(super) fn next(&mut self) -> Result<Token, Fault> {
        let next = self.read()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn read(&mut self) -> Result<Token, Fault> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        let run =
            |text: &str, is_of: &dyn Fn(char) -> bool| text.find(|c: char| !is_of(c)).unwrap_or(text.len());
        if first.is_ascii_digit()
            || (first == '.' && self.rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            return self.number();
        }
        if first == ':' {
            let length = run(&self.rest[1..], &is_of_name);
            if length == 0 {
                return Err(self.fault(":", "a variable's name is missing after it"));
            }
            return Ok(Token::Variable(self.take(1 + length)[1..].to_owned()));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let length = run(self.rest, &|c| c.is_ascii_alphanumeric() || c == '_');
            return Ok(Token::Word(self.take(length).to_owned()));
        }
        for two in ["<=", ">=", "<>", "!=", "<<", ">>"] {
            if self.rest.starts_with(two) {
                return Ok(Token::Operator(self.take(2).to_owned()));
            }
        }
        if "()+-*/%<>=|&#~,".contains(first) {
            return Ok(Token::Operator(self.take(1).to_owned()));
        }
        let word: String = self.rest.chars().take_while(|c| !c.is_whitespace()).collect();
        Err(self.fault(&word, "it is neither a number, a variable, a function nor an operator"))
    }

    fn number(&mut self) -> Result<Token, Fault> {
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut length = digits(self.rest);
        let mut is_double = false;
        if self.rest[length..].starts_with('.') {
            is_double = true;
            length += 1 + digits(&self.rest[length + 1..]);
        }
        let exponent = &self.rest[length..];
        if exponent.starts_with(['e', 'E']) {
            let sign = usize::from(exponent[1..].starts_with(['+', '-']));
            let more = digits(&exponent[1 + sign..]);
            if more > 0 {
                is_double = true;
                length += 1 + sign + more;
            }
        }
        let text = self.take(length);
        if self.rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Err(self.fault(text, "a number ends before a letter"));
        }
        if is_double {
            let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
            return number.map(Token::Double).ok_or_else(|| self.fault(text, "it is too large"));
        }
        match text.parse() {
            Ok(number) => Ok(Token::Int(number)),
            Err(_) if text == "9223372036854775808" => Ok(Token::TooLarge),
            Err(_) => Err(self.fault(text, "it does not fit into a bigint")),
        }
    }
}
