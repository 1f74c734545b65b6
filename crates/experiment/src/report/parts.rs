//! The report as parts, whatever they are written as.

use super::{
    stack,
    view::{overview, rows, stack_of, Change, Facts, Row},
    words,
};
use crate::event::Design;
use crate::state::{Segment, State, Try};
use duramen_reports::page::Chart;

/// A sample during which more of the machine's time than this was stolen is worth a word.
const STEAL_WORTH_A_WORD: f64 = 0.05;

/// What stands over rows of other tools.
const IMPORTED: &str = "Imported (a status that was given by hand there counts for nothing here)";

/// A part of the report.
pub(super) enum Part {
    Heading(String),
    Note(String),
    Table {
        title: String,
        headers: Vec<&'static str>,
        rows: Vec<Vec<String>>,
    },
    Chart(Chart),
    /// A text that is shown as it is.
    Verbatim {
        title: &'static str,
        text: String,
    },
}

/// The title, and what follows.
pub(super) fn parts(state: &State) -> (String, Vec<Part>) {
    let overview = overview(state);
    let mut parts = Vec::new();
    let Some(current) = state.current() else {
        parts.push(Part::Note("No baseline has been taken yet, so nothing was measured.".to_owned()));
        plans(state, &mut parts);
        return ("Experiments".to_owned(), parts);
    };
    parts.push(Part::Note(summary(current)));
    for oddity in &overview.oddities {
        parts.push(Part::Note(format!("The log does not hang together: {oddity}.")));
    }
    let rows = rows(state);
    for segment in state.segments.iter().rev() {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.segment == segment.number).collect();
        parts.push(Part::Heading(format!("Segment {}", segment.number)));
        if segment.number != current.number {
            parts.push(Part::Note(summary(segment)));
        }
        segment_parts(segment, &rows, &mut parts);
    }
    plans(state, &mut parts);
    machine(current, &mut parts);
    (format!("Experiments: {}", overview.name), parts)
}

fn summary(segment: &Segment) -> String {
    let facts = Facts::new(segment);
    let ended = segment.tries.iter().filter(|known| !known.is_open()).count();
    let mut text = format!(
        "{} of {} kept. {} ({}) ",
        segment.keeps.len(),
        words::counted(ended, "try", "tries"),
        facts.metric,
        words::direction(facts.direction),
    );
    match stack_of(segment, &facts) {
        Some(stack) if stack.is_replayed => {
            text.push_str(&format!(
                "changed by {} from start to head, measured by a replay.",
                words::change(&stack.change)
            ));
        }
        Some(stack) => text.push_str(&format!(
            "changed by {} from start to head: the product of what the kept tries did one by one, which is more than it \
             will be, because tries are kept for looking good. A replay measures it.",
            words::change(&stack.change)
        )),
        None => text.push_str("is as it was at the start."),
    }
    text
}

fn segment_parts(segment: &Segment, rows: &[&Row], parts: &mut Vec<Part>) {
    let facts = Facts::new(segment);
    let noise = match segment.current_noise() {
        Some(noise) => format!("Differences below {:.1} % are within the noise.", noise.floor * 100.0),
        None => "The noise floor was not found.".to_owned(),
    };
    parts.push(Part::Note(format!(
        "Began {} with commit {}; head {}. {noise} Each try is judged at an error rate of 5 % divided by the budget of \
         {}{}.",
        segment.at.strftime("%Y-%m-%d %H:%M UTC"),
        words::commit(&segment.start),
        words::commit(&segment.head),
        words::counted(facts.budget as usize, "try", "tries"),
        match segment.design {
            Design::Looks => ", and looked at after each quad until it is clear",
            Design::Fixed => "",
        },
    )));
    if rows.is_empty() {
        parts.push(Part::Note("Nothing was tried.".to_owned()));
        return;
    }
    parts.push(Part::Chart(chart(segment, &facts)));
    parts.push(tries(segment, &facts, rows));
    by_hand(rows, parts);
    let stolen: Vec<String> = rows
        .iter()
        .filter(|row| row.steal > STEAL_WORTH_A_WORD)
        .map(|row| format!("{} ({:.0} %)", row.number, row.steal * 100.0))
        .collect();
    if !stolen.is_empty() {
        parts.push(Part::Note(format!(
            "Time of the machine was stolen by others while these tries were measured: {}.",
            stolen.join(", ")
        )));
    }
    others(rows, parts);
    notes(rows, parts);
    replays(segment, &facts, parts);
    ablations(segment, &facts, parts);
}

