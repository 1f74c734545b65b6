//! Which system user runs the servers of a source.
//!
//! Each source of a daemon that root runs has one of its own, so that its servers can neither read, trace nor signal those
//! of another, nor its imports. Its name says which home and source it belongs to: who knows both knows the name, so
//! nothing has to be remembered of one that was being made when its daemon was killed.

use crate::{
    error::{EngineError, SourceError},
    home::Home,
    shared::Shared,
    source::{
        manifest::{self, SystemUser},
        masking::scratch,
    },
};
use duramen_postgres::{
    account::{self, Account, Removal},
    ServerUser, UserError, SERVERS,
};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// How many digits of a hash stand for a home, and for a source, in a name, which has 32 letters at most.
const DIGITS: usize = 8;
/// Below these, a home that is gone does not come back: nobody mounts it again.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// The users that imports are about to need: they own nothing yet, and are not to be taken for left over.
#[derive(Debug, Default)]
pub(crate) struct Users {
    held: Mutex<BTreeSet<String>>,
}

/// A user that is not removed as long as this lives.
pub(crate) struct Held<'a> {
    users: &'a Users,
    name: String,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.users.held().remove(&self.name);
    }
}

impl Users {
    fn held(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user for the next generation of a source, made if it is missing, which takes a tenth of a second. Blocks.
    ///
    /// # Errors
    /// `no_source_user`.
    pub(crate) fn for_import(
        &self,
        home: &Home,
        base: &ServerUser,
        source: &str,
    ) -> Result<(ServerUser, Held<'_>), EngineError> {
        let name = name_of(home.root(), source);
        self.held().insert(name.clone());
        let held = Held { users: self, name };
        match ServerUser::made(&held.name, &comment(home.root(), source)) {
            Ok(user) => Ok((user, held)),
            Err(UserError::Fixed { reason }) => {
                tracing::warn!(reason, "degraded: the servers of all sources run as `{}`", base.name);
                Ok((base.clone().for_source(), held))
            }
            Err(error) => Err(SourceError::NoUser(error).into()),
        }
    }

    /// Removes the users of sources that are gone, as far as nothing of them is left. Blocks.
    pub(crate) fn remove_unused(&self, home: &Home, store: &Path) {
        if !is_root() {
            return;
        }
        // To the end: an import that begins now finds the user there, or makes it anew.
        let held = self.held();
        let kept: BTreeSet<String> =
            manifest::names(home).iter().map(|it| name_of(home.root(), it)).collect();
        let prefix = prefix_of(home.root());
        let mut owners = None;
        for Account { name, uid, .. } in account::accounts() {
            if !name.starts_with(&prefix) || kept.contains(&name) || held.contains(&name) {
                continue;
            }
            if !owners.get_or_insert_with(|| owners_below(home, store)).contains(&uid) {
                remove(&name);
            }
        }
    }
}

/// The user that the servers of a generation run as. One that was imported by an earlier version runs as whoever owns
/// its snapshot, until it is refreshed.
///
/// # Errors
/// `no_source_user` if its files belong to somebody else by now.
pub(crate) fn of_generation(
    home: &Home,
    source: &str,
    recorded: Option<&SystemUser>,
    snapshot: &Path,
) -> Result<ServerUser, EngineError> {
    let user = match recorded {
        Some(user) => ServerUser::recorded(&user.name, user.uid, &comment(home.root(), source)),
        None if snapshot.exists() => ServerUser::owner_of(snapshot),
        // Nothing is made of it either.
        None => ServerUser::of_this_process(),
    };
    user.map_err(|error| SourceError::UserLost { name: source.to_owned(), error }.into())
}

/// The user that the server of a sample runs as: that of its source, if it is made already.
pub(crate) fn of_sample(home: &Home, base: &ServerUser, source: &str) -> Result<ServerUser, EngineError> {
    let name = name_of(home.root(), source);
    let data = home.origins().join(source);
    let user = if is_root() && account::accounts().iter().any(|account| account.name == name) {
        ServerUser::made(&name, &comment(home.root(), source))
    } else if data.exists() {
        ServerUser::owner_of(&data)
    } else {
        Ok(base.clone().for_source())
    };
    user.map_err(|error| SourceError::NoUser(error).into())
}

/// What a manifest says of a user; nothing if the daemon runs everything as itself.
pub(crate) fn to_record(user: &ServerUser) -> Option<SystemUser> {
    user.is_other().then(|| SystemUser { name: user.name.clone(), uid: user.uid() })
}

/// Removes the users of homes in a directory for temporary files that are gone: of runs that were killed.
pub(crate) fn remove_orphans() {
    if !is_root() {
        return;
    }
    for Account { name, comment, .. } in account::accounts() {
        let Some((_, home)) = comment.split_once(" of ") else { continue };
        let home = PathBuf::from(home);
        let temporary = TEMPORARY.iter().any(|dir| home.starts_with(dir));
        // A comment cannot hold every path; what it holds must be the one that the name was made of.
        if temporary && name.starts_with(&prefix_of(&home)) && !home.exists() {
            remove(&name);
        }
    }
}

/// Removes every system user that was made for a source of a home, which holds nothing any more. Returns how many.
///
/// # Examples
/// ```
/// let home = tempfile::tempdir()?;
/// assert_eq!(duramen_branches::remove_users(home.path()), 0);
/// # std::io::Result::Ok(())
/// ```
#[must_use]
pub fn remove_users(home: &Path) -> usize {
    if !is_root() {
        return 0;
    }
    users_of(home).iter().filter(|name| remove(name)).count()
}

/// The system users that were made for sources of a home.
#[must_use]
pub fn users_of(home: &Path) -> Vec<String> {
    let root = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    let prefix = prefix_of(&root);
    account::accounts()
        .into_iter()
        .map(|account| account.name)
        .filter(|name| name.starts_with(&prefix))
        .collect()
}

fn remove(name: &str) -> bool {
    match account::remove(name) {
        Ok(Removal::Gone) => true,
        // The next look finds it again.
        Ok(Removal::Busy) => false,
        Err(error) => {
            tracing::warn!(%error, "a system user that nothing needs any more is left");
            false
        }
    }
}

/// Who owns what lies in the places of servers.
fn owners_below(home: &Home, store: &Path) -> BTreeSet<u32> {
    let in_store = ["branches", "snapshots", "imports", "quarantine"].map(|name| store.join(name));
    let others = [home.origins(), home.sockets().to_owned(), scratch::dir(home.root())];
    let places = in_store.into_iter().chain(others);
    let entries = places.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.uid()).collect()
}

fn prefix_of(root: &Path) -> String {
    format!("{SERVERS}-{}-", digits(root.as_os_str().as_encoded_bytes()))
}

fn name_of(root: &Path, source: &str) -> String {
    prefix_of(root) + &digits(source.as_bytes())
}

fn comment(root: &Path, source: &str) -> String {
    format!("Duramen source {source} of {}", root.display())
}

fn digits(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..DIGITS].to_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Shared {
    /// The system user of a source, which is kept from being removed as long as the other value lives. Blocks.
    ///
    /// # Errors
    /// `no_source_user`.
    pub(crate) fn user_of(&self, source: &str) -> Result<(ServerUser, Held<'_>), EngineError> {
        let environment = &self.environment;
        tokio::task::block_in_place(|| self.users.for_import(&environment.home, &environment.user, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_every_system_takes_and_says_whose_it_is() {
        let (home, other) = (Path::new("/var/lib/duramen"), Path::new("/srv/duramen"));
        let name = name_of(home, "app");
        assert!(name.len() <= 32, "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
        assert_eq!(name, name_of(home, "app"));
        assert!(name.starts_with(&prefix_of(home)) && !name.starts_with(&prefix_of(other)));
        assert_ne!(name, name_of(home, "shop"));
    }
}
