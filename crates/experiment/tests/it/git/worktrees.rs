//! Worktrees: what they hold, what stays in them, what is refused, and what a kill leaves.

use super::roles::role;
use super::support::{git, lines, on_disk, text, User};
use duramen_base::entropy;
use duramen_experiment::git::{GitError, Repository};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The worktree holds the files of the commit and nothing else but what is ignored.
fn assert_holds(user: &User, path: &Path, commit: &str, ignored: &[&str]) {
    let mut files = on_disk(path);
    for name in ignored {
        assert!(files.remove(name.as_bytes()).is_some(), "{name} did not stay");
    }
    assert_eq!(files, user.files(commit));
    assert_eq!(text(git(path, ["rev-parse", "HEAD"])), user.git(["rev-parse", commit]));
    assert_eq!(text(git(path, ["status", "--porcelain"])), "");
    assert!(!git(path, ["symbolic-ref", "-q", "HEAD"]).status.success(), "it is at no branch");
}

#[test]
fn a_worktree_holds_its_commit_whatever_was_there() {
    let user = User::dirty();
    let repository = user.open();
    let (first, dirty) =
        (repository.resolve("HEAD~1").unwrap(), repository.snapshot(&user.root, "HEAD", "", &[]).unwrap());
    let folder = user.work("a/b");
    let path = repository.worktree(&folder, &first, false).unwrap().path;
    assert!(path.starts_with(&folder));
    assert_holds(&user, &path, &first, &[]);

    fs::create_dir_all(path.join("target")).unwrap();
    fs::write(path.join("target/cache"), "a cache").unwrap();
    fs::write(path.join("code/fast.txt"), "changed").unwrap();
    fs::write(path.join("new"), "new").unwrap();
    fs::create_dir(path.join("nested")).unwrap();
    text(git(&path.join("nested"), ["init", "-q"]));
    fs::remove_file(path.join("bench.sh")).unwrap();
    symlink("target", path.join("bench.sh")).unwrap();
    let again = repository.worktree(&folder, &first, false).unwrap().path;
    assert_eq!(again, path);
    assert_holds(&user, &path, &first, &["target/cache"]);

    let unchanged = fs::metadata(path.join("with\nnewline")).unwrap().modified().unwrap();
    repository.worktree(&folder, &dirty, false).unwrap();
    assert_holds(&user, &path, &dirty, &["target/cache"]);
    let now = fs::metadata(path.join("with\nnewline")).unwrap().modified().unwrap();
    assert_eq!(now, unchanged, "builds go by the times of files");

    repository.worktree(&folder, &dirty, true).unwrap();
    assert_holds(&user, &path, &dirty, &[]);
    repository.remove_worktree(&folder).unwrap();
    assert!(!folder.exists());
    // What is not there is removed too.
    repository.remove_worktree(&folder).unwrap();
    repository.remove_worktree(&user.work("never/was")).unwrap();
}

#[test]
fn a_file_that_becomes_tracked_or_ignored_is_that_of_the_commit() {
    let user = User::new();
    let repository = user.open();
    let plain = repository.head().unwrap();
    user.write("out/made", "tracked\n");
    user.write(".gitignore", "target/\n*.log\nout/\n");
    user.git(["add", "--force", "out/made", ".gitignore"]);
    user.git(["commit", "-q", "-m", "tracked and ignored"]);
    let folder = user.work("base");
    let path = repository.worktree(&folder, &plain, false).unwrap().path;
    fs::create_dir(path.join("out")).unwrap();
    fs::write(path.join("out/made"), "built\n").unwrap();
    for commit in ["HEAD", &plain, "HEAD"] {
        repository.worktree(&folder, commit, false).unwrap();
        assert_holds(&user, &path, commit, &[]);
    }
}

#[test]
fn a_change_that_hides_from_git_is_undone() {
    let user = User::new();
    // By which git would look less closely.
    user.git(["config", "core.trustctime", "false"]);
    user.git(["config", "core.checkStat", "minimal"]);
    let repository = user.open();
    let folder = user.work("base");
    let path = repository.worktree(&folder, "HEAD", false).unwrap().path;
    for hide in ["--assume-unchanged", "--skip-worktree"] {
        text(git(&path, ["update-index", hide, "bench.sh"]));
        fs::write(path.join("bench.sh"), "echo METRIC t=0.001\n").unwrap();
        repository.worktree(&folder, "HEAD", false).unwrap();
        assert_holds(&user, &path, "HEAD", &[]);
    }
    // The same size and time.
    let file = path.join("bench.sh");
    let (content, time) =
        (fs::read_to_string(&file).unwrap(), fs::metadata(&file).unwrap().modified().unwrap());
    fs::write(&file, content.replace("t=1", "t=0")).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    repository.worktree(&folder, "HEAD", false).unwrap();
    assert_holds(&user, &path, "HEAD", &[]);
}

