//! Findings: what is wrong, how bad it is, and what to do next.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// It will become worse, or is one failure from it.
    Warning,
    /// Something does not work, or data is out of reach.
    Error,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident: $name:literal, $severity:ident;)+) => {
        /// What can be found. Its name is stable: programs go by it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$kind),+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)+
                }
            }

            /// How bad it is, unless it says otherwise.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Kind::$kind => Severity::$severity,)+
                }
            }
        }
    };
}

kinds! {
    /// The fleet could not be asked.
    FleetSilent: "fleet-silent", Error;
    /// The functions' shards could not be asked.
    FunctionsSilent: "functions-silent", Error;
    /// A node is registered and does not answer.
    NodeSilent: "node-silent", Error;
    /// A node is not registered any more; its names are kept for it.
    NodeUnreachable: "node-unreachable", Error;
    /// A node is lost.
    NodeLost: "node-lost", Error;
    /// A node gives no names.
    NodeNotMember: "node-not-member", Error;
    /// A node takes no new branches, and has not for long.
    DrainForgotten: "drain-forgotten", Warning;
    /// Names are claimed by nodes that the fleet does not have.
    NamesOrphaned: "names-orphaned", Warning;
    /// Names of branches that have ended are not freed yet.
    NamesUnfreed: "names-unfreed", Warning;
    /// Nodes run different versions.
    VersionsDiffer: "versions-differ", Warning;
    /// Clocks differ.
    ClockDiffers: "clock-differs", Warning;
    /// A certificate ends soon.
    CertificateEnds: "certificate-ends", Warning;
    /// A token is known to no fleet any more, and kept on a node.
    TokenSuspended: "token-suspended", Warning;
    /// A token was revoked, and other nodes have not heard of it.
    RevocationUntold: "revocation-untold", Error;
    /// A node cannot read values that are in etcd.
    ValuesUnread: "values-unread", Warning;
    /// What a node knows of others is old.
    ViewOld: "view-old", Warning;
    /// What `duramen status` warns of on a node.
    NodeWarns: "node-warns", Warning;
    /// etcd confirms nothing.
    EtcdSilent: "etcd-silent", Error;
    /// Too few members of etcd are there.
    EtcdNoQuorum: "etcd-no-quorum", Error;
    /// Not one member more of etcd may fail.
    EtcdThin: "etcd-thin", Warning;
    /// etcd has one member.
    EtcdSingle: "etcd-single", Warning;
    /// A member of etcd does not answer.
    EtcdMemberSilent: "etcd-member-silent", Warning;
    /// A member of etcd is not in the address that nodes have.
    EtcdMemberUnknown: "etcd-member-unknown", Warning;
    /// etcd has an alarm.
    EtcdAlarm: "etcd-alarm", Error;
    /// etcd's database is nearly full.
    EtcdFull: "etcd-full", Warning;
    /// The restore of a backup was not finished.
    RestoreUnfinished: "restore-unfinished", Error;
    /// A shard does not answer.
    ShardSilent: "shard-silent", Error;
    /// Shards have different versions of the schema.
    SchemaDiffers: "schema-differs", Error;
    /// Shards have different versions of the list.
    ListBehind: "list-behind", Warning;
    /// Shards have different lists of one version.
    ListSplit: "list-split", Error;
    /// A shard is drained, and has instances.
    DrainedNotEmpty: "drained-not-empty", Warning;
    /// A shard's commits are on one machine only.
    NotSynchronous: "not-synchronous", Warning;
    /// Commits wait for a standby that is not there.
    CommitsWait: "commits-wait", Error;
    /// It cannot be seen whether a shard has standbys.
    StandbysHidden: "standbys-hidden", Note;
    /// Two shards are one database.
    SameDatabase: "same-database", Error;
    /// A shard has work, and no worker.
    NoWorker: "no-worker", Error;
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// Something that whoever operates it should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub kind: Kind,
    /// Of what: `node a`, `etcd`, `shard 2`.
    pub about: String,
    /// What was found, in words.
    pub what: String,
    /// What to do next.
    pub next: String,
}

impl Finding {
    /// One that is as bad as its kind.
    #[must_use]
    pub fn new(
        kind: Kind,
        about: impl Into<String>,
        what: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        let (about, what, next) = (about.into(), what.into(), next.into());
        Finding { severity: kind.severity(), kind, about, what, next }
    }

    /// The same, as bad as this.
    #[must_use]
    pub fn at(self, severity: Severity) -> Finding {
        Finding { severity, ..self }
    }
}

/// The worst first, and then in the order of kinds and of what they are about.
#[must_use]
pub fn ordered(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings
        .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.kind.cmp(&b.kind)).then(a.about.cmp(&b.about)));
    findings
}

/// Whether everything works: nothing is as bad as an error.
#[must_use]
pub fn is_well(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity < Severity::Error)
}

/// From when something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Now.
    pub now: Timestamp,
    /// A certificate that ends within this is told.
    pub certificate: SignedDuration,
    /// And one that ends within this is an error.
    pub certificate_soon: SignedDuration,
    /// A drain that lasts for longer is taken to be forgotten.
    pub drain: SignedDuration,
    /// Clocks that differ by more are told, in milliseconds.
    pub clock_ms: u64,
    /// How large etcd's database may become where etcd does not say it, in bytes.
    pub etcd_quota: u64,
}

impl Limits {
    /// The usual ones: certificates 30 days and 7, a drain a day, clocks a second, etcd 2 GiB, which is its own default.
    #[must_use]
    pub const fn usual(now: Timestamp) -> Limits {
        Limits {
            now,
            certificate: SignedDuration::from_hours(30 * 24),
            certificate_soon: SignedDuration::from_hours(7 * 24),
            drain: SignedDuration::from_hours(24),
            clock_ms: 1000,
            etcd_quota: 2 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_told_apart_and_the_worst_is_first() {
        let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        let found = |kind: Kind, about: &str| Finding::new(kind, about, "", "");
        let all = ordered(vec![
            found(Kind::StandbysHidden, "shard 0"),
            found(Kind::NodeLost, "node b"),
            found(Kind::EtcdSingle, "etcd"),
            found(Kind::NodeLost, "node a"),
        ]);
        let abouts: Vec<&str> = all.iter().map(|it| it.about.as_str()).collect();
        assert_eq!(abouts, ["node a", "node b", "etcd", "shard 0"]);
        assert!(!is_well(&all) && is_well(&all[2..]) && is_well(&[]));
    }
}
