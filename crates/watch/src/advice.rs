//! What a reason means, and what to do about it.

use crate::attribution::{Reason, Stage, NOT_SENT, PAUSED, UNKNOWN, UNREACHABLE};
use duramen_replication::advice;

/// What commits waited for, in words: `the standby to replay (s1): a reader's snapshot`.
#[must_use]
pub fn in_words(reason: &Reason) -> String {
    let Reason { stage, cause, standby } = reason;
    let stage = stage.in_words();
    let what = match *cause {
        "snapshot" => "a reader's snapshot is in the way",
        "relation lock" => "a reader's lock is in the way",
        "buffer pin" => "a reader's pin of a page is in the way",
        "apply delay" => "it holds WAL back on purpose (recovery_min_apply_delay)",
        "replaying" => "it is replaying, and is behind",
        "no standby" => "there is none, or fewer than synchronous_standby_names asks for",
        PAUSED => "somebody has paused the replay",
        NOT_SENT => "its connection takes no more, or the primary is too busy to send",
        "not received" => "nothing arrives: its receiver hangs, or the network between the two is cut",
        UNREACHABLE => "nothing arrives, and the standby does not answer us either",
        "not flushed" => "it has the WAL, and its disk has not taken it",
        _ => "the cause is not known",
    };
    if standby.is_empty() {
        format!("{stage}: {what}")
    } else {
        format!("{stage} ({standby}): {what}")
    }
}

/// What to do.
#[must_use]
pub fn on(reason: &Reason) -> String {
    let several =
        "With one synchronous standby every commit that waits for it stops when it does. Name several \
                   (synchronous_standby_names = 'ANY 1 (a, b)'), so that the others are enough.";
    match reason.cause {
        PAUSED => "Go on with pg_wal_replay_resume() on the standby; while a replay is to stay paused, commit at on \
                   and not at remote_apply."
            .to_owned(),
        NOT_SENT => format!("Look at the bandwidth between the two and at the primary's processors. {several}"),
        UNREACHABLE => format!(
            "The primary notices only after wal_sender_timeout, and commits wait until then; afterwards they wait for a \
             standby that is not there. {several} A shorter wal_sender_timeout only tells sooner."
        ),
        "replaying" => advice::APPLY_BOUND.to_owned(),
        UNKNOWN if reason.stage == Stage::Replay => {
            "The standby is not watched, or did not say: name it (--standby) to see why its replay is behind.".to_owned()
        }
        cause => advice::on_cause(cause),
    }
}
