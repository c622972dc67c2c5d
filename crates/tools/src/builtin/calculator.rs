use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Tool, ToolCx, ToolFailure};

/// Evaluates an arithmetic expression with `+ - * / % ^` and parentheses, for example `2 * (3 + 4) ^ 2`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Calculator {
    /// The expression.
    expression: String,
}

impl Tool for Calculator {
    const NAME: &'static str = "calculator";
    type Output = f64;

    async fn call(self, _cx: &ToolCx<'_>) -> Result<f64, ToolFailure> {
        let value = evaluate(&self.expression).map_err(ToolFailure::invalid)?;
        if value.is_finite() { Ok(value) } else { Err(ToolFailure::invalid("the result is not a finite number")) }
    }
}

/// The maximum nesting depth: deeper than any expression that a person writes, but small enough for the stack.
const MAX_DEPTH: u32 = 64;

fn evaluate(text: &str) -> Result<f64, String> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        None => Ok(value),
        Some(found) => Err(format!("unexpected `{found}` at character {}", parser.at + 1)),
    }
}

/// A recursive descent parser with one method per level of precedence.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            match self.peek() {
                Some('+') => value += self.after_operator(Self::product)?,
                Some('-') => value -= self.after_operator(Self::product)?,
                _ => return Ok(value),
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.signed()?;
        loop {
            match self.peek() {
                Some('*') => value *= self.after_operator(Self::signed)?,
                Some('/') => value /= self.divisor()?,
                Some('%') => value %= self.divisor()?,
                _ => return Ok(value),
            }
        }
    }

    fn signed(&mut self) -> Result<f64, String> {
        match self.peek() {
            Some('-') => self.nested(|parser| parser.after_operator(Self::signed).map(|value| -value)),
            Some('+') => self.nested(|parser| parser.after_operator(Self::signed)),
            _ => self.power(),
        }
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.atom()?;
        match self.peek() {
            // Powers are right-associative and bind tighter than a sign on their left: -2^2 is -4.
            Some('^') => self.nested(|parser| parser.after_operator(Self::signed).map(|exponent| base.powf(exponent))),
            _ => Ok(base),
        }
    }

    fn atom(&mut self) -> Result<f64, String> {
        match self.peek() {
            Some('(') => {
                let value = self.nested(|parser| parser.after_operator(Self::sum))?;
                match self.peek() {
                    Some(')') => {
                        self.at += 1;
                        Ok(value)
                    }
                    _ => Err(format!("`)` is missing at character {}", self.at + 1)),
                }
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(found) => Err(format!("a number was expected at character {}, not `{found}`", self.at + 1)),
            None => Err("the expression ends where a number was expected".into()),
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let exponent = rest.get(length..).unwrap_or_default();
        if let Some(digits) = exponent.strip_prefix(['e', 'E']) {
            let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
            let count = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
            if count > 0 {
                length += 1 + (digits.len() - unsigned.len()) + count;
            }
        }
        let text = rest.get(..length).unwrap_or_default();
        let value = text.parse().map_err(|_| format!("`{text}` at character {} is not a number", self.at + 1))?;
        self.at += length;
        Ok(value)
    }

    fn divisor(&mut self) -> Result<f64, String> {
        let place = self.at + 1;
        let value = self.after_operator(Self::signed)?;
        if value == 0.0 { Err(format!("division by zero at character {place}")) } else { Ok(value) }
    }

    fn after_operator(&mut self, next: fn(&mut Self) -> Result<f64, String>) -> Result<f64, String> {
        self.at += 1;
        next(self)
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Result<f64, String>) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} levels at character {}", self.at + 1));
        }
        let value = inner(self);
        self.depth -= 1;
        value
    }

    fn peek(&mut self) -> Option<char> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let next = rest.trim_start();
        self.at += rest.len() - next.len();
        next.chars().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_follow_arithmetic_precedence() {
        for (text, value) in [
            ("1+2*3", 7.0),
            ("(1+2)*3", 9.0),
            ("2^3^2", 512.0),
            ("-2^2", -4.0),
            ("2^-1", 0.5),
            ("7 % 4 - 1.5e1", -12.0),
            ("--3", 3.0),
            (" .5 / 2", 0.25),
        ] {
            assert_eq!(evaluate(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn invalid_expressions_are_rejected_with_the_cause() {
        for (text, because) in [
            ("", "ends"),
            ("1 +", "ends"),
            ("(1", "`)` is missing at character 3"),
            ("1 / (2-2)", "division by zero"),
            ("2 $ 3", "`$` at character 3"),
            ("1.2.3", "not a number"),
            ("os.exit()", "`o`"),
            (&"(".repeat(100_000), "levels"),
            (&"-".repeat(100_000), "levels"),
        ] {
            let error = evaluate(text).unwrap_err();
            assert!(error.contains(because), "{error}");
        }
    }
}
