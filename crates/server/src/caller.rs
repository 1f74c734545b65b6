//! Who asks, and what he may: the kernel tells which user is at the other end of a unix socket, a token over TCP.
//!
//! The daemon's own user, and root, may do everything. Where the machine has a system group `duramen`, its members may
//! hold branches; they may not import, which reads files as the daemon, change sources, or stop it.

use crate::{console::Session, reply::Refusal};
use duramen_api::{access::OpenTo, route::Op, token::Token};
use duramen_branches::GROUP;
use hyper::StatusCode;
use nix::unistd::{getgrouplist, Gid, Group, Uid, User};
use std::{ffi::CString, io, os::unix::fs::chown, path::Path, sync::Arc};

/// The user at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) u32);

/// Who asks, as it is put into the extensions of requests.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// The daemon's own user, or root, on the daemon's socket: everything.
    Owner,
    /// A member of the group on the daemon's socket: what holders of branches do.
    Member,
    /// The holder of a token, over TCP.
    Holder(Visitor),
    /// Somebody over TCP who has shown nothing.
    Nobody,
    /// Somebody else on the daemon's socket: a process that only runs with the group, for one.
    Stranger,
}

/// Who came over TCP with a token.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) token: Arc<Token>,
    /// Whether data that is not masked may go there.
    pub(crate) sees_unmasked: bool,
    /// The router, as it is reached from where the holder is.
    pub(crate) router: Option<String>,
    /// The browser's session by which it came, if it is a browser.
    pub(crate) session: Option<Arc<Session>>,
}

impl Caller {
    /// What the user at the other end may do; `None` for a stranger. A process that only runs with the group (a server
    /// does, to pass where members pass) is none of its members.
    pub(crate) async fn of_peer(peer: Peer) -> Option<Caller> {
        let uid = Uid::from_raw(peer.0);
        if uid.is_root() || uid == Uid::effective() {
            return Some(Caller::Owner);
        }
        // The user database may be on the network, and slow.
        tokio::task::spawn_blocking(move || Caller::among_members(uid)).await.ok().flatten()
    }

    fn among_members(uid: Uid) -> Option<Caller> {
        let group = group()?;
        let user = User::from_uid(uid).ok().flatten()?;
        if user.name == GROUP {
            // Servers may run as the user of that name.
            return None;
        }
        let name = CString::new(user.name).ok()?;
        getgrouplist(&name, user.gid).ok()?.contains(&group).then_some(Caller::Member)
    }

    /// Refuses what it may not do.
    pub(crate) fn may(&self, op: Op) -> Result<(), Refusal> {
        let request = || format!("{} {}", op.endpoint().method, op.endpoint().path);
        let refuse = |what: String| Err(Refusal::new(StatusCode::FORBIDDEN, "not_allowed", what));
        let (open_to, visitor) = match self {
            Caller::Owner => return Ok(()),
            Caller::Member if op.is_for_members() => return Ok(()),
            Caller::Stranger if op.open_to() == OpenTo::Anybody => return Ok(()),
            Caller::Member | Caller::Stranger => {
                return refuse(format!(
                    "{} is for the daemon's user and root; members of the group `duramen` may hold branches",
                    request()
                ));
            }
            Caller::Nobody => (op.open_to(), None),
            Caller::Holder(visitor) => (op.open_to(), Some(visitor)),
        };
        let token = visitor.map(|visitor| &visitor.token);
        let has_role = |least| token.is_some_and(|token| token.role.least() >= least);
        let allowed = match open_to {
            OpenTo::Anybody => true,
            OpenTo::Tokens(least) => has_role(least),
            OpenTo::AllSources(least) => {
                has_role(least) && token.is_some_and(|token| token.sources.is_empty())
            }
            OpenTo::Machine => false,
        };
        if allowed {
            return Ok(());
        }
        match token {
            None if open_to != OpenTo::Machine => Err(Refusal::unauthenticated()),
            None => refuse(format!("{} is for {open_to}", request())),
            Some(token) => refuse(format!("{} is for {open_to}, and not for {}", request(), token.name)),
        }
    }
}

fn group() -> Option<Gid> {
    Group::from_name(GROUP).ok().flatten().map(|group| group.gid)
}