/// The primary figure after each try, in percent of the start.
fn chart(segment: &Segment, facts: &Facts) -> Chart {
    let points: Vec<(f64, Change)> = stack::over_tries(segment)
        .into_iter()
        .map(|(tries, ratio)| (tries as f64, Change::from_ratio(ratio, facts.direction)))
        .collect();
    let line = |of: fn(&Change) -> f64| points.iter().map(|(x, change)| (*x, 100.0 + of(change))).collect();
    let mut lines: Vec<(&str, Vec<(f64, f64)>)> = vec![
        ("kept stack", line(|change| change.percent)),
        ("lower end (95 %)", line(|change| change.low)),
        ("upper end (95 %)", line(|change| change.high)),
    ];
    let replayed = segment.replays.iter().filter_map(|replay| {
        let effect = replay.judgement.effect.as_ref()?;
        Some((replay.tries as f64, 100.0 + facts.change(effect).percent))
    });
    let replayed: Vec<(f64, f64)> = replayed.collect();
    if !replayed.is_empty() {
        lines.push(("replayed", replayed));
    }
    let title = format!("{} of the kept stack after each try", facts.metric);
    Chart::line(title, "tries", "% of the start", lines)
}

fn tries(segment: &Segment, facts: &Facts, rows: &[&Row]) -> Part {
    let after = stack::over_tries(segment);
    let cells = rows.iter().enumerate().map(|(index, row)| {
        let stack = after.get(index + 1).filter(|_| row.verdict.is_some());
        let stack = stack.map(|(_, ratio)| Change::from_ratio(*ratio, facts.direction));
        vec![
            row.number.to_string(),
            verdict(row),
            row.change.as_ref().map(words::change).unwrap_or_default(),
            stack.map(|change| format!("{:.1} %", 100.0 + change.percent)).unwrap_or_default(),
            words::line(&row.hypothesis),
            words::line(&row.reason),
            words::commit(&row.candidate),
        ]
    });
    Part::Table {
        title: format!("Tries of segment {}", segment.number),
        headers: vec!["Try", "Verdict", "Change [95 %]", "Stack", "Hypothesis", "Why", "Commit"],
        rows: cells.collect(),
    }
}

/// What holds, with a mark if it is not what was computed.
pub(super) fn verdict(row: &Row) -> String {
    match (row.verdict, &row.by_hand) {
        (None, _) => "open".to_owned(),
        (Some(verdict), None) => words::verdict(verdict).to_owned(),
        (Some(verdict), Some(_)) => format!("{} (by hand)", words::verdict(verdict)),
    }
}

fn by_hand(rows: &[&Row], parts: &mut Vec<Part>) {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .filter_map(|row| {
            let by_hand = row.by_hand.as_ref()?;
            let computed = row.computed.map(words::verdict).unwrap_or_default();
            Some(vec![
                row.number.to_string(),
                computed.to_owned(),
                words::verdict(by_hand.verdict).to_owned(),
                words::line(&by_hand.reason),
            ])
        })
        .collect();
    if !cells.is_empty() {
        let headers = vec!["Try", "Computed", "By hand", "Why"];
        parts.push(Part::Table { title: "Verdicts by hand".to_owned(), headers, rows: cells });
    }
}

/// Scales and other figures, where there are several.
fn others(rows: &[&Row], parts: &mut Vec<Part>) {
    let mut cells = Vec::new();
    for row in rows {
        let scales = row.scales.iter().filter(|_| row.scales.len() > 1);
        let scales = scales.map(|(name, change)| (format!("scale {name}"), change));
        for (name, change) in scales.chain(row.others.iter().map(|(name, change)| (name.clone(), change))) {
            cells.push(vec![row.number.to_string(), name, words::change(change)]);
        }
    }
    if !cells.is_empty() {
        let headers = vec!["Try", "Figure", "Change [95 %]"];
        parts.push(Part::Table { title: "Scales and other figures".to_owned(), headers, rows: cells });
    }
}

/// What was said of tries besides.
fn notes(rows: &[&Row], parts: &mut Vec<Part>) {
    let cell = |row: &Row, name: &String, text: &String| {
        vec![row.number.to_string(), words::line(name), words::line(text)]
    };
    let cells: Vec<Vec<String>> =
        rows.iter().flat_map(|row| row.notes.iter().map(|(name, text)| cell(row, name, text))).collect();
    if !cells.is_empty() {
        let headers = vec!["Try", "Field", "Note"];
        parts.push(Part::Table { title: "Notes".to_owned(), headers, rows: cells });
    }
}

