//! Worktrees of ours, outside of the repository, that commits are built and run in.

use super::error::io;
use super::{busy, bytes, lossy, path_of_line, Call, GitError, Repository};
use duramen_measure::entropy;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// In a folder while its worktree is being changed: what a kill left is made anew.
const UNFINISHED: &str = "unfinished";
/// What is being deleted begins with this.
const TRASH: &str = "trash-";
/// Letters of a random name.
const NAME_LEN: usize = 12;
/// Hex digits in the name of a worktree.
const DIGEST_LEN: usize = 12;
/// Settings for worktrees, whatever the user's own looks like: all of the commit's files are there.
const WHOLE: [&str; 2] = ["core.sparseCheckout=false", "index.sparse=false"];

/// A folder with the files of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Where the files are: a folder in the one that was asked for.
    pub path: PathBuf,
}

/// The places of a worktree.
struct Place {
    folder: PathBuf,
    /// Its last part is also git's name for it, and tells whose it is.
    path: PathBuf,
    /// What git keeps of it in the repository.
    admin: PathBuf,
}

impl Place {
    fn unfinished(&self) -> PathBuf {
        self.folder.join(UNFINISHED)
    }
}

impl Repository {
    /// A worktree in a folder of its own, outside of the repository, that holds exactly the files of a commit. One that
    /// is there is used again: whatever differs is put right, and what git ignores (the caches of builds) stays, unless
    /// it shall be `fresh`. It is at no branch.
    ///
    /// A worktree that a kill left half made is made anew. Submodules stay empty; see [`cautions`](Self::cautions).
    ///
    /// # Errors
    /// [`GitError::InsideRepository`], [`GitError::Occupied`], or when git fails.
    pub fn worktree(&self, folder: &Path, commit: &str, fresh: bool) -> Result<Worktree, GitError> {
        let commit = self.resolve(commit)?;
        fs::create_dir_all(folder).map_err(io("make", folder))?;
        let place = self.place(folder)?;
        self.check_free(&place)?;
        sweep(&place.folder)?;
        let reusable = !fresh && self.is_whole(&place);
        let unfinished = place.unfinished();
        fs::write(&unfinished, "").map_err(io("write", &unfinished))?;
        if !reusable || self.put_right(&place, &commit).is_err() {
            self.discard(&place)?;
            self.make(&place, &commit)?;
        }
        fs::remove_file(&unfinished).map_err(io("delete", &unfinished))?;
        Ok(Worktree { path: place.path })
    }

    /// Removes the worktree of a folder, the folder, and what git knows of it. It need not be there.
    ///
    /// # Errors
    /// [`GitError::Occupied`] if something else is in the folder, or when it cannot be deleted.
    pub fn remove_worktree(&self, folder: &Path) -> Result<(), GitError> {
        if !folder.exists() {
            // Somebody may have deleted the folder only.
            if let Some(parent) = folder.parent().and_then(|parent| parent.canonicalize().ok()) {
                let place = self.place_at(parent.join(folder.file_name().unwrap_or_default()));
                self.discard(&place)?;
            }
            return Ok(());
        }
        let place = self.place(folder)?;
        self.check_free(&place)?;
        self.discard(&place)?;
        sweep(&place.folder)?;
        let unfinished = place.unfinished();
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("delete", unfinished)(error)),
            _ => {}
        }
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
        let within = [&self.root, &self.common_dir].into_iter().any(|ours| folder.starts_with(ours));
        if within {
            return Err(GitError::InsideRepository { folder, root: self.root.clone() });
        }
        Ok(self.place_at(folder))
    }

    fn place_at(&self, folder: PathBuf) -> Place {
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytes(&self.common_dir)).update(b"\0").update(bytes(&folder));
        let name = format!("duramen-{}", &hasher.finalize().to_hex()[..DIGEST_LEN]);
        Place { path: folder.join(&name), admin: self.common_dir.join("worktrees").join(&name), folder }
    }

    /// Whatever else is in the folder is somebody else's.
    fn check_free(&self, place: &Place) -> Result<(), GitError> {
        for entry in fs::read_dir(&place.folder).map_err(io("read", &place.folder))? {
            let path = entry.map_err(io("read", &place.folder))?.path();
            let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
            if path != place.path && name != UNFINISHED.as_bytes() && !name.starts_with(TRASH.as_bytes()) {
                return Err(GitError::Occupied { path });
            }
        }
        Ok(())
    }

    /// Whether it is a worktree that was finished, in a state from which git can put it right.
    fn is_whole(&self, place: &Place) -> bool {
        let Ok(top) = self.working_tree(&place.path) else { return false };
        let locked = place.admin.join("index.lock").exists();
        top == (place.path.clone(), place.admin.clone())
            && !place.unfinished().exists()
            && !locked
            && busy(&place.admin).is_none()
            && self.sees_all(place)
    }

    /// Whether the index lets git see each change: files can be marked as not to be looked at.
    fn sees_all(&self, place: &Place) -> bool {
        let list = whole(Call::new("list the worktree", &place.path)).args(["ls-files", "-z", "-v"]).run();
        list.is_ok_and(|list| list.items().all(|item| item.starts_with(b"H ")))
    }

    /// Not by `reset`, which would move a branch that somebody has checked out there.
    fn put_right(&self, place: &Place, commit: &str) -> Result<(), GitError> {
        let call = |doing| whole(self.call_in(doing, &place.path)).guarded();
        let checkout =
            ["checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", commit, "--"];
        call("check out a commit").args(checkout).run()?;
        // Twice `f`: repositories within are deleted too.
        call("delete files that are not of the commit").args(["clean", "-ffdq"]).run()?;
        Ok(())
    }

    fn make(&self, place: &Place, commit: &str) -> Result<(), GitError> {
        self.call("make a worktree")
            .guarded()
            .args(["worktree", "add", "--quiet", "--detach", "--no-checkout"])
            .args([place.path.as_os_str(), commit.as_ref()])
            .run()?;
        let made =
            Call::new("look at the worktree", &place.path).args(["rev-parse", "--absolute-git-dir"]).run()?;
        if path_of_line(made) != place.admin {
            return Err(GitError::Occupied { path: place.admin.clone() });
        }
        self.put_right(place, commit)
    }

    /// What git knows of it goes first, so that it never knows of a worktree that is half deleted.
    fn discard(&self, place: &Place) -> Result<(), GitError> {
        if place.admin.exists() {
            delete(&place.admin)?;
            // As git does with the last one.
            let _ = fs::remove_dir(self.common_dir.join("worktrees"));
        }
        if place.path.symlink_metadata().is_ok() {
            let trash = place.folder.join(format!("{TRASH}{}", entropy::token(NAME_LEN)));
            fs::rename(&place.path, &trash).map_err(io("move", &place.path))?;
            delete(&trash)?;
        }
        Ok(())
    }
}

fn whole(call: Call) -> Call {
    WHOLE.iter().fold(call, |call, setting| call.setting(*setting))
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
fn delete(path: &Path) -> Result<(), GitError> {
    let remove = || match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match remove() {
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
