//! Worktrees of ours, outside of the repository, that commits are built and run in.

use super::error::io;
use super::{bytes, lossy, Call, GitError, Repository};
use duramen_base::{clock, entropy};
use std::fs::{self, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// In a folder while its worktree is being changed: what a kill left is made anew.
const UNFINISHED: &str = "unfinished";
/// What is being deleted begins with this.
const TRASH: &str = "trash-";
/// Letters of a random name.
const NAME_LEN: usize = 12;
/// Hex digits in the name of a worktree.
const DIGEST_LEN: usize = 12;
/// A folder that somebody still writes to is tried to be deleted for so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A folder with the files of a commit, and a git folder of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Where the files are: a folder in the one that was asked for.
    pub path: PathBuf,
}

/// The places of a worktree.
struct Place {
    folder: PathBuf,
    /// Its last part tells whose it is.
    path: PathBuf,
}

impl Place {
    fn unfinished(&self) -> PathBuf {
        self.folder.join(UNFINISHED)
    }

    fn git_dir(&self) -> PathBuf {
        self.path.join(".git")
    }

    fn index(&self) -> PathBuf {
        self.git_dir().join("index")
    }

    fn trash(&self) -> PathBuf {
        self.folder.join(format!("{TRASH}{}", entropy::token(NAME_LEN)))
    }
}

impl Repository {
    /// A worktree in a folder of its own, outside of the repository, that holds exactly the files of a commit. One that
    /// is there is used again: whatever differs is put right, and what git ignores (the caches of builds) stays, unless
    /// it shall be `fresh`. It is at no branch.
    ///
    /// It is not a linked worktree as `git worktree` makes them: those share branches, stash, settings and more with the
    /// user's. It has a git folder of its own, made anew each time, with copies of the refs, and only borrows the objects.
    /// Whatever a command does with git there stays there.
    ///
    /// A worktree that a kill left half made is made anew. Submodules stay empty; see [`cautions`](Self::cautions).
    ///
    /// # Errors
    /// [`GitError::InsideRepository`], [`GitError::Occupied`], or when git fails.
    pub fn worktree(&self, folder: &Path, commit: &str, fresh: bool) -> Result<Worktree, GitError> {
        let commit = self.resolve(commit)?;
        self.check_not_inside(folder)?;
        fs::create_dir_all(folder).map_err(io("make", folder))?;
        let place = self.place(folder)?;
        check_free(&place)?;
        sweep(&place.folder)?;
        let reusable = !fresh && self.is_whole(&place);
        let unfinished = place.unfinished();
        fs::write(&unfinished, "").map_err(io("write", &unfinished))?;
        if !reusable || self.put_right(&place, &commit).is_err() {
            discard(&place)?;
            fs::create_dir(&place.path).map_err(io("make", &place.path))?;
            self.put_right(&place, &commit)?;
        }
        fs::remove_file(&unfinished).map_err(io("delete", &unfinished))?;
        Ok(Worktree { path: place.path })
    }

    /// Removes the worktree of a folder, and the folder. It need not be there.
    ///
    /// # Errors
    /// [`GitError::Occupied`] if something else is in the folder, or when it cannot be deleted.
    pub fn remove_worktree(&self, folder: &Path) -> Result<(), GitError> {
        if !folder.exists() {
            return Ok(());
        }
        let place = self.place(folder)?;
        check_free(&place)?;
        discard(&place)?;
        sweep(&place.folder)?;
        delete(&place.unfinished())?;
        fs::remove_dir(&place.folder).map_err(io("delete", &place.folder))
    }

