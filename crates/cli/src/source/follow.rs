//! Whether and how a source follows its origin: `duramen source follow|unfollow`.

use super::{refresh, show};
use crate::{
    context::{Context, Outcome},
    output, parse,
};
use clap::Args;
use duramen_api::model::{ChangeSettings, FollowSettings, FollowView};
use std::{path::PathBuf, time::Duration};

pub(super) const FOLLOW_EXAMPLES: &str = "\
Examples:
  duramen source follow app               from now on a refresh copies nothing
  duramen source follow app --every 1h    and the next generation is made each hour
  duramen source follow app --keep-wal 4G
  duramen source follow app --keep-history 7d                       branches of any moment of the last 7 days
  duramen source follow app --keep-history 7d --history-size 50G    with that much of the log at most
  duramen source follow app --keep-history 0                        no history any more
  duramen source follow app --archive /srv/wal                      of what the origin's archive_command puts there
  duramen source follow app --stream                                of the origin again
  duramen source follow shop --logical                              of one added with --logical, by logical replication
  duramen source follow shop --logical --publication mine           by a publication that the owner of the tables made

A standby of ours replays what the origin writes. It has a temporary replication slot, if the origin has one to spare, which is
gone when the standby is: the origin keeps nothing for a daemon that does not run. With --archive it is connected to nothing, and replays the
whole segments of the log that come into that directory; the URL is for the first copy alone.

With --logical a server of ours subscribes to the origin. Two things are made there, a replication slot and (unless one is named) a publication,
both called duramen_..., and dropped by `unfollow` and `source remove`. The origin keeps its log for the slot up to --keep-wal while the daemon
runs; set max_slot_wal_keep_size there for when it does not.";
pub(super) const UNFOLLOW_EXAMPLES: &str = "\
Examples:
  duramen source unfollow app             its generations stay; the next refresh copies the origin again";

#[derive(Debug, Args)]
pub(crate) struct Follow {
    /// The source's name
    name: String,
    /// Import the next generation as often as this [default: only by `refresh`]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    every: Option<Duration>,
    /// Replay what the origin's archive_command puts into this directory of the daemon's machine [default: as it was]
    #[arg(long, value_name = "DIR", value_parser = parse::absolute, conflicts_with_all = ["stream", "keep_wal"])]
    archive: Option<PathBuf>,
    /// Stream from the origin, and from no archive any more
    #[arg(long)]
    stream: bool,
    /// Subscribe to the origin, at which a publication and a replication slot are made: for sources added with --logical [default: as it was]
    #[arg(long, conflicts_with_all = ["archive", "stream", "keep_history", "history_size"])]
    logical: bool,
    /// Subscribe to this publication of all tables, which their owner made
    #[arg(long, value_name = "NAME", requires = "logical")]
    publication: Option<String>,
    /// How much the standby may lack before it is given up [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    keep_wal: Option<u64>,
    /// Keep what is needed for branches of any moment of this span; 0: none [default: as it was]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    keep_history: Option<Duration>,
    /// How much of the write-ahead log is kept for that; the earliest goes first; 0: 10G [default: as it was]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    history_size: Option<u64>,
}

pub(super) async fn follow(context: &Context, wanted: Follow) -> Outcome {
    let Follow { name, every, archive, stream, logical, publication, keep_wal, keep_history, history_size } =
        wanted;
    let seconds = |span: Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
    let every_s = every.map(seconds);
    let mut connection = context.connect().await?;
    // History is what cannot be had again: it ends by being asked to alone.
    let was = connection.source(&name).await?.settings.follow;
    let keep_history_s =
        keep_history.map_or(was.keep_history_s, |span| Some(seconds(span)).filter(|it| *it > 0));
    let history_bytes = history_size.map_or(was.history_bytes, |size| Some(size).filter(|it| *it > 0));
    let archive = archive.map(|dir| dir.display().to_string()).or(was.archive).filter(|_| !stream);
    // Without the word, another interval leaves the publication as it was.
    let publication = if logical { publication } else { was.publication };
    let logical = (logical || was.logical) && !stream;
    let follow = Some(FollowSettings {
        enabled: true,
        archive,
        logical,
        publication: publication.filter(|_| logical),
        every_s,
        keep_wal,
        keep_history_s,
        history_bytes,
    });
    let change = ChangeSettings { follow, ..ChangeSettings::default() };
    connection.change_settings(&name, &change).await?;
    refresh(context, &mut connection, &name).await
}

pub(super) async fn unfollow(context: &Context, name: &str) -> Outcome {
    let follow = Some(FollowSettings::default());
    let change = ChangeSettings { follow, ..ChangeSettings::default() };
    let source = context.connect().await?.change_settings(name, &change).await?;
    show(context, &source)
}

pub(super) fn in_words(follow: &FollowView) -> String {
    let lag = follow.lag_bytes.map(|lag| format!("{} behind", output::bytes(lag)));
    let every = follow.every_s.map(|every_s| format!("a generation every {every_s} s"));
    let history = follow.history.as_ref().map(|history| match (history.from, history.until) {
        (Some(from), Some(until)) => {
            format!("history from {from} to {until} ({})", output::bytes(history.bytes))
        }
        _ => "no history yet".to_owned(),
    });
    let broken = follow.history.as_ref().and_then(|history| history.problem.clone());
    let lag = lag.map(|lag| match &follow.archive {
        Some(dir) => format!("{lag} the archive {dir}"),
        None => lag,
    });
    let replayed = follow.replayed_to.as_ref().map(|to| match follow.replayed_at {
        Some(at) => format!("replayed to {to} (last commit {at})"),
        None => format!("replayed to {to}"),
    });
    let awaits = follow.awaits.as_ref().map(|segment| format!("awaits {segment}"));
    let slot = follow.slot.as_ref().map(|slot| match &follow.publication {
        Some(publication) if publication != slot => {
            format!("slot {slot} and publication {publication} at the origin")
        }
        _ => format!("slot and publication {slot} at the origin"),
    });
    let kept = follow.kept_bytes.map(|kept| format!("which keeps {} for it", output::bytes(kept)));
    let (state, advice) = (Some(follow.state.clone()), follow.advice.clone());
    let problem = follow.problem.clone();
    let parts = [state, lag, replayed, awaits, every, history, slot, kept, problem, broken, advice];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
