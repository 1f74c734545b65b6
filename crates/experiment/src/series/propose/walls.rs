//! The walls around whoever proposes (X25): its own worktree, a home of its own with copies of its credentials, the
//! machine's programs and toolchains. Nothing of the series, of other tries, of the user's repository, or of what is held
//! out.

use super::super::{error::fail, walls::home, Series, SeriesError};
use crate::{
    agents::{which, Agent},
    git::delete,
    run::Caged,
    spec::{values, Spec},
};
use duramen_cage::Walls;
use std::{
    fs::{self, Permissions},
    io::{self, Read},
    os::unix::fs::{symlink, PermissionsExt},
    path::{Path, PathBuf},
};

/// The home of whoever proposes, within the work folder.
const HOME: &str = "proposal-home";
/// A file of credentials or settings is copied up to this, in bytes.
const COPIED_MAX: u64 = 1 << 20;
/// What programs and toolchains lie in, of a home. They are shown read-only.
const TOOLCHAINS: [&str; 30] = [
    ".asdf",
    ".bun",
    ".cabal",
    ".cargo",
    ".deno",
    ".dotnet",
    ".gem",
    ".ghcup",
    ".julia",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/claude",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/uv",
    ".m2",
    ".npm-global",
    ".nvm",
    ".opam",
    ".opencode",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".stack",
    ".volta",
    "bin",
    "go",
];
/// What among them holds secrets, and is hidden.
const SECRETS: [&str; 5] = [
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
];
/// Variables that it gets in any case.
const VARIABLES: [&str; 36] = [
    "CARGO_HOME",
    "CURL_CA_BUNDLE",
    "GOFLAGS",
    "GOPATH",
    "GOPROXY",
    "GOROOT",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LOGNAME",
    "MISE_DATA_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "NVM_DIR",
    "PATH",
    "PYENV_ROOT",
    "REQUESTS_CA_BUNDLE",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Removes what a question that was cut off has left, with the copies of credentials that are in it.
pub(in super::super) fn clear(work: &Path) -> io::Result<()> {
    delete(&work.join(HOME)).map_err(io::Error::other)
}

/// What whoever proposes runs within.
pub(super) struct Room {
    pub(super) caged: Caged,
    /// What it gets of our environment.
    pub(super) keep: Vec<String>,
    /// What is set besides.
    pub(super) env: Vec<(String, String)>,
    /// Its home, which goes with it.
    home: PathBuf,
}

impl Drop for Room {
    fn drop(&mut self) {
        // The next one makes it anew, whatever is left.
        let _ = delete(&self.home);
    }
}

impl Series<'_> {
    /// Makes the room for one question, if the segment has walls. `prompt` is a file that it reads.
    pub(super) fn room(
        &self,
        spec: &Spec,
        tree: &Path,
        prompt: &Path,
        command: &str,
        agent: Option<&Agent>,
    ) -> Result<Option<Room>, SeriesError> {
        let Some(cage) = self.cage.clone() else { return Ok(None) };
        // Of a home that is not known, nothing could be hidden.
        let unknown = || fail("hide the home of", Path::new("HOME"))(io::ErrorKind::NotFound.into());
        let real_home = home().ok_or_else(unknown)?;
        let home = self.work.join(HOME);
        let given = |paths: &[String]| -> Vec<PathBuf> {
            let there = paths.iter().map(|path| values::expanded(path, Some(&real_home)));
            there.filter_map(|path| path.canonicalize().ok()).collect()
        };
        let (reads, writes) = (given(&spec.proposer.reads), given(&spec.proposer.writes));
        make_home(&home, &real_home, agent, reads.iter().chain(&writes))
            .map_err(fail("make the home of the proposer in", &home))?;
        let home = home.canonicalize().map_err(fail("find the folder", &home))?;

        let mut shown: Vec<PathBuf> = TOOLCHAINS.iter().map(|name| real_home.join(name)).collect();
        shown.extend(agent.and_then(Agent::installed).iter().flat_map(|program| folders_of(program)));
        shown.extend(named_in(command));
        shown.extend(reads);

        let mut walls = Walls::new();
        if spec.proposer.network {
            walls = walls.with_network();
        }
        let mut own = vec![self.repository.root().to_owned(), self.repository.common_dir().to_owned()];
        own.extend([self.folder.clone(), self.work.clone()]);
        own.extend(self.private.iter().cloned());
        own.extend(self.held_out_files(spec));
        let own: Vec<PathBuf> = own.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let secrets = SECRETS.iter().map(|name| real_home.join(name)).filter(|path| path.is_file());
        // Of several paths the longer one counts: what is ours is hidden in whatever is shown.
        for path in own.iter().cloned().chain([real_home.clone()]).chain(secrets) {
            if path.parent().is_some() {
                walls = walls.hide(path);
            }
        }
        let is_private = |path: &PathBuf| own.iter().any(|ours| path.starts_with(ours));
        let shown = shown.into_iter().filter_map(|path| path.canonicalize().ok());
        for path in shown.filter(|path| !is_private(path) && *path != real_home) {
            walls = walls.readable(path);
        }
        for path in writes.into_iter().filter(|path| !is_private(path) && *path != real_home) {
            walls = walls.writable(path);
        }
        walls = walls.readable(prompt).writable(home.clone()).writable(tree);

        let mut keep: Vec<String> = VARIABLES.iter().map(|name| (*name).to_owned()).collect();
        keep.extend(agent.into_iter().flat_map(|agent| agent.env).map(|name| (*name).to_owned()));
        keep.extend(spec.proposer.env.iter().cloned());
        let mut env = vec![("HOME".to_owned(), home.to_string_lossy().into_owned())];
        let set = agent.into_iter().flat_map(|agent| agent.set);
        env.extend(set.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Ok(Some(Room { caged: Caged { cage, walls }, keep, env, home }))
    }
}

/// A home with copies of what the agent signs in with, and links to toolchains and to what the spec names.
fn make_home<'p>(
    home: &Path,
    real: &Path,
    agent: Option<&Agent>,
    named: impl Iterator<Item = &'p PathBuf>,
) -> io::Result<()> {
    delete(home).map_err(io::Error::other)?;
    fs::create_dir_all(home)?;
    fs::set_permissions(home, Permissions::from_mode(0o700))?;
    // What lies below a link is the user's own, and seen through it already: nothing is made or removed there.
    let place = |name: &str| -> io::Result<Option<PathBuf>> {
        let path = home.join(name);
        let mut above = path.ancestors().skip(1).take_while(|dir| *dir != home);
        if above.any(Path::is_symlink) {
            return Ok(None);
        }
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        Ok(Some(path))
    };
    for name in TOOLCHAINS.iter().filter(|name| real.join(name).exists()) {
        if let Some(link) = place(name)? {
            symlink(real.join(name), link)?;
        }
    }
    for name in agent.into_iter().flat_map(|agent| agent.home) {
        let Ok(file) = fs::File::open(real.join(name)) else { continue };
        let mut bytes = Vec::new();
        file.take(COPIED_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= COPIED_MAX {
            let Some(path) = place(name)? else { continue };
            fs::write(&path, bytes)?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        }
    }
    for path in named {
        let Some(name) = path.strip_prefix(real).ok().and_then(Path::to_str) else { continue };
        let Some(link) = place(name)? else { continue };
        // Of what was copied the spec says that it is to be the file itself.
        let _ = fs::remove_file(&link);
        if link.symlink_metadata().is_err() {
            symlink(path, link)?;
        }
    }
    Ok(())
}

/// What a program needs of the folders that it lies in: its own, and of what was installed with others what they share.
fn folders_of(program: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = program.parent().map(Path::to_owned).into_iter().collect();
    let Ok(real) = program.canonicalize() else { return folders };
    let modules = real.ancestors().filter(|dir| dir.ends_with("node_modules")).last();
    match (modules, real.parent()) {
        (Some(modules), _) => folders.push(modules.to_owned()),
        // All of a virtual environment, and no other folder that has programs among other things.
        (None, Some(dir)) if dir.ends_with("bin") => {
            folders.push(dir.to_owned());
            folders.extend(dir.parent().filter(|env| env.join("pyvenv.cfg").is_file()).map(Path::to_owned));
        }
        (None, Some(dir)) => folders.push(dir.to_owned()),
        (None, None) => {}
    }
    // Of an interpreter that the first line names, too.
    let folder = |word: &str| Path::new(word).parent().map(Path::to_owned);
    let mut first = [0; 256];
    let read = fs::File::open(&real).and_then(|mut file| file.read(&mut first)).unwrap_or(0);
    let line = String::from_utf8_lossy(&first[..read]);
    if let Some(rest) = line.lines().next().and_then(|line| line.strip_prefix("#!")) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        folders.extend(words.first().and_then(|word| folder(word)));
        let by_env = words.first().is_some_and(|word| word.ends_with("/env"));
        let called = words.get(1).filter(|_| by_env).and_then(|word| which(word));
        folders.extend(
            called.iter().flat_map(|path| [path.parent().map(Path::to_owned), Some(path.clone())]).flatten(),
        );
    }
    folders.retain(|dir| dir.parent().is_some());
    folders
}