    /// What a worktree of a commit will lack, in sentences: the files of submodules, and those of Git LFS where it is not
    /// installed.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn cautions(&self, commit: &str) -> Result<Vec<String>, GitError> {
        let commit = self.resolve(commit)?;
        let tree = self.call("list a commit").args(["ls-tree", "-r", "-z", "--full-tree", &commit]).run()?;
        let mut cautions = Vec::new();
        for item in tree.items().filter(|item| item.starts_with(b"160000 ")) {
            let name = item.iter().position(|byte| *byte == b'\t').map_or(item, |at| &item[at + 1..]);
            let name = lossy(name);
            cautions.push(format!(
                "{name} is a submodule: its folder is empty in worktrees; let the build command fill it"
            ));
        }
        let lfs = ["grep", "-q", "-F", "filter=lfs", &commit, "--", ".gitattributes", "**/.gitattributes"];
        let has_lfs = self.call("look for Git LFS").args(lfs).any()?.code == 0;
        if has_lfs && self.call("look for Git LFS").args(["lfs", "version"]).any()?.code != 0 {
            cautions.push(
                "files are kept with Git LFS, which is not installed: worktrees hold pointers in their place"
                    .into(),
            );
        }
        Ok(cautions)
    }

    fn place(&self, folder: &Path) -> Result<Place, GitError> {
        let folder = folder.canonicalize().map_err(io("find", folder))?;
        self.check_not_inside(&folder)?;
        Ok(self.place_at(folder))
    }

    fn place_at(&self, folder: PathBuf) -> Place {
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytes(&self.common_dir)).update(b"\0").update(bytes(&folder));
        let path = folder.join(format!("duramen-{}", &hasher.finalize().to_hex()[..DIGEST_LEN]));
        Place { folder, path }
    }

    /// Whether a folder is a worktree of ours of this repository.
    pub(super) fn is_ours(&self, path: &Path) -> bool {
        path.parent().is_some_and(|folder| self.place_at(folder.to_owned()).path == path)
    }

    /// Of a folder that need not be there the nearest one above it that is.
    fn check_not_inside(&self, folder: &Path) -> Result<(), GitError> {
        let absolute = std::path::absolute(folder).map_err(io("find", folder))?;
        let real = absolute.ancestors().find_map(|above| above.canonicalize().ok()).unwrap_or_default();
        if [&self.root, &self.common_dir].into_iter().any(|ours| real.starts_with(ours)) {
            return Err(GitError::InsideRepository { folder: folder.to_owned(), root: self.root.clone() });
        }
        Ok(())
    }

    /// Whether it is a worktree that was finished, in a state from which git can put it right.
    fn is_whole(&self, place: &Place) -> bool {
        let is =
            |path: &Path, kind: fn(&Metadata) -> bool| path.symlink_metadata().is_ok_and(|meta| kind(&meta));
        is(&place.path, Metadata::is_dir)
            && is(&place.git_dir(), Metadata::is_dir)
            && is(&place.index(), Metadata::is_file)
            && !place.unfinished().exists()
            && self.sees_all(place)
    }

    /// Whether the index lets git see each change: files can be marked as not to be looked at.
    fn sees_all(&self, place: &Place) -> bool {
        let list = self.call_for("list the worktree", &place.path).env("GIT_INDEX_FILE", place.index());
        let list = list.args(["ls-files", "-z", "-v"]).run();
        list.is_ok_and(|list| list.items().all(|item| item.starts_with(b"H ")))
    }

    /// A call with the user's repository and the files of a folder of ours, whatever git folder that has.
    pub(super) fn call_for(&self, doing: &'static str, worktree: &Path) -> Call {
        self.call_in(doing, worktree).env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", worktree)
    }

    pub(super) fn object_format(&self) -> Result<String, GitError> {
        Ok(self.call("ask for the object format").args(["rev-parse", "--show-object-format"]).run()?.line())
    }

    fn put_right(&self, place: &Place, commit: &str) -> Result<(), GitError> {
        self.renew_git_dir(place, commit)?;
        let call = |doing| Call::new(doing, &place.path).guarded();
        let checkout =
            ["checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", commit, "--"];
        call("check out a commit").args(checkout).run()?;
        // Twice `f`: repositories within are deleted too.
        call("delete files that are not of the commit").args(["clean", "-ffdq"]).run()?;
        Ok(())
    }

    /// Makes the git folder of a worktree anew. Of an old one only the index stays, which knows the files.
    fn renew_git_dir(&self, place: &Place, commit: &str) -> Result<(), GitError> {
        let new = place.trash();
        let format = self.object_format()?;
        Call::new("make a git folder", &place.folder)
            .args(["init", "--quiet", "--template=", "--initial-branch=main"])
            .arg(format!("--object-format={format}"))
            .arg(&new)
            .run()?;
        let git_dir = new.join(".git");
        let write = |name: &str, content: &[u8]| {
            let path = git_dir.join(name);
            let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
            folder.and_then(|()| fs::write(&path, content)).map_err(io("write", path))
        };
        let objects = self.common_dir.join("objects");
        write("objects/info/alternates", &[as_line(bytes(&objects)), b"\n".to_vec()].concat())?;
        // As the build sees them in the user's: `git describe` asks for tags.
        let refs = ["refs/heads", "refs/tags", "refs/remotes", "refs/replace"];
        let refs =
            self.call("list the refs").args(["for-each-ref", "--format=%(objectname) %(refname)"]).args(refs);
        write("packed-refs", &refs.run()?.stdout)?;
        write("HEAD", format!("{commit}\n").as_bytes())?;
        for name in ["info/exclude", "info/attributes", "shallow"] {
            if let Ok(content) = fs::read(self.common_dir.join(name)) {
                write(name, &content)?;
            }
        }
        let made = fs::read(git_dir.join("config")).map_err(io("read", &git_dir))?;
        let theirs = quoted(bytes(&self.common_dir.join("config")));
        let here = quoted(bytes(&place.path));
        // The user's settings first; what must be otherwise here follows and counts.
        let config: [&[u8]; 6] = [
            b"[include]\n\tpath = ",
            &theirs,
            b"\n",
            &made,
            b"[core]\n\tsparseCheckout = false\n\tsplitIndex = false\n\tfsmonitor = false\n\tworktree = ",
            &here,
        ];
        write("config", &config.concat())?;
        if place.index().is_file() {
            fs::rename(place.index(), git_dir.join("index")).map_err(io("keep", place.index()))?;
        }
        if place.git_dir().symlink_metadata().is_ok() {
            let old = place.trash();
            fs::rename(place.git_dir(), &old).map_err(io("move", place.git_dir()))?;
            delete(&old)?;
        }
        fs::rename(&git_dir, place.git_dir()).map_err(io("move", git_dir))?;
        delete(&new)
    }
}

