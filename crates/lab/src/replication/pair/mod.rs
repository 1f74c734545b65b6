//! The two servers that are measured: a pair of our own, or one that is there already.

use std::time::Duration;

use duramen_functions::connect::Target;
use tokio_postgres::Client;

use super::error::ReplicationError;
use super::options::Options;
use super::scenario::Node;

/// What all our sessions are called; only sessions with this name are ever ended by the suite.
pub const APPLICATION_NAME: &str = "duramen-lab";
/// The database that scenarios work in, made and dropped by the suite.
pub const DATABASE: &str = "duramen_lab";

/// A primary and its synchronous standby. When it is closed (or dropped, or the process is killed) everything that was
/// changed on a given pair is put back, and of an own pair nothing is left.
pub struct Pair {}

impl Pair {
    /// Makes a pair of our own, or takes the given one after its preconditions held. Then the database, the extension
    /// `pg_walinspect` in it, and the settings of the run.
    pub async fn open(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Self, ReplicationError> {
        let _ = (options, say);
        unimplemented!()
    }

    /// From the command to a synchronous pair; `None` for a given pair.
    pub fn ready_after(&self) -> Option<Duration> {
        unimplemented!()
    }

    /// The major version of both.
    pub fn major(&self) -> u32 {
        unimplemented!()
    }

    /// Whether it is our own.
    pub fn is_own(&self) -> bool {
        unimplemented!()
    }

    /// Whether `wal_level` is logical and a slot is free.
    pub fn has_logical_decoding(&self) -> bool {
        unimplemented!()
    }

    /// Where to connect, in [`DATABASE`], under [`APPLICATION_NAME`], with `statement_timeout` and the like off.
    pub fn target(&self, node: Node) -> &Target {
        let _ = node;
        unimplemented!()
    }

    /// Connects.
    pub async fn connect(&self, node: Node) -> Result<Client, ReplicationError> {
        let _ = node;
        unimplemented!()
    }

    /// Changes a setting (ALTER SYSTEM and reload), after what it was has been recorded durably in the restore file.
    /// Returns when the server uses it. `None`: puts it back.
    pub async fn set(&self, node: Node, name: &str, value: Option<&str>) -> Result<(), ReplicationError> {
        let _ = (node, name, value);
        unimplemented!()
    }

    /// Adds a round trip between the servers, at once and without a restart. Only for a pair of our own.
    pub fn set_rtt(&self, rtt: Duration) -> Result<(), ReplicationError> {
        let _ = rtt;
        unimplemented!()
    }

    /// Stops the standby (own pairs).
    pub async fn stop_standby(&self) -> Result<(), ReplicationError> {
        unimplemented!()
    }

    /// Starts it again and returns when it is synchronous.
    pub async fn start_standby(&self) -> Result<(), ReplicationError> {
        unimplemented!()
    }

    /// Waits until the standby has replayed what the primary has written by now.
    pub async fn caught_up(&self, limit: Duration) -> Result<(), ReplicationError> {
        let _ = limit;
        unimplemented!()
    }

    /// Notes what may be left behind by a killed run, before it is made: a slot by its name.
    pub async fn record_slot(&self, name: &str) -> Result<(), ReplicationError> {
        let _ = name;
        unimplemented!()
    }

    /// Puts everything back, drops the database and checks that all settings are what they were: `(all are, detail)`.
    pub async fn close(self) -> Result<(bool, String), ReplicationError> {
        unimplemented!()
    }
}
