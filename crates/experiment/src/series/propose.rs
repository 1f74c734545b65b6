//! An autonomous run: somebody proposes changes, each of them is tried, until a rule ends it.

mod answer;
mod hidden;
mod profile;
mod prompt;
mod question;
mod rules;
mod walls;

use super::{
    attempt::Begun,
    candidate::PROPOSAL,
    error::fail,
    place::{deadline, failure, OUTPUT_LIMIT},
    Claim, Current, Ended, Series, SeriesError, Stopped,
};
use crate::{
    agents::{Agent, AgentError, Prompt, PROMPT_VARIABLE},
    event::{Event, Verdict},
    git::delete,
    plain,
    run::{self, Job},
    spec::{ProposerSpec, Span},
    verdict,
};
use answer::Answer;
use duramen_base::{clock, file};
use hidden::Hidden;
pub(super) use question::unit;
use question::About;
use rules::{Rule, Time};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
pub(super) use walls::clear;

/// The variable that holds the worktree that the proposer may edit, which is its current folder too.
const WORKTREE_VARIABLE: &str = "DURAMEN_WORKTREE";
/// The variable that holds the number of the try.
const TRY_VARIABLE: &str = "DURAMEN_TRY";
/// The variable that holds the name of the file for the answer.
const ANSWER_VARIABLE: &str = "DURAMEN_ANSWER";
/// The file with the prompt, in the work folder.
const PROMPT: &str = "proposal.prompt";
/// What the file for the answer is called, unless the program has one of that name.
const ANSWER: &str = "duramen-answer";

/// Where proposed changes come from, as the log has it.
const SOURCE: &str = "proposed";
/// The hypothesis of a try that came without one.
const NO_HYPOTHESIS: &str = "(the proposer said none)";

/// Who proposes changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposer {
    /// A command for `sh -c`: it gets a JSON document on its standard input.
    Command(String),
    /// A coding agent, with further arguments: it gets a prompt.
    Agent(&'static Agent, Vec<String>),
}

impl Proposer {
    /// The one that a spec names.
    ///
    /// # Errors
    /// When it names none, or an agent that there is not.
    fn of(spec: &ProposerSpec) -> Result<Proposer, SeriesError> {
        match (&spec.agent, &spec.command) {
            (Some(name), _) => Ok(Proposer::Agent(Agent::find(name)?, spec.arguments.clone())),
            (None, Some(command)) => Ok(Proposer::Command(command.clone())),
            (None, None) => Err(SeriesError::NoProposer),
        }
    }
}

/// How long a run may go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// After so many tries, even if the spec has more.
    pub tries: Option<u32>,
    /// After this, whatever the spec says.
    pub time: Option<Duration>,
}

/// What a proposer came to.
enum Proposed {
    /// A change, with what is said of it.
    Change(Begun, Claim),
    /// Something that is not a try, and why. It counts as one, or it would go on for ever.
    Nonsense(Begun, Claim, String),
    /// It has nothing more to propose.
    Nothing(String),
    /// An agent failed, and how: what it left is not looked at.
    Failed(String),
}

enum Step {
    Tried(Box<Ended>),
    Stop(Rule),
    Failed(String),
}

