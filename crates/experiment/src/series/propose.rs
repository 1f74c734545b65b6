//! An autonomous run: a command proposes changes, each of them is tried, until a rule ends it.

mod answer;
mod question;
mod rules;

use super::{
    attempt::Begun, candidate::PROPOSAL, place::failure, Claim, Current, Ended, Series, SeriesError, Stopped,
};
use crate::{
    event::{Event, Verdict},
    verdict,
};
use answer::Answer;
use duramen_base::clock;
use rules::Rule;
use std::path::Path;

/// The variable that holds the worktree that the proposer may edit, which is its current folder too.
const WORKTREE_VARIABLE: &str = "DURAMEN_WORKTREE";

/// The variable that holds the number of the try.
const TRY_VARIABLE: &str = "DURAMEN_TRY";

/// Where proposed changes come from, as the log has it.
const SOURCE: &str = "proposed";
/// The hypothesis of a try that came without one.
const NO_HYPOTHESIS: &str = "(the proposer said none)";

/// What a proposer came to.
enum Proposed {
    /// A change, with what is said of it.
    Change(Begun, Claim),
    /// Something that is not a try, and why. It counts as one, or it would go on for ever.
    Nonsense(Begun, Claim, String),
    /// It has nothing more to propose.
    Nothing(String),
}

impl Series<'_> {
    /// Runs `command` by `sh -c` for each try, in a worktree of the head, and tries what it changed there. It
    /// is given JSON on its standard input, and prints a line of JSON (`docs/design/experiments.md`, "The
    /// proposer"). Ends by the spec's rules, or after `max_tries`.
    ///
    /// Tries that were proposed since the last end of a run count as those of this one: a run that was killed
    /// is gone on with.
    ///
    /// # Errors
    /// When there is no baseline or the spec was changed since, the base itself fails, or git or the log
    /// refuse. That the caller asked to end is not an error: it is how the run ended.
    pub fn propose(&mut self, command: &str, max_tries: Option<u32>) -> Result<Stopped, SeriesError> {
        let begin = clock::now();
        self.ready()?;
        self.within_walls()?;
        let mut tries = Vec::new();
        let rule = loop {
            match self.step(command, max_tries, begin.elapsed()) {
                Ok(Step::Tried(ended)) => tries.push(*ended),
                Ok(Step::Stop(rule)) => break rule,
                Err(SeriesError::Cancelled) => break Rule::interrupted(),
                Err(error) => return Err(error),
            }
        };
        let Rule { name, words } = rule;
        self.append(Event::Stopped { rule: name.to_owned(), words: words.clone() })?;
        self.say(&words);
        Ok(Stopped { rule: name.to_owned(), words, tries })
    }

    fn step(
        &mut self,
        command: &str,
        max_tries: Option<u32>,
        elapsed: std::time::Duration,
    ) -> Result<Step, SeriesError> {
        if let Some(open) = self.state.open_try().cloned() {
            return Ok(Step::Tried(Box::new(self.carry_out(&open)?)));
        }
        let ready = self.ready()?;
        if let Some(rule) = rules::broken(&self.state, &ready.spec, max_tries, elapsed) {
            return Ok(Step::Stop(rule));
        }
        self.is_cancelled()?;
        let current = self.noise_if_due()?;
        self.restore_head(&current)?;
        match self.ask(command, &current)? {
            Proposed::Nothing(words) => Ok(Step::Stop(Rule::proposer(words))),
            Proposed::Change(begun, claim) => {
                let open = self.begin(&current, begun, &claim)?;
                Ok(Step::Tried(Box::new(self.carry_out(&open)?)))
            }
            Proposed::Nonsense(begun, claim, reason) => {
                let open = self.begin(&current, begun, &claim)?;
                let judgement = verdict::unmeasured(&current.spec, Verdict::Invalid, reason);
                Ok(Step::Tried(Box::new(self.end(&current, &open, judgement)?)))
            }
        }
    }

    /// Runs the proposer once.
    fn ask(&self, command: &str, current: &Current) -> Result<Proposed, SeriesError> {
        let number = self.state.next_try();
        self.say(&format!("try {number}: asking the proposer"));
        let tree = self.repository.worktree(&self.work.join(PROPOSAL), &current.head, false)?.path;
        let question = question::write(&self.state, current, &tree, number, self.tries_left(&current.spec));
        let env = vec![
            (WORKTREE_VARIABLE.to_owned(), tree.to_string_lossy().into_owned()),
            (TRY_VARIABLE.to_owned(), number.to_string()),
        ];
        let limit = current.spec.budget.proposer_timeout_s;
        let ran = self.command(command, &tree, limit, Some(question), env, None)?;
        if let Some(why) = failure(&ran, limit) {
            return Ok(nonsense(current, Claim::default(), format!("the proposer failed: {why}")));
        }
        let answer = match Answer::parse(&ran.stdout) {
            Ok(answer) => answer,
            Err(why) => return Ok(nonsense(current, Claim::default(), why)),
        };
        if answer.stop {
            return Ok(Proposed::Nothing(answer.why_stop()));
        }
        let claim = match answer.claim() {
            Ok(claim) => claim,
            Err((claim, why)) => return Ok(nonsense(current, claim, why)),
        };
        self.look_at(current, &tree, claim)
    }

    /// Makes a candidate of what the proposer left in its worktree. Commits that it made there count for
    /// nothing, only the files do.
    fn look_at(&self, current: &Current, tree: &Path, mut claim: Claim) -> Result<Proposed, SeriesError> {
        let head = &current.head;
        let candidate = match self.repository.snapshot(tree, head, &claim.message(&current.spec.name), &[]) {
            Ok(candidate) => candidate,
            Err(error) => {
                return Ok(nonsense(current, claim, format!("the proposer broke its worktree: {error}")))
            }
        };
        let files = self.repository.changed_files(head, &candidate)?;
        if files.is_empty() {
            return Ok(nonsense(current, claim, "the proposer changed nothing".to_owned()));
        }
        self.tell_reverts(current, &candidate)?;
        let begun = Begun { source: SOURCE.to_owned(), base: head.clone(), candidate, files };
        if let Some(number) = claim.idea.filter(|number| !self.state.ideas.contains_key(number)) {
            self.say(&format!("the proposer names idea {number}, which there is not"));
            claim.idea = None;
        }
        if let Some(closed) = self.closed(claim.axis.as_deref()) {
            return Ok(Proposed::Nonsense(begun, claim, closed.to_string()));
        }
        Ok(Proposed::Change(begun, claim))
    }
}

enum Step {
    Tried(Box<Ended>),
    Stop(Rule),
}

/// A try of the head itself, as which a proposal is written down that is none.
fn nonsense(current: &Current, mut claim: Claim, reason: String) -> Proposed {
    if claim.hypothesis.is_empty() {
        claim.hypothesis = NO_HYPOTHESIS.to_owned();
    }
    let head = current.head.clone();
    let begun = Begun { source: SOURCE.to_owned(), base: head.clone(), candidate: head, files: Vec::new() };
    Proposed::Nonsense(begun, claim, reason)
}