fn replays(segment: &Segment, facts: &Facts, parts: &mut Vec<Part>) {
    if segment.replays.is_empty() {
        return;
    }
    let row = |replay: &crate::state::Replay| {
        let change = replay.judgement.effect.as_ref().map(|effect| words::change(&facts.change(effect)));
        vec![
            replay.at.strftime("%Y-%m-%d %H:%M").to_string(),
            words::commit(&replay.head),
            words::verdict(replay.judgement.verdict).to_owned(),
            change.unwrap_or_default(),
            words::line(&replay.judgement.reason),
        ]
    };
    let headers = vec!["When", "Head", "Verdict", "Change [95 %]", "Why"];
    let rows = segment.replays.iter().map(row).collect();
    parts.push(Part::Table {
        title: "Replays: the head against the start, in fresh folders".to_owned(),
        headers,
        rows,
    });
}

fn ablations(segment: &Segment, facts: &Facts, parts: &mut Vec<Part>) {
    if segment.ablations.is_empty() {
        return;
    }
    let hypothesis = |number: u32| {
        let known: Option<&Try> = segment.tries.iter().find(|known| known.number == number);
        known.map(|known| words::line(&known.hypothesis)).unwrap_or_default()
    };
    let row = |ablation: &crate::state::Ablation| {
        let effect = ablation.judgement.as_ref().and_then(|judgement| judgement.effect.as_ref());
        vec![
            ablation.number.to_string(),
            words::line(&ablation.words),
            effect.map(|effect| words::change(&facts.change(effect))).unwrap_or_default(),
            words::commit(&ablation.head),
            hypothesis(ablation.number),
        ]
    };
    let headers = vec!["Without", "Outcome", "Change [95 %]", "Head", "Hypothesis"];
    let rows = segment.ablations.iter().map(row).collect();
    parts.push(Part::Table {
        title: "Does each still help? The head without it, against the head".to_owned(),
        headers,
        rows,
    });
}

/// Ideas, closed lines of thought, what came from elsewhere, how runs ended.
fn plans(state: &State, parts: &mut Vec<Part>) {
    let before = parts.len();
    let open = state.open_ideas();
    if !open.is_empty() {
        let row = |idea: &&crate::state::Idea| {
            let (text, mechanism) = (words::line(&idea.text), words::line(&idea.mechanism));
            vec![idea.idea.to_string(), idea.rank.to_string(), text, mechanism]
        };
        let rows = open.iter().map(row).collect();
        let headers = vec!["Idea", "Rank", "What", "Mechanism"];
        parts.push(Part::Table { title: "Ideas".to_owned(), headers, rows });
    }
    let closed: Vec<Vec<String>> = state
        .closed_axes()
        .map(|axis| {
            let number = axis.number.map(|number| number.to_string()).unwrap_or_default();
            vec![words::line(&axis.axis), words::line(&axis.mechanism), number]
        })
        .collect();
    if !closed.is_empty() {
        let headers = vec!["Line of thought", "Why it failed", "Try"];
        parts.push(Part::Table { title: "Closed lines of thought".to_owned(), headers, rows: closed });
    }
    if !state.imported.is_empty() {
        let row = |row: &crate::state::Imported| {
            let figure = row.metrics.get(&row.metric).map(f64::to_string).unwrap_or_default();
            vec![
                row.run.to_string(),
                words::line(&row.status),
                words::line(&row.metric),
                figure,
                words::line(&row.description),
                words::line(&row.commit),
            ]
        };
        let rows = state.imported.iter().map(row).collect();
        let headers = vec!["Run", "Status there", "Figure", "Value", "What", "Commit"];
        parts.push(Part::Table { title: IMPORTED.to_owned(), headers, rows });
    }
    if !state.stops.is_empty() {
        let row = |stop: &crate::state::Stop| {
            vec![stop.at.strftime("%Y-%m-%d %H:%M").to_string(), stop.rule.clone(), words::line(&stop.words)]
        };
        let rows = state.stops.iter().map(row).collect();
        parts.push(Part::Table {
            title: "How runs ended".to_owned(),
            headers: vec!["When", "Rule", "Why"],
            rows,
        });
    }
    if parts.len() > before {
        parts.insert(before, Part::Heading("Ideas and dead ends".to_owned()));
    }
}

fn machine(segment: &Segment, parts: &mut Vec<Part>) {
    let host = &segment.host;
    parts.push(Part::Heading("Spec and machine".to_owned()));
    let loads = host.load_average.map(|load| format!("{load:.2}")).join(", ");
    parts.push(Part::Note(format!(
        "{}, {}, {:.1} GiB of memory, {}, {}; load average {loads} at the baseline. Seed {}.",
        host.cpu,
        words::counted(host.cores, "core", "cores"),
        host.memory_bytes as f64 / f64::from(1 << 30),
        host.kernel,
        host.file_system,
        segment.seed
    )));
    if !segment.isolated {
        parts.push(Part::Note(words::UNISOLATED.to_owned()));
    }
    parts.push(Part::Verbatim { title: "experiment.toml", text: segment.spec.clone() });
}
