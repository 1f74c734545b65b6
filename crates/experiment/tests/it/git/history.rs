//! Commits made of commits: transplanting, patches, stacks without one.

use super::support::{lines, User};
use duramen_experiment::git::{GitError, Repository};
use std::fs;
use std::path::PathBuf;

/// A commit on `base` in which one line of `code/fast.txt` reads otherwise.
fn changed(user: &User, repository: &Repository, base: &str, line: u32, to: &str) -> String {
    let content = String::from_utf8(user.files(base)[&b"code/fast.txt"[..]].1.clone()).unwrap();
    let now = content.lines().enumerate();
    let now: String =
        now.map(|(at, text)| format!("{}\n", if at as u32 == line { to } else { text })).collect();
    user.write("code/fast.txt", &now);
    let commit = repository.snapshot(&user.root, base, &format!("line {line} is {to}"), &[]).unwrap();
    user.git(["checkout", "-q", "--", "code/fast.txt"]);
    commit
}

fn line(user: &User, commit: &str, line: usize) -> String {
    let files = user.files(commit);
    String::from_utf8_lossy(&files[&b"code/fast.txt"[..]].1).lines().nth(line).unwrap().to_owned()
}

fn patch(user: &User, content: impl AsRef<[u8]>) -> PathBuf {
    let path = user.beside("a patch");
    fs::write(&path, content).unwrap();
    path
}

#[test]
fn a_change_is_transplanted_alone() {
    let user = User::new();
    let repository = user.open();
    let head = repository.head().unwrap();
    let first = changed(&user, &repository, &head, 0, "A");
    let second = changed(&user, &repository, &first, 9, "B");
    // What its own parent brought stays behind, although the history would bring it along.
    let moved = repository.transplant(&second, &head, "moved").unwrap();
    assert_eq!((line(&user, &moved, 0), line(&user, &moved, 9)), ("line 0 ".into(), "B".into()));
    assert_eq!(user.git(["rev-parse", &format!("{moved}^@")]), head);
    assert_eq!(repository.message(&moved).unwrap(), "moved");
    // Onto what came in between, and onto what knows nothing of it.
    let other = changed(&user, &repository, &head, 0, "C");
    let both = repository.transplant(&second, &other, "both").unwrap();
    assert_eq!((line(&user, &both, 0), line(&user, &both, 9)), ("C".into(), "B".into()));
    let onto_itself = repository.transplant(&second, &first, "again").unwrap();
    assert_eq!(repository.changed_files(&second, &onto_itself).unwrap(), [""; 0]);
}

#[test]
fn a_change_that_does_not_fit_names_its_files() {
    let user = User::new();
    let repository = user.open();
    let head = repository.head().unwrap();
    let (one, two) = (changed(&user, &repository, &head, 3, "A"), changed(&user, &repository, &head, 3, "B"));
    match repository.transplant(&one, &two, "") {
        Err(GitError::Conflict { files }) => assert_eq!(files, ["code/fast.txt"]),
        other => panic!("{other:?}"),
    }
    // The first commit has no parent to be compared with.
    let root = repository.resolve("HEAD~1").unwrap();
    assert!(matches!(repository.transplant(&root, &head, ""), Err(GitError::NoSuchCommit { .. })));
}

#[test]
fn a_stack_without_one_of_its_commits() {
    let user = User::new();
    let repository = user.open();
    let start = repository.head().unwrap();
    let one = changed(&user, &repository, &start, 0, "A");
    let two = changed(&user, &repository, &one, 5, "B");
    let three = changed(&user, &repository, &two, 9, "C");
    let on_two = changed(&user, &repository, &three, 5, "D");
    let stack = [one.clone(), two.clone(), three.clone(), on_two.clone()];

    let without_one = repository.without(&start, &stack, &one).unwrap().unwrap();
    let read = |commit: &str| [0, 5, 9].map(|at| line(&user, commit, at));
    assert_eq!(read(&without_one), ["line 0 ", "D", "C"]);
    assert_eq!(user.git(["rev-list", "--count", &format!("{start}..{without_one}")]), "3");
    assert_eq!(user.git(["log", "-1", "--format=%s", &without_one]), "line 5 is D");
    assert_eq!(repository.without(&start, &stack, &two).unwrap(), None, "the last one stands on it");
    assert_eq!(repository.without(&start, &stack, &on_two).unwrap().as_ref(), Some(&three));
    assert_eq!(repository.without(&start, &stack[..1], &one).unwrap(), Some(start.clone()));
    assert!(matches!(repository.without(&start, &stack, &start), Err(GitError::NotInStack { .. })));
}