/// Whatever else is in the folder is somebody else's.
fn check_free(place: &Place) -> Result<(), GitError> {
    for entry in fs::read_dir(&place.folder).map_err(io("read", &place.folder))? {
        let path = entry.map_err(io("read", &place.folder))?.path();
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        if path != place.path && name != UNFINISHED.as_bytes() && !name.starts_with(TRASH.as_bytes()) {
            return Err(GitError::Occupied { path });
        }
    }
    Ok(())
}

/// Moved away first, so that what is half deleted is never taken for a worktree.
fn discard(place: &Place) -> Result<(), GitError> {
    if place.path.symlink_metadata().is_ok() {
        let trash = place.trash();
        fs::rename(&place.path, &trash).map_err(io("move", &place.path))?;
        delete(&trash)?;
    }
    Ok(())
}

/// In double quotes, as git's settings and lists take names with any characters.
pub(super) fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// A line of a list of paths: in quotes if it must be, which not every program that reads it knows.
fn as_line(path: &[u8]) -> Vec<u8> {
    if path.contains(&b'\n') || path.starts_with(b"\"") {
        quoted(path)
    } else {
        path.to_vec()
    }
}

/// Deletes what an earlier process began to delete.
fn sweep(folder: &Path) -> Result<(), GitError> {
    for entry in fs::read_dir(folder).map_err(io("read", folder))? {
        let entry = entry.map_err(io("read", folder))?;
        if entry.file_name().as_bytes().starts_with(TRASH.as_bytes()) {
            delete(&entry.path())?;
        }
    }
    Ok(())
}

/// Deletes a folder with all that is in it, or a file.
pub(crate) fn delete(path: &Path) -> Result<(), GitError> {
    let remove = || match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    let begin = clock::now();
    let mut removed = remove();
    // A git that we started before we were killed may still be writing there.
    while matches!(&removed, Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty)
        && begin.elapsed() < PATIENCE
    {
        thread::sleep(PAUSE);
        removed = remove();
    }
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Some caches of builds are write-protected folders.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let _ = unprotect(path);
            remove().map_err(io("delete", path))
        }
        result => result.map_err(io("delete", path)),
    }
}

fn unprotect(path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(path)? {
            unprotect(&entry?.path())?;
        }
    }
    Ok(())
}
