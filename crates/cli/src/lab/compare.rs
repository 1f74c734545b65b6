//! `duramen lab compare`: what differs between two variants.

use super::report::write_markdown;
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED, INVALID},
    output,
};
use clap::Args;
use duramen_measure::evidence::Evidence;
use duramen_reports::compare::{cells, compare, method, of_targets, print_table, Comparison, Row, Verdict};
use duramen_reports::{markdown, suite};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab compare before.json after.json
  duramen lab compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json --max-regression 10
  duramen lab compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json --figure latency_ms/S5/remote_apply
  duramen lab compare before.json after.json --json out/comparison.json
  duramen lab compare before.json after.json --markdown -

Several files of a side are repeated runs of the same thing; interleave the runs of both sides. With one file a side,
the blocks within it are compared, if the suite keeps them, and counts. Figures that --figure or --targets name in
advance are judged each for itself; of all others at most 5 % of the reported differences are chance.

Exit status: 0 when nothing got worse, 1 when something did, 3 when the documents are not comparable";

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Evidence of the first variant
    #[arg(value_name = "A", required = true, num_args = 1, value_delimiter = ',')]
    a: Vec<PathBuf>,
    /// Evidence of the second variant
    #[arg(value_name = "B", required = true, num_args = 1, value_delimiter = ',')]
    b: Vec<PathBuf>,
    /// How much worse a figure may get, beyond doubt, before it counts
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    max_regression: f64,
    /// Judge this figure for itself, because it was chosen before looking; may be repeated
    #[arg(long = "figure", value_name = "NAME")]
    figures: Vec<String>,
    /// Judge the figures that the suite has targets for each for itself
    #[arg(long)]
    targets: bool,
    /// Also list figures that cannot be compared
    #[arg(long)]
    all: bool,
    /// Write the comparison; `-` prints it instead of the table
    #[arg(long = "json", value_name = "FILE")]
    written: Option<PathBuf>,
    /// Write it for a pull request; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// A comparison with what the exit status says.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    max_regression_percent: f64,
    regressions: Vec<&'a str>,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(percent),
        _ => Err(format!("{text:?} is not a percentage; write 0 or more, like 5")),
    }
}

pub(super) fn run(context: &Context, options: Compare) -> Outcome {
    let Compare { a, b, max_regression, figures, targets, all, written, markdown } = options;
    let is_dash = |file: &Option<PathBuf>| file.as_deref() == Some(Path::new("-"));
    if is_dash(&markdown) && (context.json || is_dash(&written)) {
        return Err(Failure::Usage("JSON and Markdown cannot both be printed: give one a file".to_owned()));
    }
    let read = |files: &[PathBuf]| -> Result<Vec<Evidence>, Failure> {
        files
            .iter()
            .map(|file| Evidence::read(file).map_err(|error| Failure::Other(error.to_string())))
            .collect()
    };
    let (a, b) = (read(&a)?, read(&b)?);
    let mut named = figures.clone();
    if targets {
        let suite = a.first().and_then(|first| suite::find(&super::SUITES, &first.suite));
        named.extend(suite.into_iter().flat_map(|suite| of_targets(suite, &a)));
    }
    let comparison = match compare(&a, &b, &named) {
        Ok(comparison) => comparison,
        Err(error) => {
            output::error(&error);
            return Ok(ExitCode::from(INVALID));
        }
    };
    let regressions: Vec<&str> =
        comparison.regressions(max_regression).map(|row| row.name.as_str()).collect();
    // A gate that names a figure does not pass because that could not be judged.
    let unjudged: Vec<&str> = comparison.unjudged(&figures).collect();
    for name in &unjudged {
        output::error(&format_args!("not comparable: the figure {name} was named and could not be judged"));
    }
    let code = match (comparison.is_comparable() && unjudged.is_empty(), regressions.is_empty()) {
        (_, false) => ExitCode::from(FAILED),
        (false, true) => ExitCode::from(INVALID),
        (true, true) => ExitCode::SUCCESS,
    };
    let is_printed = context.json || is_dash(&written);
    let document = Document { comparison: &comparison, max_regression_percent: max_regression, regressions };
    if let Some(file) = written.filter(|file| file.as_os_str() != "-") {
        super::make_room_for(&file)?;
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::Other(format!("cannot write the comparison: {error}")))?;
        std::fs::write(&file, text + "\n").map_err(Failure::io("write", &file))?;
    }
    if let Some(file) = markdown {
        let in_words = in_words(&comparison, &document.regressions);
        if write_markdown(&file, &markdown::comparison(&in_words, &a, &b))? {
            return Ok(code);
        }
    }
    if is_printed {
        output::json(&document)?;
        return Ok(code);
    }
    output::line(print_table(&comparison, all).trim_end());
    for name in &document.regressions {
        output::line(format_args!("regression: {name}"));
    }
    if !comparison.is_comparable() {
        output::line(
            "not comparable: no figure has more than one value on both sides, or all are of unlike runs",
        );
    }
    Ok(code)
}

/// A comparison as it is told in Markdown.
fn in_words(comparison: &Comparison, regressions: &[&str]) -> markdown::Comparison {
    let differs = [Verdict::Worse, Verdict::Different, Verdict::Better];
    let rank = |row: &Row| differs.iter().position(|verdict| *verdict == row.verdict);
    let mut rows: Vec<&Row> = comparison.rows.iter().filter(|row| rank(row).is_some()).collect();
    rows.sort_by_key(|row| rank(row));
    let changed = rows.into_iter().map(|row| {
        let [name, a, b, effect] = cells(row);
        let outcome = match row.verdict {
            Verdict::Worse => "worse",
            Verdict::Better => "better",
            _ => "different",
        };
        markdown::Changed { name, a, b, effect, outcome: outcome.to_owned(), words: row.words.clone() }
    });
    markdown::Comparison {
        suite: comparison.suite.clone(),
        regressions: regressions.iter().map(|name| (*name).to_owned()).collect(),
        is_comparable: comparison.is_comparable(),
        changed: changed.collect(),
        warnings: comparison.warnings.clone(),
        method: method(comparison),
    }
}
