//! X1 in one state of the user's repository after the other: every operation, and a look at everything after each.

use super::support::{git, install, lines, on_disk, text, User};
use duramen_experiment::git::{GitError, Repository};
use std::fs;
use std::path::Path;

/// Does everything that there is to do, in the repository that is found from `dir`, and looks after each step.
fn x1_holds(user: &User, dir: &Path) {
    let before = user.everything();
    let same = |after: &str| before.assert_same(&user.everything(), after);
    let repository = Repository::open(dir).unwrap();
    same("open");
    let head = repository.head().unwrap();
    assert_eq!(head, repository.resolve("HEAD").unwrap());
    let start = repository.resolve("HEAD~1").unwrap();
    let _ = repository.busy();
    repository.cautions(&head).unwrap();
    repository.dirty_files(&[]).unwrap();
    same("questions");

    let root = repository.root().to_owned();
    let candidate = repository.snapshot(&root, &head, "a try", &["code/except".into()]).unwrap();
    same("a snapshot");
    let on_start = repository.transplant(&head, &start, "moved").unwrap();
    repository.without(&start, &[head.clone(), candidate.clone()], &head).unwrap();
    same("transplanting");
    repository.changed_files(&start, &candidate).unwrap();
    let patch = repository.diff(&start, &head).unwrap();
    let file = user.work("a.patch");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, patch).unwrap();
    assert_eq!(
        repository.changed_files(&head, &repository.apply_patch(&start, &file, "patched").unwrap()).unwrap(),
        [""; 0]
    );
    fs::write(&file, "no patch").unwrap();
    assert!(matches!(repository.apply_patch(&start, &file, "bad"), Err(GitError::Patch { .. })));
    same("patches");

    repository.set_ref("refs/duramen/test/1", &candidate).unwrap();
    repository.set_ref("refs/duramen/test/1", &on_start).unwrap();
    same("refs");
    let folder = user.work("base");
    for (commit, fresh) in [(&head, false), (&candidate, false), (&start, true), (&candidate, false)] {
        let worktree = repository.worktree(&folder, commit, fresh).unwrap();
        same("a worktree");
        assert_eq!(text(git(&worktree.path, ["rev-parse", "HEAD"])), **commit);
        fs::write(worktree.path.join("code/fast.txt"), "changed there").unwrap();
        fs::write(worktree.path.join("new there"), "").unwrap();
        repository.snapshot(&worktree.path, commit, "from a worktree", &[]).unwrap();
        same("a snapshot of a worktree");
    }
    repository.remove_worktree(&folder).unwrap();
    repository.delete_ref("refs/duramen/test/1").unwrap();
    same("removing all");
    assert!(!folder.exists());
    let ours = user.git(["for-each-ref", "refs/duramen"]);
    assert_eq!(ours, "");
}

#[test]
fn x1_in_a_clean_repository() {
    let user = User::new();
    x1_holds(&user, &user.root);
    assert_eq!(user.git(["status", "--porcelain"]), "");
}

#[test]
fn x1_in_a_dirty_repository() {
    let user = User::dirty();
    x1_holds(&user, &user.root);
}

#[test]
fn x1_from_a_folder_of_the_repository() {
    let user = User::dirty();
    x1_holds(&user, &user.root.join("code"));
}

#[test]
fn x1_in_a_repository_within_another_one() {
    let user = User::new();
    let inner = user.root.join("inner");
    fs::create_dir(&inner).unwrap();
    for args in ["init -q -b main", "config user.name Inner", "config user.email inner@example"] {
        text(git(&inner, args.split(' ')));
    }
    for content in ["one\n", "two\n"] {
        fs::create_dir_all(inner.join("code")).unwrap();
        fs::write(inner.join("code/fast.txt"), content).unwrap();
        text(git(&inner, ["add", "."]));
        text(git(&inner, ["commit", "-q", "-m", "inner"]));
    }
    x1_holds(&user, &inner);
    x1_holds(&user, &user.root);
}

#[test]
fn x1_with_a_detached_head() {
    let user = User::dirty();
    user.git(["stash", "-q"]);
    user.git(["checkout", "-q", "--detach", "HEAD"]);
    user.git(["stash", "apply", "-q"]);
    x1_holds(&user, &user.root);
}