/// The files that a command names by their whole paths.
fn named_in(command: &str) -> Vec<PathBuf> {
    let words = command.split([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>', '`', '=']);
    words
        .map(|word| Path::new(word.trim_matches(['\'', '"'])))
        .filter(|path| path.is_absolute() && path.is_file())
        .map(Path::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::make_home;
    use std::{fs, os::unix::fs::symlink, path::PathBuf};

    /// What is named below a toolchain, or below something else that is named, is seen through that.
    #[test]
    fn making_a_home_leaves_the_users_own_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (home, real) = (dir.path().join(super::HOME), dir.path().join("real"));
        let files =
            [".cargo/config.toml", ".config/gh/hosts.yml", "bin/tool", "notes"].map(|name| real.join(name));
        for file in &files {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "the user's").unwrap();
        }
        symlink(&files[3], real.join("link")).unwrap();
        let named: Vec<PathBuf> = [vec![real.join(".config/gh")], files.to_vec()].concat();
        for _ in 0..2 {
            make_home(&home, &real, None, named.iter()).unwrap();
            for file in &files {
                assert!(!file.is_symlink() && fs::read(file).unwrap() == b"the user's", "{}", file.display());
                let seen = home.join(file.strip_prefix(&real).unwrap());
                assert_eq!(fs::read(seen).unwrap(), b"the user's");
            }
        }
        // What cannot be written is removed all the same.
        let cache = home.join("cache/of/modules");
        fs::create_dir_all(&cache).unwrap();
        fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
        super::clear(dir.path()).unwrap();
        assert!(!home.exists());
    }
}
