//! Beginning a try: a claim and a change become a candidate on the head.

use super::{note, notes, short, Current, Ended, Series, SeriesError};
use crate::event::Event;
use std::{collections::BTreeMap, path::PathBuf};

/// The title of a candidate's commit is not longer than this, in characters.
const TITLE: usize = 72;

/// The log names so many files of a try.
const FILES_LIMIT: usize = 1_000;

/// Where a change comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// What the user's working tree holds now, committed or not; untracked files too, ignored ones not.
    WorkingTree,
    /// A branch, tag or commit.
    Branch(String),
    /// A file with a patch against the head.
    Patch(PathBuf),
}

impl Change {
    /// In words, as the log has it.
    #[must_use]
    pub fn source(&self) -> String {
        match self {
            Change::WorkingTree => "working tree".to_owned(),
            Change::Branch(name) => format!("branch {name}"),
            // The log is often shared: the folders of one machine are no business of others.
            Change::Patch(path) => {
                format!("patch {}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
            }
        }
    }
}

/// What a change is said to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// What should become better, and why.
    pub hypothesis: String,
    /// By which mechanism.
    pub mechanism: String,
    /// The line of thought that it belongs to.
    pub axis: Option<String>,
    /// The idea that it carries out.
    pub idea: Option<u32>,
    /// Try it even if its axis is closed.
    pub although_closed: bool,
    /// What else is to be said of it, by the name of the field; see [`notes`](super::notes).
    pub notes: BTreeMap<String, String>,
}

impl Claim {
    fn check(&self) -> Result<(), SeriesError> {
        note::check("the hypothesis", &self.hypothesis, "say what should become better, and why")?;
        note::check("the mechanism", &self.mechanism, "say by which mechanism it should become better")?;
        notes::check(&self.notes)?;
        match &self.axis {
            Some(axis) => note::check("the axis", axis, "name the line of thought, or leave it out"),
            None => Ok(()),
        }
    }

    /// The message of the candidate's commit.
    pub(super) fn message(&self, series: &str) -> String {
        let hypothesis = self.hypothesis.trim();
        let first = hypothesis.lines().next().unwrap_or_default();
        let mut title: String = first.chars().take(TITLE).collect();
        let mut body = String::new();
        if title != hypothesis {
            if title != first {
                title = title.chars().take(TITLE - 3).chain("...".chars()).collect();
            }
            body = format!("{hypothesis}\n\n");
        }
        format!("{title}\n\n{body}Mechanism: {}\n\nDuramen-Series: {series}\n", self.mechanism.trim())
    }
}

/// What [`Event::TryBegun`] holds besides the claim.
pub(super) struct Begun {
    pub(super) source: String,
    pub(super) base: String,
    pub(super) candidate: String,
    pub(super) files: Vec<String>,
    /// How long it took to propose it, in seconds.
    pub(super) asked_s: Option<f64>,
}

impl Series<'_> {
    /// Tries a change: makes a candidate of it on the head, measures both interleaved, and keeps it or not. A
    /// try that a kill left open is carried out before, and is the result if it is of the same change.
    ///
    /// # Errors
    /// When there is no baseline or the spec was changed since, the claim is incomplete, its axis is closed,
    /// nothing is changed, the change does not fit on the head, the budget is spent, the base itself fails,
    /// the caller asked to end, or git or the log refuse.
    pub fn attempt(&mut self, change: &Change, claim: &Claim) -> Result<Ended, SeriesError> {
        self.attempt_from(change, None, claim)
    }

    /// The same of a change of the commit that is named, or, where none is, of what it can only be a change of (X24).
    ///
    /// # Errors
    /// Those of [`attempt`](Self::attempt), and when none is named and it could be a change of several.
    pub fn attempt_from(
        &mut self,
        change: &Change,
        base: Option<&str>,
        claim: &Claim,
    ) -> Result<Ended, SeriesError> {
        claim.check()?;
        let current = self.ready()?;
        self.within_walls()?;
        self.check_axis(claim)?;
        if let Some(number) = claim.idea.filter(|number| !self.state.ideas.contains_key(number)) {
            return Err(SeriesError::NoIdea { number });
        }
        let message = claim.message(&current.spec.name);
        let taken = self.take_in(change, base, &current, &message)?;
        if let Some(open) = self.state.open_try().cloned() {
            let candidate = self.on_head(&taken, &current.head, &message)?;
            let is_same = self.repository.changed_files(&open.candidate, &candidate)?.is_empty();
            let ended = self.carry_out(&open)?;
            if is_same {
                return Ok(ended);
            }
        }
        let current = self.noise_if_due()?;
        self.check_budget(&current)?;
        // A try that was carried out just now may have moved the head.
        let candidate = self.on_head(&taken, &current.head, &message)?;
        let files = self.repository.changed_files(&current.head, &candidate)?;
        if files.is_empty() {
            let source_of_change = change.source();
            return Err(SeriesError::Unchanged { source_of_change, head: short(&current.head).to_owned() });
        }
        if !matches!(change, Change::Patch(_)) {
            let name = Self::tree_ref(&current.spec.name, self.state.next_try());
            self.repository.set_ref(&name, &taken.commit)?;
        }
        self.tell_reverts(&current, &candidate)?;
        let open = self.begin(
            &current,
            Begun { source: change.source(), base: current.head.clone(), candidate, files, asked_s: None },
            claim,
        )?;
        self.carry_out(&open)
    }

    /// Writes down that a try begins. Its commit is kept by a ref before that, so that git does not remove
    /// it.
    pub(super) fn begin(
        &mut self,
        current: &Current,
        begun: Begun,
        claim: &Claim,
    ) -> Result<crate::state::Try, SeriesError> {
        let number = self.state.next_try();
        let Begun { source, base, candidate, mut files, asked_s } = begun;
        let name = Self::reference(&current.spec.name, &format!("try-{number}"));
        self.repository.set_ref(&name, &candidate)?;
        self.say(&format!(
            "try {number}: {} ({} files, candidate {})",
            claim.hypothesis.trim(),
            files.len(),
            short(&candidate)
        ));
        // The log is no place for a list without end. Scope is checked on what git says, not on this.
        files.truncate(FILES_LIMIT);
        self.append(Event::TryBegun {
            number,
            source,
            base,
            candidate,
            hypothesis: claim.hypothesis.trim().to_owned(),
            mechanism: claim.mechanism.trim().to_owned(),
            axis: claim.axis.as_deref().map(str::trim).map(str::to_owned),
            idea: claim.idea,
            files,
            notes: claim.notes.clone(),
            asked_s,
        })?;
        self.state.open_try().cloned().ok_or(SeriesError::NoTry { number, segment: current.number })
    }

    fn check_axis(&self, claim: &Claim) -> Result<(), SeriesError> {
        match self.closed(claim.axis.as_deref()) {
            Some(closed) if !claim.although_closed => Err(closed),
            _ => Ok(()),
        }
    }

    /// Why a line of thought is not to be followed.
    pub(super) fn closed(&self, axis: Option<&str>) -> Option<SeriesError> {
        let closed = self.state.axes.get(axis?.trim()).filter(|axis| axis.closed)?;
        Some(SeriesError::AxisClosed { axis: closed.axis.clone(), mechanism: closed.mechanism.clone() })
    }

    pub(super) fn check_budget(&self, current: &Current) -> Result<(), SeriesError> {
        if self.tries_left(&current.spec) == 0 {
            return Err(SeriesError::Spent { segment: current.number, tries: current.spec.budget.tries });
        }
        Ok(())
    }
}
