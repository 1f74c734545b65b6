//! Expressions of scripts: what `\set`, `\if` and the parameters of a workload compute. The operators, their precedence
//! and the functions are those that pgbench documents.

mod eval;
pub(crate) mod lexer;

use crate::error::Fault;
use crate::value::Value;
use lexer::{Lexer, Token};

pub(crate) use eval::Scope;

/// Expressions are nested no deeper.
const DEEPEST: u32 = 60;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Constant(Value),
    Variable(String),
    Call(Function, Vec<Expression>),
    /// Conditions with what follows from them, and what else.
    Case(Vec<(Expression, Expression)>, Box<Expression>),
}

/// What can be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Or,
    And,
    Not,
    /// `IS NULL`, and what else can be asked with `IS`: the second argument is the constant.
    Is,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    BitOr,
    BitXor,
    BitAnd,
    BitNot,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Negate,
    Abs,
    Debug,
    Double,
    Exp,
    Fnv1a,
    Greatest,
    Hash,
    Int,
    Least,
    Ln,
    Mod,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// The functions by name, with the least and the greatest number of their arguments.
const NAMED: &[(&str, Function, usize, usize)] = &[
    ("abs", Function::Abs, 1, 1),
    ("debug", Function::Debug, 1, 1),
    ("double", Function::Double, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("greatest", Function::Greatest, 1, 64),
    ("hash", Function::Hash, 1, 2),
    ("hash_fnv1a", Function::Fnv1a, 1, 2),
    ("hash_murmur2", Function::Hash, 1, 2),
    ("int", Function::Int, 1, 1),
    ("least", Function::Least, 1, 64),
    ("ln", Function::Ln, 1, 1),
    ("mod", Function::Mod, 2, 2),
    ("permute", Function::Permute, 2, 3),
    ("pi", Function::Pi, 0, 0),
    ("pow", Function::Power, 2, 2),
    ("power", Function::Power, 2, 2),
    ("random", Function::Random, 2, 2),
    ("random_exponential", Function::RandomExponential, 3, 3),
    ("random_gaussian", Function::RandomGaussian, 3, 3),
    ("random_zipfian", Function::RandomZipfian, 3, 3),
    ("sqrt", Function::Sqrt, 1, 1),
];

/// How strongly an operator of two sides binds.
fn binding(operator: &str) -> Option<(u8, Function)> {
    Some(match operator {
        "or" => (1, Function::Or),
        "and" => (2, Function::And),
        "<" | ">" => (5, Function::Less),
        "<=" | ">=" => (5, Function::LessOrEqual),
        "=" => (5, Function::Equal),
        "<>" | "!=" => (5, Function::NotEqual),
        "|" => (6, Function::BitOr),
        "#" => (6, Function::BitXor),
        "&" => (6, Function::BitAnd),
        "<<" => (6, Function::ShiftLeft),
        ">>" => (6, Function::ShiftRight),
        "+" => (7, Function::Add),
        "-" => (7, Function::Subtract),
        "*" => (8, Function::Multiply),
        "/" => (8, Function::Divide),
        "%" => (8, Function::Remainder),
        _ => return None,
    })
}

/// `NOT`, and `IS`, bind so strongly.
const NOT: u8 = 3;
const IS: u8 = 4;
/// A sign, and `~`.
const UNARY: u8 = 9;

impl Expression {
    /// Reads one that begins in a line.
    pub(crate) fn parse(text: &str, line: usize) -> Result<Self, Fault> {
        let mut parser = Parser { lexer: Lexer::new(text, line)?, depth: 0 };
        let expression = parser.expression(0)?;
        match parser.lexer.peek() {
            Token::End => Ok(expression),
            other => Err(parser.lexer.fault(&other.text(), "it does not belong to the expression before it")),
        }
    }

    /// The variables that it uses.
    pub(crate) fn variables<'a>(&'a self, into: &mut Vec<&'a str>) {
        match self {
            Self::Constant(_) => {}
            Self::Variable(name) => into.push(name),
            Self::Call(_, arguments) => arguments.iter().for_each(|argument| argument.variables(into)),
            Self::Case(arms, otherwise) => {
                for (condition, result) in arms {
                    condition.variables(into);
                    result.variables(into);
                }
                otherwise.variables(into);
            }
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    depth: u32,
}

impl Parser<'_> {
    fn expression(&mut self, least: u8) -> Result<Expression, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let word = self.lexer.peek().text();
            return Err(self.lexer.fault(&word, &format!("the expression is nested deeper than {DEEPEST}")));
        }
        let mut left = self.operand()?;
        loop {
            let operator = match self.lexer.peek() {
                Token::Operator(operator) => operator,
                Token::Word(word) => word.to_ascii_lowercase(),
                _ => break,
            };
            if matches!(operator.as_str(), "is" | "isnull" | "notnull") {
                if IS < least {
                    break;
                }
                self.lexer.next()?;
                left = self.is(left, &operator)?;
                continue;
            }
            let Some((strength, function)) = binding(&operator).filter(|(strength, _)| *strength >= least)
            else {
                break;
            };
            self.lexer.next()?;
            let right = self.expression(strength + 1)?;
            let sides = match operator.as_str() {
                ">" | ">=" => vec![right, left],
                _ => vec![left, right],
            };
            left = Expression::Call(function, sides);
        }
        self.depth -= 1;
        Ok(left)
    }

    /// What follows `IS`.
    fn is(&mut self, left: Expression, operator: &str) -> Result<Expression, Fault> {
        let (mut is_not, mut asked) = (operator == "notnull", Value::Null);
        if operator == "is" {
            let mut word = self.word()?;
            if word == "not" {
                is_not = true;
                word = self.word()?;
            }
            asked = match word.as_str() {
                "null" => Value::Null,
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return Err(self.lexer.fault(&word, "after IS stands NULL, TRUE or FALSE")),
            };
        }
        let is = Expression::Call(Function::Is, vec![left, Expression::Constant(asked)]);
        Ok(if is_not { Expression::Call(Function::Not, vec![is]) } else { is })
    }

    fn word(&mut self) -> Result<String, Fault> {
        match self.lexer.next()? {
            Token::Word(word) => Ok(word.to_ascii_lowercase()),
            other => Err(self.lexer.fault(&other.text(), "a word is missing here")),
        }
    }

    fn operand(&mut self) -> Result<Expression, Fault> {
        match self.lexer.next()? {
            Token::Int(number) => Ok(Expression::Constant(Value::Int(number))),
            // The least number of all, whose positive is none.
            Token::TooLarge => match self.lexer.was_negated() {
                true => Ok(Expression::Constant(Value::Int(i64::MIN))),
                false => Err(self.lexer.fault("9223372036854775808", "it does not fit into a bigint")),
            },
            Token::Double(number) => Ok(Expression::Constant(Value::Double(number))),
            Token::Variable(name) => Ok(Expression::Variable(name)),
            Token::Operator(operator) => match operator.as_str() {
                "(" => {
                    let inner = self.expression(0)?;
                    self.expect(")")?;
                    Ok(inner)
                }
                "-" => {
                    if matches!(self.lexer.peek(), Token::TooLarge) {
                        self.lexer.negate();
                        return self.operand();
                    }
                    Ok(Expression::Call(Function::Negate, vec![self.expression(UNARY)?]))
                }
                "+" => self.expression(UNARY),
                "~" => Ok(Expression::Call(Function::BitNot, vec![self.expression(UNARY)?])),
                _ => Err(self.lexer.fault(&operator, "an operand is missing before it")),
            },
            Token::Word(word) => self.named(&word),
            Token::End => Err(self.lexer.fault("", "the expression has no end: an operand is missing")),
        }
    }

    fn named(&mut self, word: &str) -> Result<Expression, Fault> {
        match word.to_ascii_lowercase().as_str() {
            "null" => return Ok(Expression::Constant(Value::Null)),
            "true" => return Ok(Expression::Constant(Value::Bool(true))),
            "false" => return Ok(Expression::Constant(Value::Bool(false))),
            "not" => return Ok(Expression::Call(Function::Not, vec![self.expression(NOT)?])),
            "case" => return self.case(),
            _ => {}
        }
        let lower = word.to_ascii_lowercase();
        let Some((_, function, least, most)) = NAMED.iter().find(|(name, ..)| *name == lower) else {
            let why = match word {
                _ if matches!(self.lexer.peek(), Token::Operator(next) if next == "(") => {
                    "there is no such function"
                }
                _ => "a variable has a colon before it (:name)",
            };
            return Err(self.lexer.fault(word, why));
        };
        self.expect("(")?;
        let mut arguments = Vec::new();
        if !self.takes(")")? {
            loop {
                arguments.push(self.expression(0)?);
                if self.takes(")")? {
                    break;
                }
                self.expect(",")?;
            }
        }
        if !(*least..=*most).contains(&arguments.len()) {
            let why = format!("it has {} arguments instead of {least} to {most}", arguments.len());
            return Err(self.lexer.fault(word, &why));
        }
        Ok(Expression::Call(*function, arguments))
    }

    fn case(&mut self) -> Result<Expression, Fault> {
        let (mut arms, mut otherwise) = (Vec::new(), Expression::Constant(Value::Null));
        loop {
            match self.word()?.as_str() {
                "when" => {
                    let condition = self.expression(0)?;
                    let then = self.word()?;
                    if then != "then" {
                        return Err(self.lexer.fault(&then, "THEN is missing before it"));
                    }
                    arms.push((condition, self.expression(0)?));
                }
                "else" => {
                    otherwise = self.expression(0)?;
                    let end = self.word()?;
                    if end != "end" {
                        return Err(self.lexer.fault(&end, "END is missing before it"));
                    }
                    break;
                }
                "end" => break,
                other => return Err(self.lexer.fault(other, "in CASE stands WHEN, ELSE or END")),
            }
        }
        match arms.is_empty() {
            true => Err(self.lexer.fault("case", "it has no WHEN")),
            false => Ok(Expression::Case(arms, Box::new(otherwise))),
        }
    }

    fn takes(&mut self, operator: &str) -> Result<bool, Fault> {
        let is_next = matches!(self.lexer.peek(), Token::Operator(next) if next == operator);
        if is_next {
            self.lexer.next()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, operator: &str) -> Result<(), Fault> {
        if self.takes(operator)? {
            return Ok(());
        }
        let found = self.lexer.peek().text();
        Err(self.lexer.fault(&found, &format!("{operator:?} is missing before it")))
    }
}
