//! What is broken between the servers of a pair of our own, and put right again whatever happens.
//!
//! Who puts it right is a guardian that was there before it was broken: when the pass is over, when it is given up, and
//! when this process is killed. Only the network is ours to begin with, and goes with this process.

use crate::error::refused;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use duramen_postgres::Guardian;
use rustix::process::{kill_process, Signal};
use tokio_postgres::types::ToSql;

use super::super::pass::within;
use super::super::scenario::{Breakage, Node};
use super::own::Own;
use super::{answered, blocking, disk, until, Pair, EFFECT, MAKE, SYNCHRONOUS};
use duramen_reports::suite::SuiteError;

/// Lets the process $2 go on, if it is one that works in the folder $1.
const GO_ON: &str = r#"
    read -r _
    case "$(readlink "/proc/$2/cwd")" in "$1" | "$1"/*) kill -CONT "$2" ;; esac
"#;
/// Traces the process $1 and delays each of its flushes by $2 microseconds, until the end of its input. It says that it is
/// attached when it is: the process has a tracer then.
const SLOW_FLUSH: &str = r#"
    trap '' PIPE
    strace -qq -p "$1" -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_exit="$2" \
        -e signal=none -o /dev/null </dev/null >/dev/null &
    tracer=$!
    until grep -q "^TracerPid:[[:space:]]*[1-9]" "/proc/$1/status"; do
        kill -0 "$tracer" || exit 1
        sleep 0.01
    done
    echo attached
    read -r _
    kill "$tracer"
    wait "$tracer"
"#;
/// A tracer is attached within this.
const ATTACHED: Duration = Duration::from_secs(10);
/// How often a receiver is stopped until it is while it waits for the network.
const TRIES: u32 = 500;
/// How long it goes on between two of them.
const BETWEEN: Duration = Duration::from_millis(2);

/// Something that is broken. When this is dropped it is put right.
#[must_use]
pub(in super::super) struct Broken<'a> {
    pair: &'a Pair,
    what: What,
}

enum What {
    /// A guardian that puts it right when it is let go.
    Guarded {
        _guardian: Guardian,
    },
    Network(Arc<Own>),
}

impl Drop for What {
    fn drop(&mut self) {
        if let What::Network(own) = self {
            if let Some(proxy) = own.proxy() {
                proxy.block(false);
                proxy.set_jitter(Duration::ZERO);
            }
        }
    }
}

impl Broken<'_> {
    /// Puts it right, and returns when the standby is synchronous.
    pub(in super::super) async fn mended(self) -> Result<(), SuiteError> {
        let Self { pair, what } = self;
        blocking(move || {
            drop(what);
            Ok(())
        })
        .await?;
        pair.synchronous(SYNCHRONOUS).await
    }
}

impl Pair {
    /// Makes what is to be broken breakable. [`Pair::breakable_no_more`] undoes it.
    ///
    /// # Errors
    /// [`SuiteError::Options`] for a pair that is not our own.
    pub(in super::super) async fn prepare_to_break(&self, what: Breakage) -> Result<(), SuiteError> {
        let own = self.own()?;
        match what {
            Breakage::Receiver | Breakage::Flush(_) => {}
            Breakage::Network | Breakage::Jitter(_) => {
                if let Some(detour) = blocking(move || own.detour()).await? {
                    self.set(Node::Standby, "primary_conninfo", Some(&detour)).await?;
                    self.receiving(&detour).await?;
                }
            }
            Breakage::Loss(_) => {
                let by_hop = blocking(move || own.add_hop()).await?;
                self.set(Node::Standby, "primary_conninfo", Some(&by_hop)).await?;
                self.receiving(&by_hop).await?;
            }
            Breakage::Disk => {
                let newest = self.newest_segment().await?;
                blocking(move || own.add_disk(&newest)).await?;
                self.synchronous(SYNCHRONOUS).await?;
            }
        }
        Ok(())
    }

    /// The last segment of WAL that the standby needs; what it has from before its last restart point, it no longer does.
    async fn newest_segment(&self) -> Result<String, SuiteError> {
        for node in [Node::Primary, Node::Standby] {
            let client = self.admin(node).await?;
            let checkpoint = client.batch_execute("CHECKPOINT");
            within(MAKE, "a checkpoint to end", checkpoint)
                .await?
                .map_err(refused("write a checkpoint", node))?;
            if node == Node::Primary {
                self.caught_up(SYNCHRONOUS).await?;
            }
        }
        // The primary's: the standby has none after it.
        let primary = self.admin(Node::Primary).await?;
        let asked = primary.query_one("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8", &[]);
        let row = answered("ask how far the WAL is written", Node::Primary, asked).await?;
        Ok(disk::segment(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
    }

    /// Undoes what [`Pair::prepare_to_break`] did.
    ///
    /// # Errors
    /// What could not be undone.
    pub(in super::super) async fn breakable_no_more(&self, what: Breakage) -> Result<(), SuiteError> {
        let own = self.own()?;
        if what == Breakage::Disk && !own.has_disk() {
            // It was not made, and the standby may have been stopped for it.
            return self.start_standby().await;
        }
        if what == Breakage::Disk {
            let newest = self.newest_segment().await?;
            blocking(move || own.remove_disk(&newest)).await?;
            return self.synchronous(SYNCHRONOUS).await;
        }
        let is_detoured =
            self.ledger.lock().await.record().setting(Node::Standby, "primary_conninfo").is_some();
        if matches!(what, Breakage::Network | Breakage::Jitter(_) | Breakage::Loss(_)) && is_detoured {
            self.set(Node::Standby, "primary_conninfo", None).await?;
            let standby = self.admin(Node::Standby).await?;
            let conninfo = super::settings::current(&standby, Node::Standby, "primary_conninfo").await?;
            self.receiving(&conninfo).await?;
        }
        // Without a detour the proxy was there before, for the distance; a hop never is.
        let is_hop = matches!(what, Breakage::Loss(_));
        if is_hop || is_detoured && matches!(what, Breakage::Network | Breakage::Jitter(_)) {
            blocking(move || {
                if is_hop {
                    own.remove_hop();
                } else {
                    own.end_detour();
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until the standby receives by way of a connection string, and is synchronous.
    async fn receiving(&self, conninfo: &str) -> Result<(), SuiteError> {
        let standby = self.admin(Node::Standby).await?;
        // The folder of the socket is the host.
        let sql = "SELECT count(*) > 0 FROM pg_stat_wal_receiver
                   WHERE status = 'streaming' AND position(sender_host IN $1) > 0";
        let receives = async || {
            let parameters: [&(dyn ToSql + Sync); 1] = [&conninfo];
            let asked = standby.query_one(sql, &parameters);
            Ok(answered("look at the WAL receiver", Node::Standby, asked).await?.get(0))
        };
        until(EFFECT, || "the standby to connect anew".to_owned(), receives).await?;
        self.synchronous(SYNCHRONOUS).await
    }

    /// Breaks something on the way of the WAL.
    ///
    /// # Errors
    /// [`SuiteError::Options`] for a pair that is not our own, else why it cannot be broken; it is whole then.
    pub(in super::super) async fn breaks(&self, what: Breakage) -> Result<Broken<'_>, SuiteError> {
        let own = self.own()?;
        let what = match what {
            Breakage::Receiver => What::Guarded { _guardian: self.stop_receiver(&own).await? },
            Breakage::Network | Breakage::Jitter(_) => {
                let proxy = own
                    .proxy()
                    .ok_or_else(|| SuiteError::Failed("there is no proxy between the servers".to_owned()))?;
                let broken = What::Network(own);
                match what {
                    Breakage::Jitter(ms) => proxy.set_jitter(Duration::from_millis(ms.into())),
                    _ => proxy.block(true),
                }
                broken
            }
            Breakage::Loss(percent) => {
                What::Guarded { _guardian: blocking(move || own.lose_packets(percent)).await? }
            }
            Breakage::Flush(ms) => What::Guarded { _guardian: self.slow_flush(&own, ms).await? },
            Breakage::Disk => What::Guarded { _guardian: blocking(move || own.freeze_disk()).await? },
        };
        Ok(Broken { pair: self, what })
    }

    /// Makes every flush of the WAL receiver of the standby take longer, by a tracer that its guardian ends: a tracer that
    /// has ended lets go of what it traced.
    async fn slow_flush(&self, own: &Own, ms: u32) -> Result<Guardian, SuiteError> {
        let standby = self.admin(Node::Standby).await?;
        let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'";
        let asked = standby.query_one(sql, &[]);
        let pid: i32 = answered("look at the WAL receiver", Node::Standby, asked).await?.get(0);
        own.process(Node::Standby, pid)?;
        let guardian = blocking(move || {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", SLOW_FLUSH, "guardian"]).arg(pid.to_string()).arg((ms * 1_000).to_string());
            Guardian::start_watching(&mut command, "attached", ATTACHED).map_err(|error| {
                SuiteError::Failed(format!(
                    "cannot trace the WAL receiver of the standby with strace: {error}"
                ))
            })
        });
        guardian.await
    }

    /// Stops the WAL receiver of the standby while it waits for the network: one that is stopped while it flushes looks
    /// like one whose disk is stuck.
    async fn stop_receiver(&self, own: &Own) -> Result<Guardian, SuiteError> {
        let standby = self.admin(Node::Standby).await?;
        let doing = "look at the WAL receiver";
        let sql = "SELECT pid, coalesce(wait_event_type = 'Activity', false) FROM pg_stat_activity
                   WHERE backend_type = 'walreceiver'";
        let look = async || {
            let row = answered(doing, Node::Standby, standby.query_opt(sql, &[])).await?;
            Ok::<_, SuiteError>(row.map(|row| (row.get::<_, i32>(0), row.get::<_, bool>(1))))
        };
        let dir = own.data_dir(Node::Standby);
        let Some((pid, _)) = look().await? else {
            return Err(SuiteError::Failed("the standby has no WAL receiver".to_owned()));
        };
        let process = own.process(Node::Standby, pid)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GO_ON, "guardian"]).arg(dir).arg(pid.to_string());
        let guardian = Guardian::start(&mut command);
        let guardian = guardian
            .map_err(|error| SuiteError::Failed(format!("cannot run a guardian of the standby: {error}")))?;
        let signal = |signal| {
            let sent = kill_process(process, signal);
            sent.map_err(|error| SuiteError::Failed(format!("cannot signal the WAL receiver: {error}")))
        };
        for _ in 0..TRIES {
            signal(Signal::STOP)?;
            // A signal to another process takes effect a little later.
            tokio::time::sleep(BETWEEN).await;
            if matches!(look().await?, Some((found, true)) if found == pid) {
                return Ok(guardian);
            }
            signal(Signal::CONT)?;
            tokio::time::sleep(BETWEEN).await;
        }
        Err(SuiteError::Failed("the WAL receiver was never seen to wait for the network".to_owned()))
    }
}