#[test]
fn a_patch_becomes_a_commit() {
    let user = User::new();
    let repository = user.open();
    let head = repository.head().unwrap();
    let wanted = changed(&user, &repository, &head, 4, "A");
    let diff = patch(&user, repository.diff(&head, &wanted).unwrap());
    let applied = repository.apply_patch(&head, &diff, "patched").unwrap();
    assert_eq!(user.files(&applied), user.files(&wanted));
    assert_eq!(user.git(["rev-parse", &format!("{applied}^@")]), head);
    // As a mail, with a new file, a mode and a binary file.
    user.write("binary", "\0\u{1}\u{2}");
    user.write("tool", "#!/bin/sh\n");
    user.git(["add", "."]);
    user.git(["update-index", "--chmod=+x", "tool"]);
    user.git(["commit", "-q", "-m", "as a mail"]);
    let mail = patch(&user, user.git(["format-patch", "--stdout", "-1"]) + "\n");
    let applied = repository.apply_patch(&head, &mail, "").unwrap();
    assert_eq!(user.files(&applied), user.files("HEAD"));
    // On a base where other lines have moved it.
    let moved = changed(&user, &repository, &head, 0, "new\nnew\nnew\nline 0");
    let applied =
        repository.apply_patch(&moved, &patch(&user, user.git(["diff", &head, &wanted]) + "\n"), "").unwrap();
    assert_eq!(line(&user, &applied, 7), "A");
}

#[test]
fn a_patch_that_is_none_or_does_not_fit_is_refused_with_a_reason() {
    let user = User::new();
    let repository = user.open();
    let head = repository.head().unwrap();
    let one = changed(&user, &repository, &head, 3, "A");
    let two = changed(&user, &repository, &head, 3, "B");
    let diff = repository.diff(&head, &one).unwrap();
    let outside = diff.replace("code/fast.txt", "../outside.txt");
    let nothing = repository.diff(&one, &head).unwrap() + &diff;
    for (base, content, reason) in [
        (&head, "".to_owned(), "No valid patches"),
        (&head, "just words\n".to_owned(), "No valid patches"),
        (&two, diff.clone(), "code/fast.txt"),
        (&head, diff[..diff.len() - 20].to_owned(), "corrupt patch"),
        (&head, outside, "outside.txt"),
        (&one, nothing, "changes nothing"),
    ] {
        let error = repository.apply_patch(base, &patch(&user, content), "").unwrap_err();
        assert!(matches!(error, GitError::Patch { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert!(error.to_string().contains("a patch"), "{error}");
    }
    let missing = repository.apply_patch(&head, &user.beside("missing"), "").unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
}

#[test]
fn differences_are_listed_by_the_names_on_both_sides() {
    let user = User::new();
    let repository = user.open();
    let head = repository.head().unwrap();
    user.git(["mv", "code/fast.txt", "code/renamed \u{fc}.txt"]);
    user.git(["commit", "-q", "-m", "renamed"]);
    assert_eq!(
        repository.changed_files(&head, "HEAD").unwrap(),
        ["code/fast.txt", "code/renamed \u{fc}.txt"],
        "a rename takes a file away, which a scope may forbid"
    );
    let diff = repository.diff(&head, "HEAD").unwrap();
    assert!(diff.contains("--- a/code/fast.txt\n+++ /dev/null\n"), "{diff}");
    assert!(diff.contains(&lines(1, "").replace("line", "-line")), "{diff}");
    assert!(matches!(repository.diff(&head, "nothing"), Err(GitError::NoSuchCommit { .. })));
}

#[test]
fn only_names_of_commits_are_resolved() {
    let user = User::new();
    let repository = user.open();
    let head = repository.head().unwrap();
    user.git(["tag", "-a", "-m", "tagged", "v1"]);
    for rev in ["HEAD", "main", "v1", "refs/heads/main", &head[..12], "HEAD~0", "HEAD^{/second}"] {
        assert_eq!(repository.resolve(rev).unwrap(), head, "{rev}");
    }
    let blob = user.git(["rev-parse", "HEAD:bench.sh"]);
    let none = "1".repeat(40);
    for rev in ["", "nothing", "--all", "-h", "HEAD HEAD", "HEAD\nHEAD", "a\0b", &blob, &none] {
        let error = repository.resolve(rev).unwrap_err();
        assert!(matches!(error, GitError::NoSuchCommit { .. }), "{rev}: {error}");
    }
}
