//! `duramen lab restore`, when the run and its guardian are both gone.

use super::{assert_restored, begun, exe, guardians, until, user::majors, user::User};
use duramen_replication::{pair::Pair, scenario::Node};
use duramen_reports::suite::SuiteError;
use rustix::process::{kill_process, Pid, Signal};
use std::path::Path;
use std::process::Command;

/// Runs the command, and returns its exit status and what it said.
fn restore(home: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::new(exe());
    command.arg("--home").arg(home).args(["lab", "restore"]).args(more);
    let output = command.output().expect("it can be run");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it was not killed"), String::from_utf8(said).expect("text"))
}

fn kill_guardians(home: &Path) {
    for pid in guardians(home) {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).expect("a guardian of ours");
    }
}

#[tokio::test]
async fn it_puts_back_what_nobody_else_did_says_so_and_can_be_run_again() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    let home = user.home();
    let (status, said) = restore(&home, &[]);
    assert_eq!((status, said.contains("nothing is to be put back")), (0, true), "{said}");

    let pair = begun(&user).await;
    let file = pair.restore_file().await.unwrap();
    // While the run goes on its file is not to be touched.
    let (status, said) = restore(&home, &[]);
    assert_eq!((status, said.contains("the run still goes on")), (1, true), "{said}");
    let busy = Pair::open(&user.options(exe()), &|_| {}).await.err().expect("there is a run already");
    assert!(busy.to_string().contains("another run works with this pair"), "{busy}");

    kill_guardians(&home);
    drop(pair);
    assert_eq!(user.restore_files(), std::slice::from_ref(&file));
    assert_ne!(user.state().await, before);
    let refused = Pair::open(&user.options(exe()), &|_| {}).await.err().expect("refused");
    let SuiteError::Preconditions(lines) = refused else { panic!("another error: {refused}") };
    assert!(lines.iter().any(|line| line.contains("run: duramen lab restore")), "{lines:#?}");

    // Half of it cannot be done: the file is kept for the rest.
    user.stop(Node::Standby);
    let (status, said) = restore(&home, &[]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("not put back: the standby") && said.contains("the file is kept"), "{said}");
    assert!(said.contains("primary: checkpoint_completion_target is 0.8 again"), "{said}");
    assert!(said.contains("primary: the database duramen_lab is dropped"), "{said}");
    assert!(!said.contains("swordfish"), "a secret is told: {said}");
    assert_eq!(user.restore_files(), std::slice::from_ref(&file));
    // What is back is not put back again when its owner changes it afterwards.
    let primary = user.client(Node::Primary).await;
    primary.batch_execute("ALTER SYSTEM SET checkpoint_completion_target = '0.5'").await.unwrap();
    user.start(Node::Standby);

    // A file that cannot be read does not keep the others from being put back.
    let broken = file.with_file_name("0.json");
    std::fs::write(&broken, "{\"format\": \"duramen.restore/99\"}").unwrap();
    let (status, said) = restore(&home, &[]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("duramen.restore/99") && broken.exists(), "{said}");
    std::fs::remove_file(&broken).unwrap();
    assert!(!file.exists(), "{said}");
    assert!(said.contains("standby: max_standby_streaming_delay is 17s again"), "{said}");
    assert!(said.contains("standby: hot_standby_feedback is what it was"), "{said}");
    assert!(!said.contains("checkpoint_completion_target"), "{said}");
    primary.batch_execute("ALTER SYSTEM SET checkpoint_completion_target = '0.8'").await.unwrap();
    user.reload(Node::Primary).await;
    assert_restored(&user, &before).await;
    let (status, said) = restore(&home, &[]);
    assert_eq!((status, said.contains("nothing is to be put back")), (0, true), "{said}");
}

#[tokio::test]
async fn a_file_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (status, said) = restore(dir.path(), &["nowhere.json"]);
    assert_eq!((status, said.contains("cannot read nowhere.json")), (1, true), "{said}");
    let other = dir.path().join("other.json");
    std::fs::write(&other, "{\"format\": \"something\"}").unwrap();
    let (status, said) = restore(dir.path(), &[other.to_str().unwrap()]);
    assert_eq!((status, said.contains("cannot read")), (1, true), "{said}");
    assert!(other.exists());
}

#[tokio::test]
async fn a_cluster_that_is_another_one_now_is_left_alone() {
    let (one, two) = (User::new(majors()[0]).await, User::new(majors()[0]).await);
    let pair = begun(&one).await;
    let file = pair.restore_file().await.unwrap();
    kill_guardians(&one.home());
    let text = std::fs::read_to_string(&file).unwrap();
    drop(pair);
    // As if other servers had been put in the place of these.
    let mut moved = text.clone();
    for node in [Node::Primary, Node::Standby] {
        moved = moved.replace(&one.dsn(node), &two.dsn(node));
    }
    assert_ne!(moved, text);
    std::fs::write(&file, moved).unwrap();
    let before = two.state().await;
    let (status, said) = restore(&one.home(), &[]);
    assert_eq!((status, said.contains("is another cluster now")), (1, true), "{said}");
    assert_eq!(two.state().await, before);
    std::fs::write(&file, text).unwrap();
    let (status, said) = restore(&one.home(), &["--json"]);
    assert_eq!((status, said.contains("\"left\": []")), (0, true), "{said}");
    until("the file is gone", async || one.restore_files().is_empty()).await;
}

/// The two servers of a pair are one cluster, so that their system identifier does not tell them apart.
#[tokio::test]
async fn a_server_that_is_another_one_of_the_cluster_now_is_left_alone() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    let pair = begun(&user).await;
    let file = pair.restore_file().await.unwrap();
    kill_guardians(&user.home());
    drop(pair);
    let text = std::fs::read_to_string(&file).unwrap();
    let during = user.state().await;
    // As if the addresses stood for roles, and the roles had been exchanged.
    let (primary, standby) = (user.dsn(Node::Primary), user.dsn(Node::Standby));
    let exchanged =
        text.replace(&primary, "PRIMARY").replace(&standby, &primary).replace("PRIMARY", &standby);
    // And as if one string named both.
    let place = |dsn: &str| dsn.split_whitespace().next().unwrap().trim_start_matches("host=").to_owned();
    let both = format!("host=/nowhere,{}", place(&primary));
    let several = text.replace(&format!("host={}", place(&standby)), &both);
    for changed in [exchanged, several] {
        assert_ne!(changed, text);
        std::fs::write(&file, &changed).unwrap();
        let (status, said) = restore(&user.home(), &[]);
        assert_eq!((status, said.contains("is another server now")), (1, true), "{said}");
        assert!(!said.contains("swordfish"), "a secret is told: {said}");
        let standby_of = |state: &[String]| -> Vec<String> {
            let is_kept =
                |line: &&String| line.starts_with("Standby") && !line.starts_with("Standby database");
            state.iter().filter(is_kept).cloned().collect()
        };
        assert_eq!(standby_of(&user.state().await), standby_of(&during));
        std::fs::write(&file, &text).unwrap();
    }
    let (status, said) = restore(&user.home(), &[]);
    assert_eq!(status, 0, "{said}");
    assert_restored(&user, &before).await;
}
