//! What a snapshot of a working tree holds, and what not.

use super::support::{git, text, User};
use duramen_experiment::git::GitError;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[test]
fn a_snapshot_holds_what_is_tracked_and_what_is_new_and_nothing_that_is_ignored() {
    let user = User::dirty();
    let repository = user.open();
    let head = repository.head().unwrap();
    let commit = repository.snapshot(&user.root, &head, "a try\n\nwith a body\n", &[]).unwrap();
    assert_eq!(user.files(&commit), User::dirty_content());
    assert_eq!(user.git(["rev-parse", &format!("{commit}^@")]), head);
    assert_eq!(repository.message(&commit).unwrap(), "a try\n\nwith a body");
    assert_eq!(
        user.git(["log", "-1", "--format=%an <%ae> %cn", &commit]),
        "The User <user@example> The User"
    );
    let mut dirty = repository.dirty_files(&[]).unwrap();
    dirty.sort();
    let mut changed = repository.changed_files(&head, &commit).unwrap();
    changed.sort();
    assert_eq!(dirty, changed);
    assert!(changed.contains(&"new/file\nof two lines".to_owned()), "{changed:?}");
    // From a folder within, it is the same.
    let within = repository.snapshot(&user.root.join("code"), &head, "", &[]).unwrap();
    assert_eq!(user.files(&within), User::dirty_content());
}

#[test]
fn a_clean_tree_is_the_tree_of_its_commit() {
    let user = User::new();
    let repository = user.open();
    let commit = repository.snapshot(&user.root, "HEAD", "", &[]).unwrap();
    assert_eq!(repository.changed_files("HEAD", &commit).unwrap(), [""; 0]);
    assert_eq!(repository.diff("HEAD", &commit).unwrap(), "");
    assert_eq!(repository.dirty_files(&[]).unwrap(), [""; 0]);
}

#[test]
fn what_is_excepted_is_as_in_the_parent() {
    let user = User::new();
    user.write("series/experiment.toml", "old\n");
    user.write("series/gone", "old\n");
    user.write("series*", "a name that is a pattern\n");
    let parent = user.commit("a series");
    // Staged, not staged, new and deleted.
    user.write("series/experiment.toml", "new\n");
    user.git(["add", "--all"]);
    user.write("series/experiments.jsonl", "{}\n");
    user.git(["rm", "-q", "--cached", "series/gone"]);
    fs::remove_file(user.root.join("series/gone")).unwrap();
    user.write("series-other", "in\n");
    user.write("series*", "in too\n");
    let repository = user.open();
    for except in ["series", "series/", "./series", user.root.join("series").to_str().unwrap()] {
        let except = [PathBuf::from(except), Path::new("not/there").to_owned(), "/elsewhere".into()];
        let commit = repository.snapshot(&user.root, &parent, "", &except).unwrap();
        assert_eq!(repository.changed_files(&parent, &commit).unwrap(), ["series*", "series-other"]);
        let mut dirty = repository.dirty_files(&except).unwrap();
        dirty.sort();
        assert_eq!(dirty, ["series*", "series-other"]);
    }
    // A folder that has become a file.
    fs::remove_dir_all(user.root.join("series")).unwrap();
    user.write("series", "a file\n");
    let commit = repository.snapshot(&user.root, &parent, "", &["series".into()]).unwrap();
    assert_eq!(repository.changed_files(&parent, &commit).unwrap(), ["series*", "series-other"]);
}

#[test]
fn files_and_folders_may_take_each_others_place() {
    let user = User::new();
    fs::remove_dir_all(user.root.join("code")).unwrap();
    user.write("code", "a file\n");
    fs::remove_file(user.root.join("bench.sh")).unwrap();
    user.write("bench.sh/a", "in a folder\n");
    let commit = user.open().snapshot(&user.root, "HEAD", "", &[]).unwrap();
    let files = user.files(&commit);
    assert_eq!(files[&b"code"[..]].1, b"a file\n");
    assert_eq!(files[&b"bench.sh/a"[..]].1, b"in a folder\n");
    assert!(!files.contains_key(&b"code/fast.txt"[..]) && !files.contains_key(&b"bench.sh"[..]));
}

