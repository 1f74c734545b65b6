//! What happens beside the load: actions, one after the other, each awaiting the state that the next one needs.

use crate::error::{cannot_reach, refused, said};
use std::time::Duration;

use duramen_base::clock;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tokio_postgres::{Client, Statement};

use super::super::options::Options;
use super::super::pair::Pair;
use super::super::scenario::{Action, Holds, Node, Wait};
use super::counters::row;
use super::probe::Load;
use super::sample::wait_named;
use super::session::{within, PATIENCE};
use super::text::Names;
use duramen_reports::suite::SuiteError;

/// How long one statement beside the load may take: a set-up of millions of rows on a slow disk.
pub(super) const STATEMENT: Duration = Duration::from_secs(600);
/// How often a state is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How long the startup process may take to get into the wait that a scenario brings about.
const CONFLICT: Duration = Duration::from_secs(10);
/// The same where it is expected not to happen.
const NO_CONFLICT: Duration = Duration::from_secs(2);
/// How long the load may take to commit what an action waits for.
const COMMITS: Duration = Duration::from_secs(20);
/// How long the standby may take to replay what is there.
pub(super) const REPLAY: Duration = Duration::from_secs(600);

/// Carries out the actions of a pass.
pub(super) struct Stage<'a> {
    pair: &'a Pair,
    names: &'a Names,
    blocker: Duration,
    /// Whether the standby is to end the reader before the blocker's time is over.
    is_cut: bool,
    feedback: bool,
    /// Whether the wait that the actions bring about is expected.
    conflict_expected: bool,
    load: Option<&'a Load>,
    watch: Option<Watch>,
    hold: Option<Hold>,
    release: Option<JoinHandle<Result<Duration, String>>>,
    down: Option<Duration>,
    /// How long what is broken is to be so, and whether it is left whole: in a control.
    broken_for: Duration,
    control: bool,
    background: JoinSet<Result<(), SuiteError>>,
    set: Vec<(Node, &'static str)>,
    unmet: Vec<String>,
}

struct Hold {
    client: Client,
}

impl Hold {
    /// Returns when the server has ended the session.
    async fn ended(&self) {
        while !self.client.is_closed() {
            sleep(LOOK).await;
        }
    }
}

/// A session on the standby that is ready to look at its startup process.
struct Watch {
    client: Client,
    statement: Statement,
}

impl Watch {
    async fn open(pair: &Pair) -> Result<Self, SuiteError> {
        let client = pair.connect(Node::Standby).await?;
        let sql = "SELECT wait_event_type || ':' || wait_event FROM pg_stat_activity
                   WHERE backend_type = 'startup'";
        let doing = "prepare to look at the startup process";
        let statement = within(PATIENCE, doing, client.prepare(sql)).await?;
        Ok(Self { client, statement: statement.map_err(refused(doing, Node::Standby))? })
    }
}

impl<'a> Stage<'a> {
    /// For the actions of one pass or block. `load` is what [`Action::AwaitCommits`] counts.
    pub(super) fn new(
        pair: &'a Pair,
        options: &Options,
        names: &'a Names,
        feedback: bool,
        conflict_expected: bool,
        load: Option<&'a Load>,
    ) -> Self {
        Self {
            pair,
            names,
            blocker: options.blocker(),
            is_cut: options.cuts_readers_after().is_some(),
            feedback,
            conflict_expected,
            load,
            watch: None,
            hold: None,
            release: None,
            down: None,
            broken_for: Duration::ZERO,
            control: false,
            background: JoinSet::new(),
            set: Vec::new(),
            unmet: Vec::new(),
        }
    }

    /// How long what the actions break is to be broken, or that nothing is.
    pub(super) fn breaking(mut self, lasts: Duration, control: bool) -> Self {
        (self.broken_for, self.control) = (lasts, control);
        self
    }

    /// Carries them out. What was not seen in time, but does not keep the next action from being carried out, is noted
    /// as unmet.
    pub(super) async fn carry_out(&mut self, actions: &[Action]) -> Result<(), SuiteError> {
        for action in actions {
            self.one(action).await?;
        }
        Ok(())
    }