#[test]
fn x1_in_a_linked_worktree() {
    let user = User::dirty();
    let linked = user.beside("linked");
    user.git(["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    fs::write(linked.join("code/fast.txt"), "in the linked one\n").unwrap();
    fs::write(linked.join("new"), "new\n").unwrap();
    x1_holds(&user, &linked);
    let repository = Repository::open(&linked).unwrap();
    assert_eq!(repository.root(), linked);
    let commit = repository.snapshot(&linked, "HEAD", "", &[]).unwrap();
    assert_eq!(repository.changed_files("HEAD", &commit).unwrap(), ["code/fast.txt", "new"]);
    // It is there after ours has gone, and ours did not take its place.
    assert!(user.git(["worktree", "list"]).contains("linked"));
}

#[test]
fn x1_while_something_is_under_way() {
    let conflict = || {
        let user = User::new();
        user.git(["checkout", "-q", "-b", "side", "HEAD~1"]);
        user.write("code/fast.txt", &lines(10, "of the side"));
        user.commit("side");
        user.git(["checkout", "-q", "main"]);
        user.write("code/fast.txt", &lines(10, "of main"));
        user.commit("main");
        user
    };
    for (what, args) in [
        ("merge", vec!["merge", "side"]),
        ("rebase", vec!["rebase", "side"]),
        ("rebase", vec!["rebase", "--apply", "side"]),
        ("cherry-pick", vec!["cherry-pick", "side"]),
        ("revert", vec!["revert", "--no-edit", "HEAD~1", "HEAD~2"]),
        ("bisect", vec!["bisect", "start", "HEAD", "HEAD~1"]),
    ] {
        let user = conflict();
        if what == "revert" {
            // It has to stop in the middle.
            user.write("code/other.txt", "changed since\n");
            user.commit("changed since");
        }
        assert_eq!(user.open().busy(), None);
        let output = user.try_git(&args);
        assert_eq!(user.open().busy(), Some(what), "{output:?}");
        x1_holds(&user, &user.root);
        assert_eq!(user.open().busy(), Some(what));
    }
}

#[test]
fn x1_with_hooks_that_fail_and_settings_that_are_hostile() {
    let user = User::dirty();
    let ran = user.beside("ran");
    let script = format!("#!/bin/sh\ntouch '{}'\nexit 1\n", ran.display());
    let hooks = user.root.join(".git/hooks");
    let names = "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg \
        commit-msg post-commit pre-rebase post-checkout post-merge pre-push post-rewrite reference-transaction \
        post-index-change fsmonitor";
    for name in names.split(' ') {
        let path = hooks.join(name);
        fs::create_dir_all(&hooks).unwrap();
        install(&path, &script);
    }
    let hook = hooks.join("fsmonitor");
    let settings = [
        ("core.fsmonitor", hook.to_str().unwrap()),
        ("gpg.program", hook.to_str().unwrap()),
        ("diff.external", hook.to_str().unwrap()),
        ("core.editor", hook.to_str().unwrap()),
        ("core.pager", hook.to_str().unwrap()),
        ("commit.gpgsign", "true"),
        ("log.showSignature", "true"),
        ("core.logAllRefUpdates", "always"),
        ("core.safecrlf", "true"),
        ("core.untrackedCache", "true"),
        ("core.checkStat", "minimal"),
        ("core.quotePath", "true"),
        ("color.ui", "always"),
        ("status.showUntrackedFiles", "no"),
        ("status.relativePaths", "true"),
        ("status.branch", "true"),
        ("status.showStash", "true"),
        ("diff.noprefix", "true"),
        ("diff.renames", "copies"),
        ("diff.ignoreSubmodules", "all"),
        ("apply.whitespace", "error"),
        ("merge.conflictStyle", "diff3"),
        ("clean.requireForce", "true"),
        ("submodule.recurse", "true"),
        ("i18n.commitEncoding", "latin1"),
        ("i18n.logOutputEncoding", "latin1"),
        ("format.pretty", "oneline"),
        ("gc.auto", "1"),
        ("feature.manyFiles", "true"),
    ];
    for (name, value) in settings {
        user.git(["config", name, value]);
    }
    assert!(!ran.exists(), "the test ran a hook itself");
    x1_holds(&user, &user.root);
    assert!(!ran.exists(), "a hook or another program of the user's was run");
    let repository = user.open();
    let commit = repository.snapshot(&user.root, "HEAD", "gr\u{fc}n", &[]).unwrap();
    assert_eq!(user.files(&commit), User::dirty_content());
    let dirty = repository.dirty_files(&[]).unwrap();
    assert!(dirty.iter().any(|file| file == "new/file\nof two lines"), "{dirty:?}");
    let raw = git(&user.root, ["cat-file", "commit", &commit]).stdout;
    assert!(String::from_utf8(raw).unwrap().ends_with("\n\ngr\u{fc}n"), "the message is UTF-8");
}

#[test]
fn x1_with_a_split_index() {
    let user = User::dirty();
    user.git(["config", "core.splitIndex", "true"]);
    user.git(["update-index", "--split-index"]);
    user.write("staged in the split", "");
    user.git(["add", "staged in the split"]);
    x1_holds(&user, &user.root);
    let commit = user.open().snapshot(&user.root, "HEAD", "", &[]).unwrap();
    assert_eq!(user.files(&commit).len(), User::dirty_content().len() + 1);
}

#[test]
fn x1_with_line_endings_that_git_converts() {
    let user = User::new();
    user.git(["config", "core.autocrlf", "true"]);
    user.git(["config", "core.safecrlf", "true"]);
    user.write("code/fast.txt", "one\r\ntwo\r\n");
    user.write("new.txt", "one\r\ntwo\r\n");
    user.write("mixed.txt", "one\r\ntwo\n");
    x1_holds(&user, &user.root);
    let repository = user.open();
    let commit = repository.snapshot(&user.root, "HEAD", "", &[]).unwrap();
    for name in ["code/fast.txt", "new.txt", "mixed.txt"] {
        assert_eq!(user.files(&commit)[name.as_bytes()].1, b"one\ntwo\n", "{name}");
    }
    let worktree = repository.worktree(&user.work("base"), &commit, false).unwrap();
    assert_eq!(on_disk(&worktree.path)[&b"new.txt"[..]].1, b"one\r\ntwo\r\n", "as the user would see it");
}

#[test]
fn x1_before_the_first_commit() {
    let user = User::unborn();
    user.write("staged", "1\n");
    user.git(["add", "staged"]);
    user.write("new", "2\n");
    let before = user.everything();
    let repository = user.open();
    assert!(matches!(repository.head(), Err(GitError::Unborn { .. })));
    assert!(matches!(repository.resolve("HEAD"), Err(GitError::NoSuchCommit { .. })));
    assert_eq!(repository.busy(), None);
    let mut dirty = repository.dirty_files(&[]).unwrap();
    dirty.sort();
    assert_eq!(dirty, ["new", "staged"]);
    assert!(matches!(repository.snapshot(&user.root, "HEAD", "", &[]), Err(GitError::NoSuchCommit { .. })));
    assert!(repository.worktree(&user.work("base"), "HEAD", false).is_err());
    before.assert_same(&user.everything(), "all that can be asked");
}

#[test]
fn x1_a_branch_is_made_and_none_is_overwritten() {
    let user = User::dirty();
    let repository = user.open();
    let (head, start) = (repository.head().unwrap(), repository.resolve("HEAD~1").unwrap());
    repository.create_branch("fast/er", &start).unwrap();
    assert_eq!(user.git(["rev-parse", "refs/heads/fast/er"]), start);
    let before = user.everything();
    for (name, commit) in [("fast/er", &head), ("main", &start)] {
        let error = repository.create_branch(name, commit).unwrap_err();
        assert!(matches!(&error, GitError::BranchExists { name: there } if there == name), "{error}");
    }
    // A file and a folder of one name.
    assert!(repository.create_branch("fast", &head).is_err());
    assert!(repository.create_branch("main/x", &head).is_err());
    for name in ["", "-d", "a..b", "a b", "@{-1}", "HEAD", "a\nb", "x.lock", "refs/../heads/y"] {
        let error = repository.create_branch(name, &head).unwrap_err();
        assert!(matches!(error, GitError::Name { .. }), "{name}: {error}");
    }
    for name in
        ["refs/heads/main", "refs/tags/x", "HEAD", "refs/duramen", "refs/duramen/", "refs/duramen/../heads/x"]
    {
        let set = repository.set_ref(name, &start).unwrap_err();
        assert!(matches!(set, GitError::Name { .. }), "{name}: {set}");
        let deleted = repository.delete_ref(name).unwrap_err();
        assert!(matches!(deleted, GitError::Name { .. }), "{name}: {deleted}");
    }
    before.assert_same(&user.everything(), "names that may not be written");
}
