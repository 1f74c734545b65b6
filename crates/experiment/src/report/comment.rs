//! A try as a comment of a pull request. What others wrote stands in code spans, where neither Markdown nor a forge makes
//! anything of it: no link, no mention, no reference, no tag.

use super::{
    view::{rows, Row},
    words,
};
use crate::{
    event::{Effect, Judgement, Verdict},
    spec::Spec,
    state::State,
};
use serde::Serialize;
use std::fmt::Write as _;

/// The longest text of others, in characters.
const TEXT_MAX: usize = 600;

/// What a pull request does to the figure that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It would be kept.
    Better,
    /// Neither a gain nor a loss was shown.
    Unchanged,
    /// The figure, a scale or a guarded figure got worse, beyond doubt.
    Worse,
    /// It does not build, run or pass its checks.
    Broken,
    /// The figures say nothing, or are not what they seem.
    Invalid,
}

impl Standing {
    /// In a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Unchanged => "no difference shown",
            Self::Worse => "worse",
            Self::Broken => "broken",
            Self::Invalid => "invalid",
        }
    }
}

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comment {
    /// What the try does.
    pub standing: Standing,
    /// Markdown.
    pub body: String,
}

/// The comment on a try that has ended, if there is one of that number.
#[must_use]
pub fn comment(state: &State, number: u32) -> Option<Comment> {
    let row = rows(state).into_iter().find(|row| row.number == number)?;
    let segment = state.segments.iter().find(|segment| segment.number == row.segment)?;
    let known = segment.tries.iter().find(|known| known.number == number)?;
    let judgement = known.judgement.as_ref()?;
    let spec = toml::from_str::<Spec>(&segment.spec).ok();
    let standing = standing(spec.as_ref(), judgement);
    Some(Comment { standing, body: body(standing, spec.as_ref(), &row, segment.isolated) })
}

/// How a computed verdict stands for what is not out to be faster.
fn standing(spec: Option<&Spec>, judgement: &Judgement) -> Standing {
    match judgement.verdict {
        Verdict::Keep => return Standing::Better,
        Verdict::Crash | Verdict::ChecksFailed => return Standing::Broken,
        Verdict::Invalid | Verdict::Suspicious => return Standing::Invalid,
        Verdict::Discard | Verdict::Inconclusive => {}
    }
    // Less than zero is better; of a scale and of other figures, so much worse is allowed.
    let is_beyond = |effect: &Effect, percent: f64| effect.low > percent / 100.0;
    let of_scales = spec.map_or(0.0, |spec| spec.primary.max_regression_percent);
    let of_other = |name: &str| {
        let spec = spec?;
        let secondary = spec.secondaries.iter().find(|it| it.metric == name);
        let sentinel = spec.sentinels.iter().find(|it| it.metric == name);
        secondary.map(|it| it.max_regression_percent).or(sentinel.map(|it| it.tolerance_percent))
    };
    let is_worse = judgement.effect.as_ref().is_some_and(|effect| is_beyond(effect, 0.0))
        || judgement.scales.values().any(|effect| is_beyond(effect, of_scales))
        || judgement.others.iter().any(|(name, effect)| {
            is_beyond(effect, of_other(name.split(" at scale ").next().unwrap_or(name)).unwrap_or(0.0))
        });
    if is_worse {
        Standing::Worse
    } else {
        Standing::Unchanged
    }
}

fn body(standing: Standing, spec: Option<&Spec>, row: &Row, isolated: bool) -> String {
    let mut text = format!("**Duramen: {}**", standing.as_str());
    if let (Some(change), Some(spec)) = (&row.change, spec) {
        let direction = words::direction(spec.primary.direction);
        let metric = code(&spec.primary.metric);
        write!(text, " - {metric} {} (95 % interval; {direction})", words::change(change)).ok();
    }
    text.push_str("\n\n| | |\n|---|---|\n");
    let mut add = |name: &str, value: String| {
        writeln!(text, "| {name} | {value} |").ok();
    };
    add("change", code(&row.hypothesis));
    add("verdict", row.computed.map(words::verdict).unwrap_or("open").to_owned());
    add("why", code(&row.reason));
    for (name, change) in &row.scales {
        add(&format!("scale {}", code(name)), words::change(change));
    }
    for (name, change) in &row.others {
        add(&code(name), words::change(change));
    }
    if let Some(confirmed) = row.confirmed {
        add("new samples", if confirmed { "agree" } else { "do not agree" }.to_owned());
    }
    if let Some(extent) = &row.extent {
        add("measured", words::extent(extent));
    }
    add("runs", format!("{}; at most {:.1} % of the time stolen", row.samples, row.steal * 100.0));
    add("base", code(&words::commit(&row.base)));
    if !isolated {
        add("walls", words::UNISOLATED.to_owned());
    }
    text
}

/// A text of others as a code span in a cell of a table: a fence longer than any run of backquotes within, and no bar.
fn code(text: &str) -> String {
    let line: String = words::line(text).chars().take(TEXT_MAX).collect();
    if line.is_empty() {
        return String::new();
    }
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // Forges end a cell at a bar in a span too, unless it is escaped.
    format!("{fence} {} {fence}", line.replace('|', "\\|"))
}