    async fn one(&mut self, action: &Action) -> Result<(), SuiteError> {
        match *action {
            Action::Run(sql) => {
                run_on_primary(self.pair, sql.iter().map(|sql| self.names.fill(sql)).collect()).await
            }
            Action::Start(sql) => {
                let client = local(self.pair).await?;
                let texts: Vec<_> = sql.iter().map(|sql| self.names.fill(sql)).collect();
                self.background.spawn(async move { run_all(&client, &texts).await });
                Ok(())
            }
            Action::RunTogether { sessions, sql } => self.run_together(sessions, sql).await,
            Action::AwaitReplay => self.pair.caught_up(REPLAY).await,
            Action::Hold { sql, holds } => self.hold(sql, holds).await,
            Action::Release => {
                self.release();
                Ok(())
            }
            Action::Set { node, name, value } => {
                // Noted first: what was changed half is put back too.
                self.set.push((node, name));
                self.pair.set(node, name, Some(value)).await
            }
            Action::StopStandby => {
                // Its sessions end with it.
                self.watch = None;
                let begin = clock::now();
                self.pair.stop_standby().await?;
                sleep(self.blocker).await;
                self.pair.start_standby().await?;
                self.down = Some(begin.elapsed());
                Ok(())
            }
            Action::Break { what, .. } => {
                let begin = clock::now();
                let broken = match self.control {
                    true => None,
                    false => Some(self.pair.breaks(what).await?),
                };
                sleep(self.broken_for).await;
                if let Some(broken) = broken {
                    broken.mended().await?;
                }
                self.down = Some(begin.elapsed());
                Ok(())
            }
            // For all of the pass, not for a block.
            Action::Slow(_) => Ok(()),
            Action::AwaitCommits(count) => self.await_commits(count).await,
            Action::AwaitStartup(waits) => self.await_startup(waits).await,
            Action::Checkpoint => run_on_primary(self.pair, vec!["CHECKPOINT".to_owned()]).await,
        }
    }

    async fn run_together(&self, sessions: u32, sql: &[&str]) -> Result<(), SuiteError> {
        let mut together = JoinSet::new();
        for session in 0..sessions {
            let texts: Vec<_> = sql.iter().map(|sql| self.names.fill_for_session(sql, session)).collect();
            let client = local(self.pair).await?;
            together.spawn(async move { run_all(&client, &texts).await });
        }
        all_ended(&mut together).await
    }