#[test]
fn x1_what_a_command_does_with_git_in_a_worktree_stays_there() {
    let user = User::dirty();
    user.git(["branch", "feature", "HEAD~1"]);
    user.git(["tag", "v1", "HEAD~1"]);
    let repository = user.open();
    let folder = user.work("base");
    let before = user.everything();
    let objects = || user.git(["count-objects", "-v"]);
    let count = objects();
    let path = repository.worktree(&folder, "HEAD", false).unwrap().path;
    // The user's settings and names are there.
    assert_eq!(text(git(&path, ["describe", "--tags"])).split_once('-').unwrap().0, "v1");
    assert_eq!(text(git(&path, ["config", "user.name"])), "The User");
    fs::write(path.join("code/fast.txt"), "faster\n").unwrap();
    for args in [
        "stash",
        "stash pop",
        "checkout -q -B main",
        "config user.name Agent",
        "add .",
        "commit -q -m theirs",
        "tag -f v1",
        "branch -D feature",
        "update-ref -d refs/stash",
        "gc -q --prune=now",
        "reflog expire --expire=now --all",
    ] {
        text(git(&path, args.split(' ')));
        before.assert_same(&user.everything(), args);
    }
    assert_eq!(objects(), count, "what was committed there is an object of the user's");
    let commit = repository.snapshot(&path, "HEAD", "found there", &[]).unwrap();
    assert_eq!(repository.changed_files("HEAD", &commit).unwrap(), ["code/fast.txt"]);
    assert_eq!(user.files(&commit)[&b"code/fast.txt"[..]].1, b"faster\n");
    user.git(["fsck", "--no-progress", "--connectivity-only", &commit]);

    repository.worktree(&folder, "HEAD", false).unwrap();
    assert_holds(&user, &path, "HEAD", &[]);
    assert_eq!(text(git(&path, ["config", "user.name"])), "The User");
    assert_eq!(text(git(&path, ["rev-parse", "v1", "main"])), user.git(["rev-parse", "v1", "main"]));
    // Something that is under way there is over, and a git folder that was deleted is not a loss.
    text(git(&path, ["bisect", "start", "HEAD", "HEAD~1"]));
    repository.worktree(&folder, "HEAD", false).unwrap();
    assert!(!path.join(".git/BISECT_LOG").exists());
    fs::remove_dir_all(path.join(".git")).unwrap();
    fs::write(path.join("new"), "new\n").unwrap();
    let commit = repository.snapshot(&path, "HEAD", "", &[]).unwrap();
    assert_eq!(repository.changed_files("HEAD", &commit).unwrap(), ["new"]);
    before.assert_same(&user.everything(), "all that");
}

#[test]
fn the_worktree_of_a_submodule_and_of_a_shallow_clone_is_like_any_other() {
    let user = User::new();
    let (outer, shallow) = (User::new(), user.beside("shallow"));
    let from = format!("file://{}", user.root.display());
    let allow = ["-c", "protocol.file.allow=always"];
    outer.git(allow.iter().chain(&["submodule", "add", "-q", &from, "sub"]));
    text(git(&user.root, ["clone", "-q", "--depth=2", &from, shallow.to_str().unwrap()]));
    for (name, root) in [("sub", outer.root.join("sub")), ("shallow", shallow)] {
        let repository = Repository::open(&root).unwrap();
        let folder = user.work(name);
        let path = repository.worktree(&folder, "HEAD", false).unwrap().path;
        assert_holds(&user, &path, "main", &[]);
        assert_eq!(text(git(&path, ["rev-parse", "--show-toplevel"])), path.to_str().unwrap());
        text(git(&path, ["log", "--oneline"]));
        fs::write(path.join("new"), "new\n").unwrap();
        let commit = repository.snapshot(&path, "HEAD", "", &[]).unwrap();
        assert_eq!(repository.changed_files("HEAD", &commit).unwrap(), ["new"]);
        assert!(!root.join("new").exists());
    }
}

