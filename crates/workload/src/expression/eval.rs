//! What an expression is, given variables and a generator of random numbers.

use std::collections::HashMap;

use super::{Expression, Function};
use crate::random;
use crate::value::Value;

/// What an expression is computed with.
pub(crate) struct Scope<'a> {
    pub(crate) variables: &'a HashMap<String, Value>,
    pub(crate) rng: &'a mut fastrand::Rng,
}

const BIGINT: &str = "the result does not fit into a bigint";

impl Scope<'_> {
    /// Computes it.
    ///
    /// # Errors
    /// A number is out of range, divided by zero, or not a number at all.
    pub(crate) fn value(&mut self, expression: &Expression) -> Result<Value, String> {
        match expression {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Variable(name) => match self.variables.get(name) {
                Some(Value::Text(text)) => match Value::from_text(text) {
                    Value::Text(text) => {
                        Err(format!("the variable {name} is {text:?}, which is not a number"))
                    }
                    value => Ok(value),
                },
                Some(value) => Ok(value.clone()),
                None => Err(format!("the variable {name} has no value")),
            },
            Expression::Case(arms, otherwise) => {
                for (condition, result) in arms {
                    if self.value(condition)?.truth()? {
                        return self.value(result);
                    }
                }
                self.value(otherwise)
            }
            Expression::Call(Function::And | Function::Or, sides) => self.either(expression, sides),
            Expression::Call(function, arguments) => {
                let values = arguments.iter().map(|argument| self.value(argument));
                let values = values.collect::<Result<Vec<Value>, String>>()?;
                self.call(*function, &values)
            }
        }
    }

    /// `AND` and `OR`, whose second side is not looked at if the first one decides. What is not known decides, too, as in
    /// pgbench: `null or true` is null.
    fn either(&mut self, expression: &Expression, sides: &[Expression]) -> Result<Value, String> {
        let decides = matches!(expression, Expression::Call(Function::Or, _));
        for side in sides {
            match self.value(side)? {
                Value::Null => return Ok(Value::Null),
                Value::Bool(truth) if truth == decides => return Ok(Value::Bool(decides)),
                Value::Bool(_) => {}
                other => return Err(format!("{other} is neither true nor false")),
            }
        }
        Ok(Value::Bool(!decides))
    }

    fn call(&mut self, function: Function, values: &[Value]) -> Result<Value, String> {
        if function == Function::Is {
            return Ok(Value::Bool(values[0] == values[1]));
        }
        if function == Function::Debug {
            return Ok(values[0].clone());
        }
        // What is not known gives what is not known.
        if values.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        let int = |index: usize| values[index].int();
        let double = |index: usize| values[index].double();
        let is_double = values.iter().any(|value| matches!(value, Value::Double(_)));
        let ok = |number: Option<i64>| number.map(Value::Int).ok_or_else(|| BIGINT.to_owned());
        Ok(match function {
            Function::Not => match &values[0] {
                Value::Bool(truth) => Value::Bool(!truth),
                other => return Err(format!("{other} is neither true nor false")),
            },
            Function::Equal => Value::Bool(equal(&values[0], &values[1])?),
            Function::NotEqual => Value::Bool(!equal(&values[0], &values[1])?),
            Function::Less if is_double => Value::Bool(double(0)? < double(1)?),
            Function::Less => Value::Bool(int(0)? < int(1)?),
            Function::LessOrEqual if is_double => Value::Bool(double(0)? <= double(1)?),
            Function::LessOrEqual => Value::Bool(int(0)? <= int(1)?),
            Function::BitOr => Value::Int(int(0)? | int(1)?),
            Function::BitXor => Value::Int(int(0)? ^ int(1)?),
            Function::BitAnd => Value::Int(int(0)? & int(1)?),
            Function::BitNot => Value::Int(!int(0)?),
            Function::ShiftLeft => Value::Int(int(0)?.wrapping_shl(int(1)? as u32)),
            Function::ShiftRight => Value::Int(int(0)?.wrapping_shr(int(1)? as u32)),
            Function::Add if is_double => Value::Double(double(0)? + double(1)?),
            Function::Add => ok(int(0)?.checked_add(int(1)?))?,
            Function::Subtract if is_double => Value::Double(double(0)? - double(1)?),
            Function::Subtract => ok(int(0)?.checked_sub(int(1)?))?,
            Function::Multiply if is_double => Value::Double(double(0)? * double(1)?),
            Function::Multiply => ok(int(0)?.checked_mul(int(1)?))?,
            Function::Divide if is_double => Value::Double(double(0)? / double(1)?),
            Function::Divide | Function::Remainder | Function::Mod if int(1)? == 0 => {
                return Err("division by zero".to_owned())
            }
            Function::Divide => ok(int(0)?.checked_div(int(1)?))?,
            // -1 divides the least of all numbers without a remainder.
            Function::Remainder | Function::Mod => Value::Int(int(0)?.wrapping_rem(int(1)?)),
            Function::Negate if is_double => Value::Double(-double(0)?),
            Function::Negate => ok(int(0)?.checked_neg())?,
            Function::Abs if is_double => Value::Double(double(0)?.abs()),
            Function::Abs => ok(int(0)?.checked_abs())?,
            Function::Double => Value::Double(double(0)?),
            Function::Int => Value::Int(int(0)?),
            Function::Exp => Value::Double(double(0)?.exp()),
            Function::Ln => Value::Double(double(0)?.ln()),
            Function::Sqrt => Value::Double(double(0)?.sqrt()),
            Function::Pi => Value::Double(std::f64::consts::PI),
            Function::Power => Value::Double(double(0)?.powf(double(1)?)),
            Function::Greatest | Function::Least => most(function, values, is_double)?,
            Function::Hash => Value::Int(random::murmur2(int(0)?, self.seed(values, 1)?)),
            Function::Fnv1a => Value::Int(random::fnv1a(int(0)?, self.seed(values, 1)?)),
            Function::Permute => Value::Int(random::permute(int(0)?, int(1)?, self.seed(values, 2)?)?),
            Function::Random => Value::Int(random::uniform(self.rng, int(0)?, int(1)?)?),
            Function::RandomGaussian => Value::Int(random::gaussian(self.rng, int(0)?, int(1)?, double(2)?)?),
            Function::RandomExponential => {
                Value::Int(random::exponential(self.rng, int(0)?, int(1)?, double(2)?)?)
            }
            Function::RandomZipfian => Value::Int(random::zipfian(self.rng, int(0)?, int(1)?, double(2)?)?),
            Function::And | Function::Or | Function::Is | Function::Debug => Value::Null,
        })
    }

    /// The seed of a hash: the argument, or that of the run.
    fn seed(&self, values: &[Value], index: usize) -> Result<i64, String> {
        match values.get(index) {
            Some(seed) => seed.int(),
            None => self.variables.get("default_seed").map_or(Ok(0), Value::int),
        }
    }
}

fn equal(a: &Value, b: &Value) -> Result<bool, String> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Double(_), _) | (_, Value::Double(_)) => Ok(a.double()? == b.double()?),
        _ => Ok(a.int()? == b.int()?),
    }
}

fn most(function: Function, values: &[Value], is_double: bool) -> Result<Value, String> {
    let is_greatest = function == Function::Greatest;
    if is_double {
        let numbers = values.iter().map(Value::double).collect::<Result<Vec<f64>, String>>()?;
        let most = numbers.into_iter().reduce(if is_greatest { f64::max } else { f64::min });
        return Ok(most.map_or(Value::Null, Value::Double));
    }
    let numbers = values.iter().map(Value::int).collect::<Result<Vec<i64>, String>>()?;
    let most = if is_greatest { numbers.into_iter().max() } else { numbers.into_iter().min() };
    Ok(most.map_or(Value::Null, Value::Int))
}
