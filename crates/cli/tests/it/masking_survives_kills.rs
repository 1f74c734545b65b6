//! B37 under kills: what an import with rules for masking had copied when its daemon died is overwritten by the next start,
//! and so by a purge.

use crate::support::Home;
use duramen_base::clock;
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

const MARK: &str = "zqorig1nalqz";
/// How long an import may take to come to where it is ended: beside many others.
const LIMIT: Duration = Duration::from_secs(60);

/// Begins an import that lasts, and waits until it is as far as `progress` files below the scratch.
async fn begin_import(home: &Home, progress: &str) -> Child {
    let script = home.beside("app.sql");
    let sql = format!(
        "create table t as select n, '{MARK}' || n as v from generate_series(1, 20000) n;\ncheckpoint;\nselect pg_sleep(600);\n"
    );
    fs::write(&script, sql).expect("the script");
    let rules = home.beside("rules.json");
    fs::write(&rules, r#"{"columns": {"public.t": {"v": "hash"}}}"#).expect("the rules");
    let (script, rules) = (script.display().to_string(), rules.display().to_string());
    let said = home.beside("said");
    let mut import = home
        .command(&["source", "add", "app", "--script", &script, "--masking", &rules])
        .stdout(Stdio::null())
        .stderr(File::create(&said).expect("what it says"))
        .spawn()
        .expect("an import");
    let scratch = home.path().join("scratch");
    let began = clock::now();
    loop {
        let found = fs::read_dir(&scratch).into_iter().flatten().flatten();
        if found.map(|entry| entry.path().join(progress)).any(|path| path.exists()) {
            return import;
        }
        let ended = import.try_wait().expect("its status");
        assert!(
            ended.is_none() && began.elapsed() < LIMIT,
            "no {progress} after {:?}, {ended:?}: {}",
            began.elapsed(),
            fs::read_to_string(&said).unwrap_or_default()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a file has any byte that is not zero. Its holes are not read.
fn holds_data(path: &Path) -> bool {
    use rustix::fs::{seek, SeekFrom};
    let file = File::open(path).expect("the file");
    let mut chunk = vec![0; 1 << 20];
    let mut position = 0;
    while let Ok(data) = seek(&file, SeekFrom::Data(position)) {
        let end = seek(&file, SeekFrom::Hole(data)).expect("a hole");
        position = data;
        while position < end {
            let wanted = chunk.len().min(usize::try_from(end - position).expect("a length"));
            let count = file.read_at(&mut chunk[..wanted], position).expect("its data");
            if chunk[..count] != vec![0; count][..] {
                return true;
            }
            position += count as u64;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_import_leaves_no_original_value() {
    let home = Home::new();
    let (scratch, file) = (home.path().join("scratch"), home.path().join("scratch.btrfs"));
    // At different moments: a directory that is being made, a server that runs, the table written.
    for (round, (progress, pause_ms)) in
        [("PG_VERSION", 0), ("postmaster.pid", 0), ("postmaster.pid", 3000)].into_iter().enumerate()
    {
        let daemon = home.serve().await;
        let mut import = begin_import(&home, progress).await;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        let link = home.beside(&format!("scratch-{round}"));
        fs::hard_link(&file, &link).expect("a second name");
        daemon.kill();
        let _ = import.wait();
        assert!(holds_data(&link), "there is something to overwrite");
        if round == 1 {
            let purged = home.run(&["purge", "--yes"]);
            assert!(purged.status.success(), "{}", String::from_utf8_lossy(&purged.stderr));
        } else {
            let daemon = home.serve().await;
            assert!(fs::read_dir(home.path().join("sources")).expect("sources").next().is_none());
            daemon.stop().await.expect("it stops");
        }
        assert!(!scratch.exists() && !file.exists(), "the scratch is gone in round {round}");
        assert!(!holds_data(&link), "the scratch was overwritten in round {round}");
        fs::remove_file(&link).expect("remove");
        assert_eq!(home.left_overs(), Vec::<String>::new(), "in round {round}");
    }
}

/// A daemon that is told to stop ends the import and leaves nothing either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_import_leaves_no_original_value() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut import = begin_import(&home, "postmaster.pid").await;
    let (file, link) = (home.path().join("scratch.btrfs"), home.beside("scratch"));
    fs::hard_link(&file, &link).expect("a second name");
    daemon.stop().await.expect("it stops");
    let _ = import.wait();
    assert!(!file.exists() && !holds_data(&link), "the scratch was overwritten");
    fs::remove_file(&link).expect("remove");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
