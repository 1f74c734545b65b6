//! What was kept, as branches of the user's repository.

use super::{propose::unit, Branch, Series, SeriesError};
use crate::{
    report::{self, Row},
    spec::Spec,
    state::{Segment, Try},
};
use std::fmt::Write as _;

impl Series<'_> {
    /// Makes `PREFIX/try-N` for each kept try of the stack, and `PREFIX/stack` at the last. Their commits have the files of
    /// the stack's, and say in their messages what was measured. Either all of them are made, or, if one exists already,
    /// none.
    ///
    /// # Errors
    /// When nothing is kept, a branch exists, the prefix is not a name of a branch, or git refuses.
    pub fn export(&mut self, prefix: &str) -> Result<Vec<Branch>, SeriesError> {
        let current = self.current()?;
        let segment = self.state.current().ok_or(SeriesError::NoBaseline)?;
        if segment.keeps.is_empty() {
            return Err(SeriesError::NothingKept { segment: current.number, doing: "export" });
        }
        let prefix = prefix.trim_end_matches('/');
        let names =
            segment.keeps.iter().map(|kept| (format!("{prefix}/try-{}", kept.number), Some(kept.number)));
        let names = names.chain([(format!("{prefix}/stack"), None)]);
        let mut branches: Vec<Branch> =
            names.map(|(name, number)| Branch { name, commit: String::new(), number }).collect();
        if let Some(taken) = branches.iter().find(|branch| self.exists(&branch.name)) {
            return Err(SeriesError::BranchExists { name: taken.name.clone() });
        }
        let (rows, mut parent) = (report::rows(&self.state), current.start.clone());
        for (at, branch) in branches.iter_mut().enumerate() {
            if let Some(number) = branch.number {
                // After an override the tries stand in the stack under other ids than those of their candidates.
                let above = segment.keeps.len() - 1 - at;
                let commit = self.repository.resolve(&format!("{}~{above}", current.head))?;
                let known = segment.tries.iter().find(|known| known.number == number);
                let row = rows.iter().find(|row| row.number == number);
                let figures = known.zip(row).map(|(known, row)| figures(segment, &current.spec, known, row));
                let message = self.repository.message(&commit)?;
                let message = format!("{message}\n{}", figures.unwrap_or_default());
                parent = self.repository.reworded(&commit, &parent, &message)?;
            }
            branch.commit.clone_from(&parent);
        }
        for branch in &branches {
            self.repository.create_branch(&branch.name, &branch.commit)?;
        }
        Ok(branches)
    }

    fn exists(&self, branch: &str) -> bool {
        self.repository.resolve(&format!("refs/heads/{branch}")).is_ok()
    }
}

/// What was measured of a try, as trailers of a message.
fn figures(segment: &Segment, spec: &Spec, known: &Try, row: &Row) -> String {
    let mut text = String::new();
    let mut add = |name: &str, value: String| {
        // In one line, whatever stands in it: a trailer ends with its line.
        writeln!(text, "Duramen-{name}: {}", report::one_line(&value)).ok();
    };
    let metric = &spec.primary.metric;
    if let (Some(change), Some(effect)) = (&row.change, known.effect()) {
        let unit = unit(spec).map(|unit| format!(" {unit}")).unwrap_or_default();
        add(
            "Effect",
            format!("{metric} {change} (95 %), from {:.6} to {:.6}{unit}", effect.base, effect.candidate),
        );
    }
    if let (Some(p_value), Some(alpha)) = (row.p_value, row.alpha) {
        add("P-Value", format!("{p_value:.3e}, judged at {alpha:.3e}"));
    }
    add("Runs", row.samples.to_string());
    let held_out: Vec<String> = spec
        .held_out()
        .filter_map(|scale| Some(format!("{} {}", scale.name, row.scales.get(&scale.name)?)))
        .collect();
    add(
        "Held-Out",
        match (row.confirmed, held_out.is_empty()) {
            (Some(true), false) => format!("agrees: {}", held_out.join(", ")),
            (Some(false), false) => format!("does not agree: {}", held_out.join(", ")),
            (Some(true), true) => "no scale is held out; new samples agree".to_owned(),
            _ => "not measured".to_owned(),
        },
    );
    if let Some(by_hand) = &row.by_hand {
        add("Decided-By-Hand", by_hand.reason.clone());
    }
    add("Base", known.base.clone());
    add("Spec", format!("blake3 {}", blake3::hash(segment.spec.as_bytes()).to_hex()));
    add("Try", known.number.to_string());
    text
}