#[test]
fn a_change_in_the_moment_after_the_index_was_written_is_seen() {
    let user = User::new();
    let repository = user.open();
    for round in 0..20 {
        // Files have times of a few milliseconds: the second content has the size, and often the time, of the first.
        user.write("code/fast.txt", &format!("{round:04} a\n"));
        user.git(["add", "code/fast.txt"]);
        user.write("code/fast.txt", &format!("{round:04} b\n"));
        let commit = repository.snapshot(&user.root, "HEAD", "", &[]).unwrap();
        assert_eq!(user.files(&commit)[&b"code/fast.txt"[..]].1, format!("{round:04} b\n").as_bytes());
    }
}

#[test]
fn repositories_within_are_left_out_and_submodules_are_not() {
    let user = User::new();
    let inner = |name: &str| {
        let path = user.root.join(name);
        fs::create_dir_all(&path).unwrap();
        text(git(&path, ["init", "-q"]));
        path
    };
    // One without a commit, at which `git add` fails, and one with.
    inner("empty");
    let full = inner("deep/full");
    fs::write(full.join("file"), "x").unwrap();
    for args in ["add .", "-c user.name=a -c user.email=b commit -q -m x"] {
        text(git(&full, args.split(' ')));
    }
    let repository = user.open();
    let commit = repository.snapshot(&user.root, "HEAD", "", &[]).unwrap();
    assert_eq!(repository.changed_files("HEAD", &commit).unwrap(), [""; 0]);

    user.git(["-c", "protocol.file.allow=always", "submodule", "add", "-q", full.to_str().unwrap(), "sub"]);
    user.git(["commit", "-q", "-m", "a submodule"]);
    let with = repository.snapshot(&user.root, "HEAD", "", &[]).unwrap();
    assert_eq!(repository.changed_files("HEAD", &with).unwrap(), [""; 0]);
    assert_eq!(user.files(&with)[&b"sub"[..]].0, "160000");
    let cautions = repository.cautions(&with).unwrap();
    assert!(matches!(&cautions[..], [one] if one.starts_with("sub is a submodule")), "{cautions:?}");
    let worktree = repository.worktree(&user.work("base"), &with, false).unwrap();
    assert_eq!(fs::read_dir(worktree.path.join("sub")).unwrap().count(), 0);
}

#[test]
fn a_snapshot_of_another_repository_is_refused() {
    let (user, other) = (User::dirty(), User::dirty());
    let before = other.everything();
    let error = user.open().snapshot(&other.root, "HEAD", "", &[]).unwrap_err();
    assert!(matches!(error, GitError::OtherRepository { .. }), "{error}");
    before.assert_same(&other.everything(), "a refusal");
}

#[test]
fn what_cannot_be_read_fails_with_its_name() {
    let user = User::new();
    // A name that git takes for no file of a repository: it is never part of a snapshot.
    fs::create_dir_all(user.root.join("odd/.git")).unwrap();
    user.write("odd/.git/file", "x\n");
    user.write("odd/file", "x\n");
    let repository = user.open();
    let commit = repository.snapshot(&user.root, "HEAD", "", &[]).unwrap();
    assert_eq!(repository.changed_files("HEAD", &commit).unwrap(), ["odd/file"]);
    // An index that is none.
    fs::write(user.root.join(".git/index"), "no index").unwrap();
    let error = repository.snapshot(&user.root, "HEAD", "", &[]).unwrap_err();
    assert!(error.to_string().contains("index"), "{error}");
    assert_eq!(fs::read(user.root.join(".git/index")).unwrap(), b"no index");
    assert_eq!(user.root.file_name().unwrap().as_bytes(), b"my repo");
}