/// Lets members of the group connect, where there is one and the daemon runs as root.
pub(crate) fn admit_members(socket: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let Some(group) = group().filter(|_| Uid::effective().is_root()) else { return Ok(()) };
    chown(socket, None, Some(group.as_raw()))?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o660))
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_api::{
        route::ENDPOINTS,
        token::{CreateToken, Role},
    };

    fn visitor(role: Role, sources: &[&str]) -> Caller {
        let sources = sources.iter().map(|source| (*source).to_owned()).collect();
        let wanted = CreateToken { role, sources, ..CreateToken::default() };
        let token = Token::new("t-1".to_owned(), wanted, jiff::Timestamp::UNIX_EPOCH);
        Caller::Holder(Visitor { token: Arc::new(token), sees_unmasked: true, router: None, session: None })
    }

    fn may_do(caller: &Caller) -> Vec<Op> {
        ENDPOINTS.iter().map(|endpoint| endpoint.op).filter(|op| caller.may(*op).is_ok()).collect()
    }

    const OPEN: [Op; 5] = [Op::Health, Op::Ready, Op::Version, Op::OpenApi, Op::SignIn];
    const OWN: [Op; 3] = [Op::Session, Op::SignOut, Op::Events];
    const LISTS: [Op; 9] = [
        Op::Sources,
        Op::Source,
        Op::ScanSource,
        Op::Generations,
        Op::Timeline,
        Op::Branches,
        Op::Branch,
        Op::BranchTree,
        Op::Snapshots,
    ];
    const USE: [Op; 13] = [
        Op::BranchSessions,
        Op::CancelSession,
        Op::CreateBranch,
        Op::DestroyBranch,
        Op::Query,
        Op::ResetBranch,
        Op::RenewBranch,
        Op::TakeSnapshot,
        Op::RemoveSnapshot,
        Op::RestoreBranch,
        Op::UndoBranch,
        Op::MergeBranch,
        Op::SchemaDiff,
    ];

    /// What is attached holds: for tokens for all sources.
    const HELD: [Op; 21] = [
        Op::LabRuns,
        Op::LabRun,
        Op::LabSeries,
        Op::LabComparison,
        Op::LabExperiments,
        Op::StoreBranches,
        Op::StoreContents,
        Op::StoreEntries,
        Op::StoreEntry,
        Op::StoreHistory,
        Op::StoreDifference,
        Op::Pack,
        Op::AccessSearch,
        Op::Access,
        Op::AccessWhy,
        Op::Functions,
        Op::FunctionInstances,
        Op::FunctionInstance,
        Op::FunctionQueues,
        Op::FunctionSchedules,
        Op::FunctionShards,
    ];

    fn sorted(ops: &[&[Op]]) -> Vec<Op> {
        let all = ops.concat();
        ENDPOINTS.iter().map(|endpoint| endpoint.op).filter(|op| all.contains(op)).collect()
    }

    #[test]
    fn members_hold_branches_and_nothing_else() {
        let more = [Op::Status, Op::Nodes, Op::Cluster, Op::NodeReport, Op::Metrics, Op::ProtectBranch];
        assert_eq!(may_do(&Caller::Member), sorted(&[&OPEN, &LISTS, &USE, &more]));
        assert_eq!(may_do(&Caller::Owner).len(), ENDPOINTS.len());
    }

    /// H3.
    #[test]
    fn roles_may_do_what_the_table_says() {
        assert_eq!(may_do(&Caller::Nobody), sorted(&[&OPEN]));
        let viewer = [OPEN.as_slice(), &OWN, &LISTS];
        assert_eq!(may_do(&visitor(Role::Viewer, &["a"])), sorted(&viewer));
        assert_eq!(
            may_do(&visitor(Role::Viewer, &[])),
            sorted(&[&OPEN, &OWN, &LISTS, &[Op::Metrics, Op::Attachments]])
        );
        let user = sorted(&[&OPEN, &OWN, &LISTS, &USE, &[Op::ExportBranch]]);
        assert_eq!(may_do(&visitor(Role::User, &["a"])), user);
        let admin = [
            Op::ExportBranch,
            Op::ProtectBranch,
            Op::PromoteBranch,
            Op::LabelGeneration,
            Op::GenerationDiff,
            Op::GenerationDataDiff,
            Op::Evidence,
            Op::DataDiff,
            Op::VerifySource,
            Op::FingerprintSource,
        ];
        assert_eq!(may_do(&visitor(Role::Admin, &["a"])), sorted(&[&OPEN, &OWN, &LISTS, &USE, &admin]));
        let of_all = [&[Op::Metrics, Op::Attachments], HELD.as_slice()].concat();
        assert_eq!(
            may_do(&visitor(Role::User, &[])),
            sorted(&[&OPEN, &OWN, &LISTS, &USE, &[Op::ExportBranch], &of_all])
        );
        let fleet = [Op::Nodes, Op::Cluster, Op::NodeReport, Op::DrainNode];
        let all =
            [&[Op::Status, Op::VerifyAudit, Op::AuditLog, Op::ControlFunction], fleet.as_slice()].concat();
        assert_eq!(
            may_do(&visitor(Role::Admin, &[])),
            sorted(&[&OPEN, &OWN, &LISTS, &USE, &admin, &of_all, &all])
        );
        for op in HELD.into_iter().chain([Op::ControlFunction]) {
            assert!(op.reads_attached(), "R5: {op:?}");
        }
    }

    #[tokio::test]
    async fn strangers_are_nobody() {
        let own = nix::unistd::Uid::effective().as_raw();
        assert_eq!(may_do(&Caller::Stranger), sorted(&[&OPEN]));
        assert!(matches!(Caller::of_peer(Peer(own)).await, Some(Caller::Owner)));
        assert!(Caller::of_peer(Peer(65534)).await.is_none());
    }
}