impl Series<'_> {
    /// Asks for a change, in a worktree of the head, and tries what was changed there; again, until a rule of the spec or a
    /// limit ends it. Who is asked is given, or else named by the spec (`docs/design/experiments.md`, "The proposer").
    ///
    /// Tries that were proposed since the last end of a run count as those of this one: a run that was killed
    /// is gone on with.
    ///
    /// # Errors
    /// When there is no baseline or the spec was changed since, nobody is named, the agent is not installed or fails again
    /// and again, the base itself fails, or git or the log refuse. That the caller asked to end is not an error: it is how
    /// the run ended.
    pub fn propose(&mut self, proposer: Option<Proposer>, limits: Limits) -> Result<Stopped, SeriesError> {
        let begin = clock::now();
        let ready = self.ready()?;
        let proposer = proposer.map_or_else(|| Proposer::of(&ready.spec.proposer), Ok)?;
        if let Proposer::Agent(agent, _) = &proposer {
            agent.found()?;
        }
        self.within_walls()?;
        let limit = limits.time.unwrap_or(ready.spec.budget.limit());
        let time = Time { limit, begin };
        self.deadline = begin.checked_add(limit);
        let mut tries = Vec::new();
        let ended = self.steps(&proposer, limits.tries, time, &mut tries);
        self.deadline = None;
        let (Rule { name, words }, failed) = match ended {
            Ok(rule) => (rule, None),
            Err(SeriesError::Cancelled) if time.is_over() => {
                (Rule::out_of_time(limit, self.state.open_try()), None)
            }
            Err(SeriesError::Cancelled) => (Rule::interrupted(), None),
            Err(SeriesError::Agent(error)) => (Rule::failed(&error), Some(error)),
            Err(error) => return Err(error),
        };
        self.append(Event::Stopped { rule: name.to_owned(), words: words.clone() })?;
        self.say(&words);
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Stopped { rule: name.to_owned(), words, tries }),
        }
    }

    fn steps(
        &mut self,
        proposer: &Proposer,
        max_tries: Option<u32>,
        time: Time,
        tries: &mut Vec<Ended>,
    ) -> Result<Rule, SeriesError> {
        let mut failures = 0;
        loop {
            match self.step(proposer, max_tries, time)? {
                Step::Tried(ended) => {
                    failures = 0;
                    tries.push(*ended);
                }
                Step::Stop(rule) => return Ok(rule),
                Step::Failed(how) => {
                    failures += 1;
                    self.say(&format!("the proposer failed: {how}"));
                    let Proposer::Agent(agent, _) = proposer else { continue };
                    if failures >= self.ready()?.spec.stop.same_failure.max(1) {
                        let (agent, sign_in) = (agent.name, agent.sign_in);
                        return Err(AgentError::Failed { agent, times: failures, how, sign_in }.into());
                    }
                }
            }
        }
    }

    fn step(&mut self, proposer: &Proposer, max_tries: Option<u32>, time: Time) -> Result<Step, SeriesError> {
        if let Some(open) = self.state.open_try().cloned() {
            return Ok(Step::Tried(Box::new(self.carry_out(&open)?)));
        }
        let ready = self.ready()?;
        if let Some(rule) = rules::broken(&self.state, &ready.spec, max_tries, time) {
            return Ok(Step::Stop(rule));
        }
        self.is_cancelled()?;
        self.noise_if_due()?;
        let current = self.ready()?;
        self.restore_head(&current)?;
        self.profile(&current)?;
        let begin = clock::now();
        let proposed = self.ask(proposer, &current, time)?;
        let asked_s = Some(begin.elapsed().as_secs_f64());
        match proposed {
            Proposed::Nothing(words) => Ok(Step::Stop(Rule::proposer(words))),
            Proposed::Failed(how) => Ok(Step::Failed(how)),
            Proposed::Change(begun, claim) => {
                let begun = Begun { asked_s, ..begun };
                let open = self.begin(&current, begun, &claim)?;
                Ok(Step::Tried(Box::new(self.carry_out(&open)?)))
            }
            Proposed::Nonsense(begun, claim, reason) => {
                let begun = Begun { asked_s, ..begun };
                let open = self.begin(&current, begun, &claim)?;
                let judgement = verdict::unmeasured(&current.spec, Verdict::Invalid, reason);
                Ok(Step::Tried(Box::new(self.end(&current, &open, judgement)?)))
            }
        }
    }

    /// Asks the proposer once.
    fn ask(&self, proposer: &Proposer, current: &Current, time: Time) -> Result<Proposed, SeriesError> {
        let number = self.state.next_try();
        let tree = self.repository.worktree(&self.work.join(PROPOSAL), &current.head, false)?.path;
        self.repository.set_apart(&tree, &self.withheld())?;
        let answer = answer_name(&tree);
        let hidden = Hidden::new(&current.spec, self.state.current(), super::walls::home().as_deref());
        let about = About {
            state: &self.state,
            current,
            tree: &tree,
            number,
            left: self.tries_left(&current.spec),
            answer: &answer,
            hidden: &hidden,
        };
        let prompt = self.work.join(PROMPT);
        let text = prompt::write(&about);
        file::replace(&prompt, text.as_bytes(), 0o600).map_err(fail("write", &prompt))?;

        let (agent, command, input) = match proposer {
            Proposer::Command(command) => {
                self.say(&format!("try {number}: asking the proposer"));
                (None, command.clone(), Some(question::write(&about).to_string().into_bytes()))
            }
            Proposer::Agent(agent, more) => {
                self.say(&format!("try {number}: asking {}", agent.name));
                let input = (agent.prompt == Prompt::Stdin).then(|| text.into_bytes());
                (Some(*agent), agent.command(self.cage.is_some(), more), input)
            }
        };
        let room = self.room(&current.spec, &tree, &prompt, &command, agent)?;
        let limit = current.spec.budget.proposer_timeout_s;
        let mut env = vec![
            (WORKTREE_VARIABLE.to_owned(), tree.to_string_lossy().into_owned()),
            (TRY_VARIABLE.to_owned(), number.to_string()),
            (ANSWER_VARIABLE.to_owned(), answer.clone()),
            (PROMPT_VARIABLE.to_owned(), prompt.to_string_lossy().into_owned()),
        ];
        env.extend(room.iter().flat_map(|room| room.env.clone()));
        let job = Job {
            command,
            dir: tree.clone(),
            env,
            unset: &[],
            keep: room.as_ref().map(|room| room.keep.clone()),
            input,
            timeout: deadline(limit).min(time.left()),
            pin: false,
            caged: room.as_ref().map(|room| room.caged.clone()),
            output_limit: OUTPUT_LIMIT,
        };
        let before = names(&tree).map_err(fail("read the folder", &tree))?;
        let ran = self.run(&job)?;
        drop(room);
        if matches!(ran.ended, run::Ended::TimedOut) && time.is_over() {
            return Err(SeriesError::Cancelled);
        }
        if let Some(why) = failure(&ran, limit) {
            let why = plain::text(&why);
            return Ok(match (agent, &ran.ended) {
                (Some(_), run::Ended::Code(_) | run::Ended::Signal(_) | run::Ended::NotStarted(_)) => {
                    Proposed::Failed(why)
                }
                _ => nonsense(current, Claim::default(), format!("the proposer failed: {why}")),
            });
        }
        let said = Answer::find(&tree.join(&answer), &ran.stdout);
        if let Err(error) = leave_out(&tree, &answer, agent, &before) {
            let why = format!("the proposer left what cannot be removed: {error}");
            return Ok(nonsense(current, Claim::default(), why));
        }
        let answer = match said {
            Ok(answer) => answer,
            Err(why) => return Ok(nonsense(current, Claim::default(), why)),
        };
        if answer.stop {
            return Ok(Proposed::Nothing(answer.why_stop()));
        }
        let claim = match answer.claim() {
            (claim, None) => claim,
            (claim, Some(why)) => return Ok(nonsense(current, claim, why)),
        };
        self.look_at(current, &tree, claim)
    }

    /// The files that say what is held out, and what was drawn of it: they are not in a proposer's worktree.
    fn withheld(&self) -> Vec<PathBuf> {
        let inside = Path::new(&self.inside);
        super::TOP_FILES.iter().map(|name| inside.join(name)).collect()
    }

    /// Makes a candidate of what the proposer left in its worktree. Commits that it made there count for
    /// nothing, only the files do.
    fn look_at(&self, current: &Current, tree: &Path, mut claim: Claim) -> Result<Proposed, SeriesError> {
        let head = &current.head;
        let message = claim.message(&current.spec.name);
        let candidate = match self.repository.snapshot(tree, head, &message, &self.withheld()) {
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
        let begun = Begun { source: SOURCE.to_owned(), base: head.clone(), candidate, files, asked_s: None };
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

/// A name that no file of the program has.
fn answer_name(tree: &Path) -> String {
    let names = (0..).map(|number| match number {
        0 => format!("{ANSWER}.json"),
        number => format!("{ANSWER}-{number}.json"),
    });
    names.into_iter().find(|name| tree.join(name).symlink_metadata().is_err()).unwrap_or_default()
}

/// The names in a folder.
fn names(tree: &Path) -> std::io::Result<BTreeSet<OsString>> {
    fs::read_dir(tree)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// Removes what is no part of the change: the answer, and what an agent keeps beside its work, if it was not there `before`.
fn leave_out(
    tree: &Path,
    answer: &str,
    agent: Option<&Agent>,
    before: &BTreeSet<OsString>,
) -> Result<(), Box<dyn std::error::Error>> {
    let leaves: &[&str] = agent.map_or(&[], |agent| agent.leaves);
    for name in names(tree)?.difference(before) {
        let text = name.to_string_lossy();
        if text == answer || leaves.iter().any(|begin| text.starts_with(begin)) {
            delete(&tree.join(name))?;
        }
    }
    Ok(())
}

/// A try of the head itself, as which a proposal is written down that is none.
fn nonsense(current: &Current, mut claim: Claim, reason: String) -> Proposed {
    if claim.hypothesis.is_empty() {
        claim.hypothesis = NO_HYPOTHESIS.to_owned();
    }
    let head = current.head.clone();
    let begun = Begun {
        source: SOURCE.to_owned(),
        base: head.clone(),
        candidate: head,
        files: Vec::new(),
        asked_s: None,
    };
    Proposed::Nonsense(begun, claim, reason)
}
