//! Lines from a pipe or a file: no prompt, and an end at the first one that fails.

use super::{Next, Runner};
use crate::{context::Outcome, failure::Failure, output, store::input::VALUE_BYTES_MAX};
use std::{
    io::{BufRead, Read},
    process::ExitCode,
};

/// A line that was read.
enum Came {
    Text(String),
    /// It is no line that can be run.
    Bad(Failure),
    End,
}

pub(super) fn run(runner: &Runner, keeps_going: bool) -> Outcome {
    let mut input = std::io::stdin().lock();
    let mut first_bad = None;
    for number in 1_u64.. {
        let done = match read(&mut input)? {
            Came::End => break,
            Came::Text(text) => runner.line(&text),
            Came::Bad(failure) => Err(failure),
        };
        let code = match done {
            Ok(Next::Leave) => break,
            Ok(Next::Line(ExitCode::SUCCESS)) => continue,
            Ok(Next::Line(code)) => {
                if !keeps_going {
                    say(runner, "failed", &format!("line {number} ended with a status other than 0"));
                }
                code
            }
            Err(failure) => {
                say(runner, failure.code(), &format!("line {number}: {failure}"));
                failure.exit_code()
            }
        };
        first_bad.get_or_insert(code);
        if !keeps_going {
            break;
        }
    }
    Ok(first_bad.unwrap_or(ExitCode::SUCCESS))
}

fn say(runner: &Runner, code: &str, text: &str) {
    match runner.json.get() {
        true => output::json_error(code, &text),
        false => output::error(&text),
    }
}

/// Reads a line. One that is too long is read to its end all the same.
fn read(input: &mut impl BufRead) -> Result<Came, Failure> {
    let failed = |error| Failure::Other(format!("cannot read the standard input: {error}"));
    let mut bytes = Vec::new();
    input.by_ref().take(VALUE_BYTES_MAX + 1).read_until(b'\n', &mut bytes).map_err(failed)?;
    if bytes.is_empty() {
        return Ok(Came::End);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 > VALUE_BYTES_MAX {
        input.skip_until(b'\n').map_err(failed)?;
        let most = VALUE_BYTES_MAX >> 20;
        return Ok(Came::Bad(Failure::Other(format!("it has more than {most} MiB; no value may"))));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Came::Text(text),
        Err(error) => Came::Bad(Failure::Other(format!(
            "it is not UTF-8 text from byte {} on; bytes come from a file, as in `kv put k --type bytes --stdin < FILE`",
            error.utf8_error().valid_up_to()
        ))),
    })
}