    async fn hold(&mut self, sql: &[&str], holds: Holds) -> Result<(), SuiteError> {
        // What is to be looked at later is looked at without delay.
        self.watch().await?;
        let client = self.pair.connect(Node::Standby).await?;
        let pid: i32 =
            row(&client, Node::Standby, "ask for a process id", "SELECT pg_backend_pid()", &[]).await?.get(0);
        for sql in sql {
            let sql = self.names.fill(sql);
            let doing = format!("run {sql:?}");
            within(STATEMENT, &doing, client.batch_execute(&sql))
                .await?
                .map_err(refused(doing.clone(), Node::Standby))?;
        }
        self.hold = Some(Hold { client });
        match holds {
            Holds::Nothing => return Ok(()),
            Holds::Lock(table) => {
                let sql = "SELECT EXISTS (SELECT FROM pg_locks
                               WHERE pid = $1 AND relation = to_regclass($2) AND granted)";
                self.await_true(Node::Standby, "the reader's lock", sql, &[&pid, &table]).await?;
            }
            Holds::Snapshot => {
                let sql = "SELECT coalesce(bool_or(backend_xmin IS NOT NULL), false) FROM pg_stat_activity WHERE pid = $1";
                self.await_true(Node::Standby, "the reader's snapshot", sql, &[&pid]).await?;
            }
        }
        if self.feedback {
            // What the standby told before is older than the snapshot, and protects it too.
            let sql = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE backend_xmin IS NOT NULL)
                           OR EXISTS (SELECT FROM pg_replication_slots WHERE xmin IS NOT NULL)";
            self.await_true(Node::Primary, "the feedback of the standby", sql, &[]).await?;
        }
        Ok(())
    }

    /// Begins the blocker's time in a task of its own: nothing else is to make it longer. Where the standby ends readers
    /// that are in the way, the time is over when it does.
    fn release(&mut self) {
        let Some(hold) = self.hold.take() else {
            self.unmet.push("there was nothing to release".to_owned());
            return;
        };
        let (lasts, is_cut) = (self.blocker, self.is_cut);
        self.release = Some(tokio::spawn(async move {
            let begin = clock::now();
            let was_ended = tokio::select! {
                biased;
                () = hold.ended() => true,
                () = sleep(lasts) => false,
            };
            if was_ended && is_cut {
                return Ok(begin.elapsed());
            }
            hold.client.batch_execute("COMMIT").await.map_err(|error| said(&error))?;
            Ok(begin.elapsed())
        }));
    }

    async fn await_commits(&mut self, count: u64) -> Result<(), SuiteError> {
        let Some(load) = self.load else { return Ok(()) };
        let begin = clock::now();
        while load.committed() < count {
            if begin.elapsed() > COMMITS {
                let seen = load.committed();
                self.unmet.push(format!("{seen} of {count} commits came within {} s", COMMITS.as_secs()));
                break;
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns as soon as the startup process waits so, or the reader that it was to wait for is no more.
    async fn await_startup(&mut self, waits: &[Wait]) -> Result<(), SuiteError> {
        let limit = if self.conflict_expected { CONFLICT } else { NO_CONFLICT };
        let doing = "look what the startup process waits for";
        self.watch().await?;
        let Some(watch) = &self.watch else { return Ok(()) };
        let is_over = || self.hold.as_ref().is_some_and(|hold| hold.client.is_closed());
        let begin = clock::now();
        while begin.elapsed() < limit && !is_over() {
            let seen = within(PATIENCE, doing, watch.client.query_opt(&watch.statement, &[])).await?;
            let seen: Option<String> =
                seen.map_err(refused(doing, Node::Standby))?.and_then(|row| row.get(0));
            if seen.as_deref().and_then(wait_named).is_some_and(|wait| waits.contains(&wait)) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// The session that looks at the startup process, opened by the first who needs it.
    async fn watch(&mut self) -> Result<&Watch, SuiteError> {
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => Watch::open(self.pair).await?,
        };
        Ok(self.watch.insert(watch))
    }

    async fn await_true(
        &self,
        node: Node,
        what: &str,
        sql: &str,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<(), SuiteError> {
        let client = self.pair.connect(node).await?;
        let begin = clock::now();
        // Where readers are ended, this one may be before anybody has looked at it.
        let is_over = || self.is_cut && self.hold.as_ref().is_some_and(|hold| hold.client.is_closed());
        while !row(&client, node, what, sql, parameters).await?.get::<_, bool>(0) && !is_over() {
            if begin.elapsed() > PATIENCE {
                return Err(SuiteError::Timeout { what: what.to_owned(), seconds: PATIENCE.as_secs() });
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until everything that was begun has ended. Returns how long what held up the replay lasted.
    pub(super) async fn finish(&mut self) -> Result<Option<Duration>, SuiteError> {
        let mut lasted = self.down;
        if let Some(release) = self.release.take() {
            match within(self.blocker + PATIENCE, "the reader's transaction to end", release).await? {
                Ok(Ok(length)) => lasted = Some(length),
                Ok(Err(error)) => self.unmet.push(format!("the reader's transaction was ended: {error}")),
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
        // One that was never released ends here.
        self.hold = None;
        all_ended(&mut self.background).await?;
        Ok(lasted)
    }

    /// Puts back what was set.
    pub(super) async fn put_back(&mut self) -> Result<(), SuiteError> {
        while let Some((node, name)) = self.set.pop() {
            self.pair.set(node, name, None).await?;
        }
        Ok(())
    }

    /// What was not seen in time, so far.
    pub(super) fn take_unmet(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unmet)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // Of a pass that was given up: the reader's session ends with its transaction.
        if let Some(release) = &self.release {
            release.abort();
        }
    }
}

/// A session on the primary whose commits do not wait for the standby.
pub(super) async fn local(pair: &Pair) -> Result<Client, SuiteError> {
    let target = pair.target(Node::Primary).clone().settings([("synchronous_commit", "local")]);
    let connected = target.connect().await;
    connected.map_err(cannot_reach(Node::Primary))
}

/// Runs statements on the primary, one after the other, in a session of their own at level local.
pub(in super::super) async fn run_on_primary(pair: &Pair, texts: Vec<String>) -> Result<(), SuiteError> {
    let client = local(pair).await?;
    run_all(&client, &texts).await
}

async fn run_all(client: &Client, texts: &[String]) -> Result<(), SuiteError> {
    for sql in texts {
        let doing = format!("run {sql:?}");
        within(STATEMENT, &doing, client.batch_execute(sql))
            .await?
            .map_err(refused(doing.clone(), Node::Primary))?;
    }
    Ok(())
}

async fn all_ended(tasks: &mut JoinSet<Result<(), SuiteError>>) -> Result<(), SuiteError> {
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    }
    Ok(())
}
