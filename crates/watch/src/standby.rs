//! What is asked of a standby, by a task of its own: one that does not answer holds nobody up.

use crate::{
    line::{Line, Unread},
    observation::Sight,
};
use duramen_postgres::connection::Target;
use duramen_replication::pass::sample::wait_named;
use std::time::Duration;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

/// How often it is looked at while nobody waits.
const IDLE: Duration = Duration::from_secs(1);
/// A look that was asked for is waited for so long: the primary is not looked at meanwhile.
const ANSWER: Duration = Duration::from_millis(50);

const QUESTION: &str = "
    WITH startup AS (SELECT pid, wait_event_type AS type, wait_event AS event FROM pg_stat_activity
        WHERE backend_type = 'startup')
    SELECT (SELECT type || ':' || event FROM startup),
        (SELECT coalesce(wait_event_type || ':' || wait_event, 'busy') FROM pg_stat_activity
            WHERE backend_type = 'walreceiver' LIMIT 1),
        EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming'),
        pg_is_wal_replay_paused(),
        (SELECT format('process %s (%s of %s), in its transaction for %s s', pid,
                coalesce(nullif(application_name, ''), 'unnamed'), usename,
                round(extract(epoch FROM clock_timestamp() - xact_start)))
            FROM pg_stat_activity WHERE pid = CASE (SELECT type FROM startup)
                WHEN 'Lock' THEN (SELECT held.pid FROM pg_locks wanted JOIN pg_locks held USING (locktype, database, relation)
                    WHERE NOT wanted.granted AND held.granted AND wanted.pid = (SELECT pid FROM startup) LIMIT 1)
                WHEN 'IPC' THEN (SELECT pid FROM pg_stat_activity
                    WHERE backend_type = 'client backend' AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
                    ORDER BY age(backend_xmin) DESC, xact_start LIMIT 1)
            END)";

/// What a standby is called on its primary (`application_name` of its connection, by the server's own rules).
pub(crate) const NAME: &str = r"
    SELECT coalesce(
        (SELECT substring(conninfo FROM '(?:^|\s)application_name=''?([^'' ]+)') FROM pg_stat_wal_receiver),
        nullif(current_setting('cluster_name'), ''), 'walreceiver')";

/// A standby that is looked at.
pub(crate) struct Companion {
    /// Its name on the primary.
    pub(crate) name: String,
    wanted: watch::Sender<u64>,
    seen: watch::Receiver<(u64, Option<Sight>)>,
    task: JoinHandle<()>,
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Companion {
    /// Begins to look at it.
    pub(crate) fn start(target: &Target, name: String) -> Self {
        let (wanted, mut asked) = watch::channel(0);
        let (show, seen) = watch::channel((0, None));
        let mut line = Line::new(target, [QUESTION]);
        let task = tokio::spawn(async move {
            loop {
                // Nobody asks: then it is time.
                if matches!(timeout(IDLE, asked.changed()).await, Ok(Err(_))) {
                    return;
                }
                let number = *asked.borrow_and_update();
                let sight = look(&mut line).await;
                if show.send((number, sight)).is_err() {
                    return;
                }
            }
        });
        Self { name, wanted, seen, task }
    }

    /// What it shows now. `None`: not known yet.
    pub(crate) async fn look(&mut self) -> Option<Sight> {
        let number = *self.wanted.borrow() + 1;
        self.wanted.send_replace(number);
        // A late one is seen the next time. Whether it answers at all is what it showed last.
        let last = self.last().filter(|sight| *sight == Sight::Unreachable);
        match timeout(ANSWER, self.seen.wait_for(|(answered, _)| *answered >= number)).await {
            Ok(Ok(seen)) => seen.1.clone(),
            Ok(Err(_)) => None,
            Err(_) => last,
        }
    }

    /// What it showed last.
    pub(crate) fn last(&self) -> Option<Sight> {
        self.seen.borrow().1.clone()
    }
}

async fn look(line: &mut Line<1>) -> Option<Sight> {
    match line.ask().await {
        Ok([rows]) => {
            let row = rows.first()?;
            let startup: Option<String> = row.get(0);
            Some(Sight::Answers {
                wait: startup.as_deref().and_then(wait_named),
                startup,
                receiver: row.get(1),
                is_receiving: row.get(2),
                is_paused: row.get(3),
                reader: row.get(4),
            })
        }
        // The replay may cancel our question, too.
        Err(Unread::Error(_)) => None,
        Err(Unread::Gone(_) | Unread::Late) => Some(Sight::Unreachable),
    }
}
