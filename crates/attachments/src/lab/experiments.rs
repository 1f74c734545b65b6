//! Logs of experiments, as `duramen lab experiment log` and `status` tell them.

use super::{
    budget::Budget,
    folder::Entry,
    index::{Index, View},
    words::{count, cut, finite, path as path_words},
};
use duramen_api::attachments::lab::{
    LabBetter, LabChange, LabDamaged, LabExperiment, LabExperiments, LabTry,
};
use duramen_experiment::{
    log,
    report::{self, Change, Overview, Row},
    spec::Direction,
    state::State,
};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

/// How many logs are read.
const LOGS_MAX: usize = 50;
/// The largest log that is read: it takes some twenty times as much memory for a moment. A series of a day has 2 MB.
pub const LOG_MAX: u64 = 16 << 20;
/// How many tries of a log are told, the last ones.
const TRIES_MAX: usize = 500;
/// How many files, scales, other figures and oddities are told, of each.
const MOST: usize = 50;

/// All series of tries.
pub(super) fn of(index: &mut Index, view: &View) -> LabExperiments {
    let there: HashMap<_, _> = view.found.logs.iter().map(|entry| (&entry.path, entry.stamp)).collect();
    index.logs.retain(|path, (stamp, _)| there.get(path) == Some(stamp));
    let mut told = LabExperiments {
        experiments: Vec::new(),
        damaged: Vec::new(),
        unread: count(view.found.logs.len().saturating_sub(LOGS_MAX)),
        is_partial: view.found.is_partial,
    };
    let mut budget = Budget::new();
    for Entry { path, stamp } in view.found.logs.iter().take(LOGS_MAX) {
        if !index.logs.contains_key(path) {
            if !budget.takes(stamp.bytes.min(LOG_MAX)) {
                told.unread += 1;
                continue;
            }
            index.logs.insert(path.clone(), (*stamp, read(view, path).map(Arc::new)));
        }
        match index.logs.get(path) {
            Some((_, Ok(experiment))) => told.experiments.push(LabExperiment::clone(experiment)),
            Some((_, Err(why))) => {
                told.damaged.push(LabDamaged { file: path_words(path), why: why.clone() });
            }
            None => {}
        }
    }
    told
}

fn read(view: &View, path: &Path) -> Result<LabExperiment, String> {
    let (file, _) = view.folder.file(path).map_err(|error| format!("it cannot be read: {error}"))?;
    let entries = log::read_file(&file, path, LOG_MAX).map_err(|error| cut(&error.to_string()))?;
    let state = State::from_entries(&entries);
    drop(entries);
    Ok(experiment(path, &state))
}

fn experiment(path: &Path, state: &State) -> LabExperiment {
    let Overview {
        name,
        metric,
        direction,
        segment,
        began,
        start,
        head,
        budget,
        verdicts,
        stack,
        noise_percent,
        oddities,
        ..
    } = report::overview(state);
    let rows = report::rows(state);
    let earlier = rows.len().saturating_sub(TRIES_MAX);
    LabExperiment {
        file: path_words(path),
        name: cut(&name),
        metric: cut(&metric),
        better: match direction {
            Direction::Lower => LabBetter::Lower,
            Direction::Higher => LabBetter::Higher,
        },
        segment,
        began,
        start: cut(&start),
        head: cut(&head),
        budget,
        verdicts: verdicts.into_iter().map(|(word, tries)| (word.to_owned(), count(tries))).collect(),
        is_replayed: stack.as_ref().is_some_and(|stack| stack.is_replayed),
        stack: stack.and_then(|stack| change(&stack.change)),
        noise_percent: finite(noise_percent),
        tries: rows.into_iter().skip(earlier).map(row).collect(),
        earlier: count(earlier),
        oddities: oddities.iter().take(MOST).map(|text| cut(text)).collect(),
    }
}

fn row(row: Row) -> LabTry {
    LabTry {
        number: row.number,
        segment: row.segment,
        at: row.at,
        ended: row.ended,
        verdict: row.verdict.map(|verdict| report::verdict(verdict).to_owned()),
        reason: cut(&row.reason),
        by_hand: row.by_hand.map(|by_hand| cut(&by_hand.reason)),
        change: row.change.as_ref().and_then(change),
        p_value: finite(row.p_value),
        alpha: finite(row.alpha),
        confirmed: row.confirmed,
        scales: changes(&row.scales),
        others: changes(&row.others),
        hypothesis: cut(&row.hypothesis),
        mechanism: cut(&row.mechanism),
        axis: row.axis.map(|axis| cut(&axis)),
        candidate: cut(&row.candidate),
        files: row.files.iter().take(MOST).map(|file| cut(file)).collect(),
        samples: count(row.samples),
    }
}

fn changes(all: &BTreeMap<String, Change>) -> BTreeMap<String, LabChange> {
    let some = all.iter().take(MOST);
    some.filter_map(|(name, found)| Some((cut(name), change(found)?))).collect()
}

fn change(change: &Change) -> Option<LabChange> {
    let Change { percent, low, high } = *change;
    let is_finite = percent.is_finite() && low.is_finite() && high.is_finite();
    is_finite.then_some(LabChange { percent, low, high })
}
