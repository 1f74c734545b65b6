//! Which repositories can be opened, and what is said of the others.

use super::roles::{role, said};
use super::support::{git, install, text, User};
use duramen_experiment::git::{GitError, Repository};
use std::fs;

#[test]
fn a_repository_is_found_from_any_folder_of_it() {
    let user = User::new();
    for dir in [user.root.clone(), user.root.join("code"), user.root.join("code/..")] {
        assert_eq!(Repository::open(&dir).unwrap().root(), user.root);
    }
    let link = user.beside("link");
    std::os::unix::fs::symlink(&user.root, &link).unwrap();
    assert_eq!(Repository::open(&link).unwrap().root(), user.root);
    let odd = user.beside("two\nlines ");
    fs::rename(&user.root, &odd).unwrap();
    assert_eq!(Repository::open(&odd).unwrap().root(), odd);
}

#[test]
fn what_is_no_repository_with_a_working_tree_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let none = Repository::open(dir.path()).unwrap_err();
    assert!(matches!(none, GitError::NotARepository { .. }), "{none}");
    assert!(none.to_string().contains("git init"), "{none}");
    let missing = Repository::open(&dir.path().join("missing")).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
    text(git(dir.path(), ["init", "-q", "--bare", "bare.git"]));
    let bare = Repository::open(&dir.path().join("bare.git")).unwrap_err();
    assert!(matches!(bare, GitError::Bare { .. }), "{bare}");
    let user = User::new();
    let inside = Repository::open(&user.root.join(".git")).unwrap_err();
    assert!(matches!(inside, GitError::Bare { .. }), "{inside}");
}

#[test]
fn a_machine_without_git_says_so() {
    let user = User::new();
    let empty = tempfile::tempdir().unwrap();
    let mut command = role("open", &user.root, "");
    command.env("PATH", empty.path());
    let error = said(command, "error:");
    assert!(error.contains("no program `git`") && error.contains("install git 2.38"), "{error}");
}

#[test]
fn an_old_git_says_so_and_an_odd_version_does_not() {
    let user = User::new();
    let tools = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let real = text(git(&user.root, ["--exec-path"]));
    let with = |version: &str| {
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *version) echo '{version}';; *) exec '{real}/git' \"$@\";; esac\n"
        );
        install(&tools.path().join("git"), &script);
        let mut command = role("open", &user.root, "");
        command.env("PATH", &path);
        said(command, ":")
    };
    for old in ["git version 2.37.9", "git version 1.8.3.1"] {
        let error = with(old);
        assert!(error.contains(old) && error.contains("2.38"), "{error}");
    }
    for new in ["git version 2.38.0", "git version 2.50.1 (Apple Git-155)", "git version 3.0.rc1", "git next"]
    {
        assert_eq!(with(new), user.root.to_str().unwrap(), "{new}");
    }
}

#[test]
fn what_the_environment_says_of_repositories_is_not_heard() {
    let (user, other) = (User::dirty(), User::new());
    let before = other.everything();
    let mut command = role("snapshot", &user.root, "");
    command
        .env("GIT_DIR", other.root.join(".git"))
        .env("GIT_WORK_TREE", &other.root)
        .env("GIT_INDEX_FILE", other.root.join(".git/index"))
        .env("GIT_AUTHOR_NAME", "Somebody Else")
        .env("GIT_OBJECT_DIRECTORY", other.root.join("objects"));
    let commit = said(command, "commit:");
    assert_eq!(user.files(&commit), User::dirty_content());
    assert_eq!(user.git(["log", "-1", "--format=%an", &commit]), "The User");
    before.assert_same(&other.everything(), "a snapshot of another repository");
}

#[test]
fn who_has_not_said_their_name_can_make_commits() {
    let user = User::dirty();
    for name in ["user.name", "user.email"] {
        user.git(["config", "--unset", name]);
    }
    // Git would not guess one.
    user.git(["config", "user.useConfigOnly", "true"]);
    let home = tempfile::tempdir().unwrap();
    let mut command = role("snapshot", &user.root, "");
    command.env("HOME", home.path()).env_remove("XDG_CONFIG_HOME").env_remove("EMAIL");
    let commit = said(command, "commit:");
    let author = user.git(["log", "-1", "--format=%an <%ae>", &commit]);
    // The machine may have settings for all its users.
    let machine = user.try_git(["config", "--system", "user.name"]);
    assert!(machine.status.success() || author == "Duramen <duramen@localhost>", "{author}");
}
