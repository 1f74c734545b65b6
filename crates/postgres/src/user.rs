//! Which operating-system user runs the servers. PostgreSQL refuses to run as root.

use duramen_cage::Walls;
use std::{
    os::unix::fs::{fchown, lchown},
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
};

/// The system group whose members may hold branches, if the machine has it.
pub const GROUP: &str = "duramen";

/// The user that server processes run as, and that owns their files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUser {
    /// The account's name, for messages.
    pub name: String,
    uid: u32,
    gid: u32,
    /// Whether a process has to change to this user (we are root), or already is it.
    switch: bool,
}

/// Why no server user could be determined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// Started by root on a machine without a user for servers.
    #[error("PostgreSQL refuses to run as root, and this machine has neither a `postgres` nor a `duramen` user; run: useradd --system --no-create-home --shell /usr/sbin/nologin duramen")]
    NoServerUser,
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
    /// The user for servers started by this process: itself, or when it is root the system user `postgres`,
    /// else `duramen`. Its group is [`GROUP`] where there is one, so that members pass wherever servers pass, and the
    /// user's own elsewhere.
    ///
    /// # Errors
    /// [`UserError::NoServerUser`] when root has no such user to fall back on.
    pub fn current() -> Result<ServerUser, UserError> {
        let effective = nix::unistd::Uid::effective();
        if !effective.is_root() {
            let name = nix::unistd::User::from_uid(effective)?
                .map_or_else(|| effective.to_string(), |user| user.name);
            let gid = nix::unistd::Gid::effective().as_raw();
            return Ok(ServerUser { name, uid: effective.as_raw(), gid, switch: false });
        }
        let group = nix::unistd::Group::from_name(GROUP)?;
        for name in ["postgres", "duramen"] {
            if let Some(user) = nix::unistd::User::from_name(name)? {
                let gid = group.map_or(user.gid, |group| group.gid).as_raw();
                return Ok(ServerUser { name: user.name, uid: user.uid.as_raw(), gid, switch: true });
            }
        }
        Err(UserError::NoServerUser)
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

    /// Lets this user pass through a directory of ours, and nobody else in: 0710 with the servers' group, or 0700
    /// where servers run as the user that owns it anyway.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn let_through(&self, dir: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        if self.switch {
            lchown(dir, None, Some(self.gid))?;
        }
        let mode = if self.switch { 0o710 } else { 0o700 };
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode))
    }

    /// Checks that this user can reach `dir`: each directory from the root down lets it through.
    ///
    /// # Errors
    /// [`UserError::NotTraversable`] names the first directory that does not, and the command that fixes it.
    pub fn check_traversable(&self, dir: &Path) -> Result<(), UserError> {
        use std::os::unix::fs::MetadataExt;
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
                mode & 0o001 != 0
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