#[test]
fn folders_of_the_repository_and_of_others_are_refused() {
    let user = User::new();
    let repository = user.open();
    for inside in ["", "target", "target/deep", ".git", ".git/x"] {
        let folder = user.root.join(inside);
        let before = user.everything();
        let error = repository.worktree(&folder, "HEAD", true).unwrap_err();
        assert!(matches!(error, GitError::InsideRepository { .. }), "{error}");
        before.assert_same(&user.everything(), "a refusal");
    }
    let link = user.beside("link");
    symlink(&user.root, &link).unwrap();
    let error = repository.worktree(&link, "HEAD", true).unwrap_err();
    assert!(matches!(error, GitError::InsideRepository { .. }), "{error}");

    let others = user.beside("others");
    fs::create_dir(&others).unwrap();
    fs::write(others.join("precious"), "x").unwrap();
    let linked = user.beside("linked");
    user.git(["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    for folder in [others, linked] {
        let before = user.everything();
        let error = repository.worktree(&folder, "HEAD", true).unwrap_err();
        assert!(matches!(error, GitError::Occupied { .. }), "{error}");
        let error = repository.remove_worktree(&folder).unwrap_err();
        assert!(matches!(error, GitError::Occupied { .. }), "{error}");
        before.assert_same(&user.everything(), "a refusal");
    }
}

#[test]
fn worktrees_of_two_repositories_and_two_folders_do_not_meet() {
    let (one, two) = (User::new(), User::dirty());
    let folders = [one.work("base"), one.work("candidate")];
    let a = one.open().worktree(&folders[0], "HEAD", false).unwrap();
    let b = one.open().worktree(&folders[1], "HEAD~1", false).unwrap();
    let error = two.open().worktree(&folders[0], "HEAD", false).unwrap_err();
    assert!(matches!(error, GitError::Occupied { .. }), "{error}");
    assert_holds(&one, &a.path, "HEAD", &[]);
    assert_holds(&one, &b.path, "HEAD~1", &[]);
    one.open().remove_worktree(&folders[0]).unwrap();
    assert_holds(&one, &b.path, "HEAD~1", &[]);
}

#[test]
fn what_somebody_deleted_is_made_anew() {
    let user = User::new();
    let repository = user.open();
    let folder = user.work("base");
    let path = repository.worktree(&folder, "HEAD", false).unwrap().path;
    let index = path.join(".git/index");
    let spoil: [&dyn Fn(); 8] = [
        &|| fs::remove_dir_all(&folder).unwrap(),
        &|| fs::remove_dir_all(&path).unwrap(),
        &|| fs::remove_dir_all(path.join(".git")).unwrap(),
        &|| fs::remove_dir_all(path.join(".git/objects")).unwrap(),
        &|| fs::write(path.join(".git/config"), "[core]\n\tworktree = /there/is/nothing\n").unwrap(),
        &|| fs::write(&index, "no index").unwrap(),
        &|| fs::remove_file(&index).unwrap(),
        &|| fs::write(path.join(".git/index.lock"), "").unwrap(),
    ];
    for (at, spoil) in spoil.iter().enumerate() {
        spoil();
        let again =
            repository.worktree(&folder, "HEAD", false).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(again.path, path);
        assert_holds(&user, &path, "HEAD", &[]);
    }
}

#[test]
fn x10_a_worktree_that_was_not_finished_keeps_nothing() {
    let user = User::new();
    let repository = user.open();
    let folder = user.work("base");
    let path = repository.worktree(&folder, "HEAD", false).unwrap().path;
    fs::create_dir(path.join("target")).unwrap();
    fs::write(path.join("target/cache"), "of one knows not which commit").unwrap();
    // As a kill leaves it between two steps, with what was being deleted.
    fs::write(folder.join("unfinished"), "").unwrap();
    fs::create_dir_all(folder.join("trash-abc/target")).unwrap();
    repository.worktree(&folder, "HEAD", false).unwrap();
    assert_holds(&user, &path, "HEAD", &[]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn write_protected_caches_can_be_deleted() {
    let user = User::new();
    let repository = user.open();
    let folder = user.work("base");
    let path = repository.worktree(&folder, "HEAD", false).unwrap().path;
    let protected = path.join("target/deep");
    fs::create_dir_all(&protected).unwrap();
    fs::write(protected.join("file"), "x").unwrap();
    fs::set_permissions(&protected, fs::Permissions::from_mode(0o555)).unwrap();
    repository.worktree(&folder, "HEAD", true).unwrap();
    assert!(!path.join("target").exists());
}

#[test]
fn x1_x10_a_kill_at_any_moment_leaves_a_worktree_that_is_made_anew() {
    const KILLS: u32 = 20;
    let user = User::new();
    for file in 0..200 {
        user.write(&format!("many/{}/{file}", file % 20), &lines(20, "of many"));
    }
    user.commit("many");
    for file in 0..200 {
        user.write(&format!("many/{}/{file}", file % 20), &lines(20, "of more"));
    }
    user.commit("more");
    let repository: Repository = user.open();
    let before = user.everything();
    let folder = user.work("base");
    let mut random = entropy::rng(entropy::seed_from_text("kills"));
    for kill in 0..KILLS {
        let mut killed = role("worktrees", &user.root, &folder).spawn().unwrap();
        thread::sleep(Duration::from_millis(random.u64(5..400)));
        killed.kill().unwrap();
        let output = killed.wait_with_output().unwrap();
        assert!(!output.status.success());
        before.assert_same(&user.everything(), "a kill");
        let commit = if kill % 2 == 0 { "HEAD" } else { "HEAD~1" };
        let path = repository.worktree(&folder, commit, false).unwrap().path;
        assert_holds(&user, &path, commit, &[]);
        before.assert_same(&user.everything(), "making it anew");
        let left =
            || -> Vec<_> { fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect() };
        if left() != [path.clone()] {
            // A `git init` that outlived the kill made its folder after the others had been swept.
            thread::sleep(Duration::from_secs(2));
            repository.worktree(&folder, commit, false).unwrap();
        }
        assert_eq!(left(), [path]);
    }
    repository.remove_worktree(&folder).unwrap();
    assert!(!folder.exists());
    user.git(["fsck", "--no-progress"]);
}
