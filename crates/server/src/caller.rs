//! Who asks: the kernel tells which user is at the other end of a unix socket.
//!
//! The daemon's own user, and root, may do everything. Where the machine has a system group `duramen`, its members may
//! hold branches; they may not import, which reads files as the daemon, change sources, or stop it.

use duramen_branches::GROUP;
use hyper::Method;
use nix::unistd::{getgrouplist, Gid, Group, Uid, User};
use std::{ffi::CString, io, os::unix::fs::chown, path::Path};

/// The user at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) u32);

/// What a peer may do, as it is put into the extensions of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Everything.
    Owner,
    /// What holders of branches do.
    Member,
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

    pub(crate) fn may(self, method: &Method, words: &[&str]) -> bool {
        match (self, words) {
            (Caller::Owner, _) => true,
            // Evidence reads all of the source, with the daemon's rights there.
            (Caller::Member, ["branches", _, "administrator-url" | "evidence"]) => false,
            (Caller::Member, ["branches", ..]) => true,
            (Caller::Member, ["status"] | ["sources"] | ["sources", _]) => method == Method::GET,
            (Caller::Member, _) => false,
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
    use super::{Caller, Peer};
    use hyper::Method;

    #[test]
    fn members_hold_branches_and_nothing_else() {
        let member = |method, words: &[&str]| Caller::Member.may(&method, words);
        assert!(member(Method::POST, &["branches"]));
        assert!(member(Method::DELETE, &["branches", "b"]));
        assert!(member(Method::GET, &["sources"]));
        for (method, words) in [
            (Method::GET, &["branches", "b", "administrator-url"][..]),
            (Method::GET, &["branches", "b", "evidence"]),
            (Method::POST, &["sources"]),
            (Method::POST, &["sources", "s", "refresh"]),
            (Method::DELETE, &["sources", "s"]),
            (Method::PATCH, &["sources", "s", "settings"]),
            (Method::POST, &["shutdown"]),
            (Method::POST, &["handover"]),
            (Method::POST, &["measure", "cold"]),
        ] {
            assert!(!member(method, words), "{words:?}");
            assert!(Caller::Owner.may(&Method::POST, words));
        }
    }

    #[tokio::test]
    async fn strangers_are_nobody() {
        let own = nix::unistd::Uid::effective().as_raw();
        assert_eq!(Caller::of_peer(Peer(own)).await, Some(Caller::Owner));
        assert_eq!(Caller::of_peer(Peer(65534)).await, None);
    }
}
