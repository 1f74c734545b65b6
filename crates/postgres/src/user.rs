//! Which operating-system user runs the servers. PostgreSQL refuses to run as root.

use crate::{account, passage};
use duramen_cage::Walls;
use nix::unistd::{Gid, Group, Uid, User};
use std::{
    os::unix::{
        fs::{fchown, lchown, MetadataExt},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

/// The system group whose members may hold branches, if the machine has it.
pub const GROUP: &str = "duramen";

/// The system user of servers that belong to no source, and the group of all that are made for servers. Nothing else of
/// the machine is theirs; Debian's `postgres` owns clusters of others.
pub const SERVERS: &str = "duramen-pg";

/// The user that server processes run as, and that owns their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUser {
    /// The account's name, for messages.
    pub name: String,
    uid: u32,
    gid: u32,
    /// The id of [`GROUP`], whose members reach the sockets.
    holders: Option<u32>,
    /// Whether a process has to change to this user (we are root), or already is it.
    switch: bool,
    /// Whether all servers reach its sockets: an import has to reach its origin.
    open_to_servers: bool,
}

/// Why no server user could be determined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// Started by root on a machine that has no user for servers and could not be given one.
    #[error("PostgreSQL refuses to run as root, and the system user `duramen-pg` cannot be made ({reason}); run: useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin duramen-pg")]
    NoServerUser {
        /// Why it cannot be made.
        reason: String,
    },
    /// This machine has not the means to make or remove users.
    #[error("system users cannot be changed here: {reason}")]
    Fixed {
        /// What is missing.
        reason: String,
    },
    /// A user could not be made or removed.
    #[error("cannot {doing} the system user {name}: {reason}")]
    Account {
        /// `make` or `remove`.
        doing: &'static str,
        /// The user.
        name: String,
        /// What the program said.
        reason: String,
    },
    /// The number that files belong to is somebody else's on this machine.
    #[error("files belong to the number {uid}, which was {name}'s and is {taken_by}'s on this machine")]
    Taken {
        /// The number.
        uid: u32,
        /// Who had it.
        name: String,
        /// Who has it, or has the name.
        taken_by: String,
    },
    /// The user database could not be read.
    #[error("cannot read the user database: {0}")]
    Lookup(#[from] nix::errno::Errno),
    /// The server user cannot reach a directory.
    #[error("the server user `{user}` cannot traverse {path} (mode {mode:04o}, owner uid {owner}); choose another --home, or run: chmod o+x {path}")]
    NotTraversable {
        /// The server user's name.
        user: String,
        /// The first directory that refuses it.
        path: String,
        /// Its permission bits.
        mode: u32,
        /// Its owner.
        owner: u32,
    },
    /// A directory on the way could not be inspected.
    #[error("cannot inspect {path}: {source}")]
    Inspect {
        /// The directory.
        path: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

impl ServerUser {
    /// The user for servers that belong to no source: this process's own, or [`SERVERS`] when that is root. It is made
    /// where it is missing.
    ///
    /// # Errors
    /// [`UserError::NoServerUser`] when it is missing and cannot be made.
    pub fn current() -> Result<ServerUser, UserError> {
        if let Some(user) = ServerUser::existing()? {
            return Ok(user);
        }
        let made = account::make_servers();
        let user = made.map_err(|error| UserError::NoServerUser { reason: error.to_string() })?;
        ServerUser::of_no_source(&user)
    }

    /// As [`ServerUser::current`], but makes none.
    ///
    /// # Errors
    /// [`UserError::Lookup`].
    pub fn existing() -> Result<Option<ServerUser>, UserError> {
        if !Uid::effective().is_root() {
            return ServerUser::of_this_process().map(Some);
        }
        let found = User::from_name(SERVERS)?;
        found.map(|user| ServerUser::of_no_source(&user)).transpose()
    }

    fn of_no_source(user: &User) -> Result<ServerUser, UserError> {
        let found = ServerUser::switching(user.name.clone(), user.uid.as_raw(), user.gid.as_raw())?;
        Ok(ServerUser { open_to_servers: true, ..found })
    }

    /// The same user for servers of a source, where it has none of its own.
    #[must_use]
    pub fn for_source(self) -> ServerUser {
        ServerUser { open_to_servers: false, ..self }
    }

    /// The user that this process is. As root it runs no server, because PostgreSQL refuses.
    ///
    /// # Errors
    /// [`UserError::Lookup`].
    pub fn of_this_process() -> Result<ServerUser, UserError> {
        let uid = Uid::effective();
        let name = User::from_uid(uid)?.map_or_else(|| uid.to_string(), |user| user.name);
        Ok(ServerUser {
            name,
            uid: uid.as_raw(),
            gid: Gid::effective().as_raw(),
            holders: None,
            switch: false,
            open_to_servers: false,
        })
    }

    /// Nobody whose servers could be started: root, as which PostgreSQL refuses to run.
    #[must_use]
    pub fn of_nobody() -> ServerUser {
        ServerUser {
            name: "nobody".to_owned(),
            uid: 0,
            gid: 0,
            holders: None,
            switch: false,
            open_to_servers: false,
        }
    }

    /// The user whose servers have made `path`: this process's own, or when that is root the owner of `path`.
    ///
    /// # Errors
    /// [`UserError::Inspect`] when there is no such path.
    pub fn owner_of(path: &Path) -> Result<ServerUser, UserError> {
        if !Uid::effective().is_root() {
            return ServerUser::of_this_process();
        }
        let found = path
            .symlink_metadata()
            .map_err(|source| UserError::Inspect { path: path.display().to_string(), source })?;
        let uid = found.uid();
        let name = User::from_uid(Uid::from_raw(uid))?.map_or_else(|| uid.to_string(), |user| user.name);
        ServerUser::switching(name, uid, ServerUser::current()?.gid)
    }

    /// The user `name`, made for servers, which is made if it is missing; `comment` says for whom. This process's own
    /// when that is not root.
    ///
    /// # Errors
    /// [`UserError::Fixed`] where no users can be made, else why this one could not.
    pub fn made(name: &str, comment: &str) -> Result<ServerUser, UserError> {
        if !Uid::effective().is_root() {
            return ServerUser::of_this_process();
        }
        let gid = ServerUser::current()?.gid;
        let user = match account::find(name, gid)? {
            Some(user) => user,
            None => account::make(name, comment, None, gid)?,
        };
        ServerUser::switching(user.name, user.uid.as_raw(), gid)
    }

    /// The user `name` as which files were made that belong to the number `uid`. A machine that has forgotten it, such as
    /// a container that was made anew, gets it again under that number.
    ///
    /// # Errors
    /// [`UserError::Taken`] if the number is somebody else's by now.
    pub fn recorded(name: &str, uid: u32, comment: &str) -> Result<ServerUser, UserError> {
        if !Uid::effective().is_root() {
            return ServerUser::of_this_process();
        }
        let gid = ServerUser::current()?.gid;
        let taken = |taken_by: String| UserError::Taken { uid, name: name.to_owned(), taken_by };
        match User::from_name(name)? {
            Some(user) if user.uid.as_raw() == uid => {}
            Some(user) => return Err(taken(format!("not that of {name}, which is {},", user.uid))),
            None => match User::from_uid(Uid::from_raw(uid))? {
                Some(other) => return Err(taken(other.name)),
                None => match account::make(name, comment, Some(uid), gid) {
                    // A number without a name is nobody's, which is enough for a server that runs.
                    Ok(_) | Err(UserError::Fixed { .. }) => {}
                    Err(error) => return Err(error),
                },
            },
        }
        ServerUser::switching(name.to_owned(), uid, gid)
    }

    fn switching(name: String, uid: u32, gid: u32) -> Result<ServerUser, UserError> {
        let holders = Group::from_name(GROUP)?.map(|group| group.gid.as_raw());
        Ok(ServerUser { name, uid, gid, holders, switch: true, open_to_servers: false })
    }

    /// Whether it is another user than the one that this process runs as.
    #[must_use]
    pub fn is_other(&self) -> bool {
        self.switch
    }

    /// The numeric group id, which directories that servers pass through have.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// The numeric user id.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// A command that will run as this user.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if self.switch {
            command.uid(self.uid).gid(self.gid).current_dir("/");
        }
        command
    }

    /// Has a program within `walls` run as this user.
    #[must_use]
    pub(crate) fn within(&self, walls: Walls) -> Walls {
        if self.switch {
            walls.user(self.uid, self.gid)
        } else {
            walls
        }
    }

    /// Gives a file or directory to this user (does nothing when it is ours already).
    ///
    /// # Errors
    /// The operating system's answer to `chown`.
    pub fn own(&self, path: &Path) -> std::io::Result<()> {
        if self.switch {
            lchown(path, Some(self.uid), Some(self.gid))?;
        }
        Ok(())
    }

    /// As [`ServerUser::own`], for a file that is open.
    ///
    /// # Errors
    /// The operating system's answer to `fchown`.
    pub fn own_file(&self, file: &std::fs::File) -> std::io::Result<()> {
        if self.switch {
            fchown(file, Some(self.uid), Some(self.gid))?;
        }
        Ok(())
    }

    /// Gives a directory with all that it holds to this user. No server may work in it.
    ///
    /// # Errors
    /// The operating system's answer to `chown`.
    pub fn own_all(&self, dir: &Path) -> std::io::Result<()> {
        // The directory itself last: by its owner one sees whether this was done to the end.
        for entry in walkdir::WalkDir::new(dir).contents_first(true) {
            self.own(entry?.path())?;
        }
        Ok(())
    }

    /// Keeps everybody else out of a directory of ours: 0700.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn keep_out(&self, dir: &Path) -> std::io::Result<()> {
        passage::close(dir, 0o700)
    }

    /// Lets servers pass through a directory of ours, and nobody else in: 0710 with the servers' group, or 0700 where
    /// servers run as the user that owns it anyway.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn let_through(&self, dir: &Path) -> std::io::Result<()> {
        if !self.switch {
            return passage::close(dir, 0o700);
        }
        lchown(dir, None, Some(self.gid))?;
        passage::close(dir, 0o710)
    }

    /// As [`ServerUser::let_through`], and lets members of [`GROUP`] pass too, on their way to sockets.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn let_holders_through(&self, dir: &Path) -> std::io::Result<()> {
        let Some(holders) = self.holders.filter(|_| self.switch) else { return self.let_through(dir) };
        lchown(dir, None, Some(holders))?;
        passage::close(dir, 0o710)?;
        passage::admit(dir, self.gid)
    }

    /// Makes `dir` the place of this user's sockets: members of [`GROUP`] pass through it, and no other server. Those of
    /// [`SERVERS`], which belong to no source, are open to all servers, as an origin for an import is.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn own_sockets(&self, dir: &Path) -> std::io::Result<()> {
        if !self.switch {
            return passage::close(dir, 0o700);
        }
        let group = self.holders.filter(|_| !self.open_to_servers).unwrap_or(self.gid);
        lchown(dir, Some(self.uid), Some(group))?;
        passage::close(dir, self.sockets_mode())
    }

    /// The mode of a directory that [`ServerUser::own_sockets`] makes.
    #[must_use]
    pub fn sockets_mode(&self) -> u32 {
        if self.switch && (self.open_to_servers || self.holders.is_some()) {
            0o710
        } else {
            0o700
        }
    }

    /// Checks that this user can reach `dir`: each directory from the root down lets it through.
    ///
    /// # Errors
    /// [`UserError::NotTraversable`] names the first directory that does not, and the command that fixes it.
    pub fn check_traversable(&self, dir: &Path) -> Result<(), UserError> {
        let mut ancestors: Vec<&Path> = dir.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        ancestors.reverse();
        for path in ancestors {
            let text = path.display().to_string();
            let metadata = std::fs::metadata(path)
                .map_err(|source| UserError::Inspect { path: text.clone(), source })?;
            let mode = metadata.mode();
            let allowed = if metadata.uid() == self.uid {
                mode & 0o100 != 0
            } else if metadata.gid() == self.gid {
                mode & 0o010 != 0
            } else {
                mode & 0o001 != 0 || passage::admits(path, self.gid)
            };
            if !allowed {
                return Err(UserError::NotTraversable {
                    user: self.name.clone(),
                    path: text,
                    mode: mode & 0o7777,
                    owner: metadata.uid(),
                });
            }
        }
        Ok(())
    }
}
