//! What to do, by the mechanism that was seen.

/// The rules about stalls with the causes they look for, as `summary::cause` names them.
pub const CAUSES: [(&str, &str); 7] = [
    ("stall_by_snapshot", "snapshot"),
    ("stall_by_lock", "relation lock"),
    ("stall_by_buffer_pin", "buffer pin"),
    ("stall_by_apply_delay", "apply delay"),
    ("stall_without_standby", "no standby"),
    ("stall_not_received", "not received"),
    ("stall_not_flushed", "not flushed"),
];

/// What hot_standby_feedback costs.
pub const FEEDBACK_COST: &str = "hot_standby_feedback = on prevents it, and the primary pays: VACUUM keeps every row that \
     the oldest query of the standby may need, so tables and indexes grow for as long as it runs. Limit the queries' \
     time on the standby (statement_timeout, idle_in_transaction_session_timeout).";

/// Readers belong elsewhere.
pub const REPORTING: &str = "Long queries belong on a standby that synchronous_standby_names does not name.";

/// The replay is one process.
pub const APPLY_BOUND: &str = "The replay is one process; beyond its rate, more clients only make the queue longer. Write \
     less WAL (fewer indexes, fillfactor for HOT updates), let the standby prefetch (recovery_prefetch, \
     maintenance_io_concurrency), and commit at remote_apply only what a read of the standby must see (SET LOCAL \
     synchronous_commit).";

/// Full-page images.
pub const IMAGES: &str = "They are written for the first change of a page after each checkpoint: a longer \
     checkpoint_timeout with a larger max_wal_size has fewer, wal_compression smaller ones.";

/// Index maintenance.
pub const INDEXES: &str =
    "An update that changes no indexed column and finds room in its page (fillfactor) touches no \
     index; unused indexes cost on the standby, too.";

/// A large transaction in front.
pub const BACKLOG: &str =
    "WAL is replayed in one sequence, so small commits queue behind large ones: do large changes in \
     batches with pauses, outside of busy hours, or let the small ones commit at a weaker level meanwhile.";

/// Removed files.
pub const UNLINK: &str =
    "Dropping many relations at once is best done with SET LOCAL synchronous_commit = local, or a few \
     at a time.";

/// A cancelled wait.
pub const CANCELLED_WAIT: &str =
    "a commit that was cancelled while it waited for the standby had been committed on the \
     primary all the same, with nothing but a WARNING. A client must not take the cancellation (also by \
     statement_timeout or a lost connection) for a rollback and try again blindly: make writes idempotent.";

/// What happens while commits wait for a cause.
#[must_use]
pub fn wait_in_words(cause: &str) -> &'static str {
    match cause {
        "snapshot" => {
            "the startup process of the standby waited for a reader's snapshot (IPC:RecoveryConflictSnapshot)"
        }
        "relation lock" => {
            "the startup process of the standby waited for a reader's lock of a relation (Lock:relation)"
        }
        "buffer pin" => "the startup process of the standby waited for a reader's pin of a page (BufferPin)",
        "apply delay" => {
            "the startup process of the standby held WAL back on purpose (recovery_min_apply_delay)"
        }
        "no standby" => "the primary had no standby that was connected",
        "not received" => {
            "the standby was connected and did not write what it was sent (write_lsn of pg_stat_replication stood still)"
        }
        "not flushed" => {
            "the standby had received WAL that it could not write or flush (its WAL receiver was busy with its disk)"
        }
        _ => "the startup process of the standby waited",
    }
}

/// What writes a WAL record that readers are in the way of, in parentheses; nothing where the name says it.
#[must_use]
pub fn on_record(record: &str) -> &'static str {
    match record {
        "Heap2/PRUNE_ON_ACCESS" => {
            " (on-access pruning: an UPDATE or a query that found a full page wrote it)"
        }
        "Heap2/PRUNE_VACUUM_SCAN" | "Heap2/PRUNE_VACUUM_CLEANUP" => " (VACUUM wrote it)",
        "Heap2/PRUNE" => " (VACUUM, or any statement that found a full page, wrote it)",
        "Standby/LOCK" => " (an exclusive lock that the primary took)",
        _ => "",
    }
}

/// What to do about a cause.
#[must_use]
pub fn on_cause(cause: &str) -> String {
    let elsewhere = "commit at remote_apply only where a read of the standby must see the commit (SET LOCAL \
                     synchronous_commit), or set a finite max_standby_streaming_delay, which bounds the stall and cancels \
                     the reader instead.";
    match cause {
        "snapshot" => format!("{FEEDBACK_COST} {REPORTING} Otherwise {elsewhere}"),
        "relation lock" => format!(
            "hot_standby_feedback does not help against locks. Run what takes an AccessExclusiveLock (VACUUM FULL, \
             CLUSTER, most ALTER TABLE, the truncation at the end of VACUUM) with a lock_timeout and when no report runs \
             on the standby; use pg_repack or CONCURRENTLY instead; set vacuum_truncate = off for tables that are \
             reported on. {REPORTING} Otherwise {elsewhere}"
        ),
        "buffer pin" => format!(
            "One open cursor is enough: it keeps the page that it stands on. Do not leave cursors open in idle \
             transactions on the standby (idle_in_transaction_session_timeout). {REPORTING} Otherwise {elsewhere}"
        ),
        "apply delay" => "A delayed standby must not be named in synchronous_standby_names where commits are at \
                          remote_apply."
            .to_owned(),
        "no standby" => "With one synchronous standby, every commit that waits for it stops when it goes away. Name \
                         several (ANY 1 (a, b)), watch pg_stat_replication, and have it decided beforehand who may take a \
                         lost one out of synchronous_standby_names; sessions may fall back to SET synchronous_commit = \
                         local, and lose what only the primary has if it is lost, too."
            .to_owned(),
        "not received" => "Nobody is told of a standby that hangs before wal_sender_timeout (60 s by default), and \
                           after it commits wait for one that is not there. Watch how long write_lsn of \
                           pg_stat_replication has stood still while sessions wait in SyncRep. Name more standbys than \
                           must answer (ANY 1 (a, b)). On the standby look whether its WAL receiver runs (is it stopped, \
                           is its machine or container frozen?), else at the network between the two; a shorter \
                           wal_sender_timeout and wal_receiver_timeout let it connect anew."
            .to_owned(),
        "not flushed" => "The disk of the standby's pg_wal is stuck or too slow: look at what else writes to it, at a frozen \
                          file system (fsfreeze, a snapshot being taken), at its controller. No timeout ends this, and the \
                          standby stays connected. remote_write does not wait for a slow flush, but for a disk that \
                          does not write at all it does. Name more standbys than must answer (ANY 1 (a, b))."
            .to_owned(),
        _ => String::new(),
    }
}
