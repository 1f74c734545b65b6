//! A pack appears whole or not at all, and one process at a time writes it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::write_sample;
use duramen_base::entropy;
use duramen_pack::container::{Kind, Pack, PackWriter, SectionOptions};
use duramen_pack::PackError;

/// Names the file to the child, and makes it one.
const FILE_VARIABLE: &str = "DURAMEN_TEST_PACK";

fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// P-9: the loser of two writers is refused, instead of both writing one file.
#[test]
fn a_second_writer_is_refused_while_the_first_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let first = PackWriter::create(&path, Kind::Graph).unwrap();
    let error = PackWriter::create(&path, Kind::Graph).unwrap_err();
    assert!(matches!(&error, PackError::Locked { path: named } if *named == path), "{error}");
    // Another file in the folder is another matter.
    write_sample(&dir.path().join("b.dpack"), 1, 1, 0).unwrap();
    first.finish(b"first").unwrap();
    PackWriter::create(&path, Kind::Graph).unwrap().finish(b"second").unwrap();
    assert_eq!(*Pack::open(&path).unwrap().manifest().unwrap(), *b"second");
    assert_eq!(files(dir.path()), ["a.dpack", "b.dpack"]);
}

#[test]
fn a_writer_that_is_given_up_leaves_the_old_file_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    write_sample(&path, 1, 3, 1).unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut writer = PackWriter::create(&path, Kind::Graph).unwrap();
    writer.begin_section("s", SectionOptions::default()).unwrap();
    writer.block(b"a", 1, &[1; 3 << 20]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(files(dir.path()), ["a.dpack"]);
}

#[test]
fn writing_to_what_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(PackWriter::create(dir.path(), Kind::Graph), Err(PackError::Io { .. })));
    assert!(matches!(PackWriter::create("/", Kind::Graph), Err(PackError::Io { .. })));
    let nowhere = dir.path().join("no/such/folder/a.dpack");
    assert!(matches!(PackWriter::create(nowhere, Kind::Graph), Err(PackError::Io { .. })));
}

/// Readers keep what they opened while a new pack takes the name.
#[test]
fn a_reader_keeps_the_pack_that_it_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    write_sample(&path, 1, 50, 1).unwrap();
    let old = Pack::open(&path).unwrap();
    write_sample(&path, 1, 50, 2).unwrap();
    old.verify(&mut |_, _| {}).unwrap();
    assert_eq!(*old.manifest().unwrap(), *b"manifest 1");
    assert_eq!(*Pack::open(&path).unwrap().manifest().unwrap(), *b"manifest 2");
}

/// Many writers of one name, in many threads: each is refused or complete, and what lies there is one of theirs.
#[test]
fn racing_writers_never_mix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let done: u32 = std::thread::scope(|scope| {
        let write = |mark: u8| {
            let path = &path;
            move || {
                (0..20)
                    .filter(|_| match write_sample(path, 1, 20, mark) {
                        Ok(_) => true,
                        Err(PackError::Locked { .. }) => false,
                        Err(error) => panic!("{error}"),
                    })
                    .count() as u32
            }
        };
        let threads: Vec<_> = (0..4).map(|mark| scope.spawn(write(mark))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(done > 0);
    Pack::open(&path).unwrap().verify(&mut |_, _| {}).unwrap();
    assert_eq!(files(dir.path()), ["a.dpack"]);
}

/// The child's part: writes packs until it is killed. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    for mark in 0_u8.. {
        write_sample(Path::new(&path), 3, 400, mark).unwrap();
        // A mark that comes round again is as good as any.
        if mark == u8::MAX {
            break;
        }
    }
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "container_writers::child", "--nocapture", "--test-threads", "1"])
        .env(FILE_VARIABLE, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// P-1: whatever the moment of a SIGKILL, the name has the old pack or the new one.
#[test]
fn a_killed_writer_leaves_the_old_pack_or_the_new_one() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    write_sample(&path, 3, 400, 255).unwrap();
    let (mut changed, mut torn) = (0, 0);
    let mut last = Pack::open(&path).unwrap().root_digest();
    for round in 0..30 {
        let mut child = spawn(&path);
        std::thread::sleep(Duration::from_micros(rng.u64(5_000..60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let pack = Pack::open(&path).unwrap_or_else(|error| panic!("seed {seed}, {round}: {error}"));
        let verified = pack.verify(&mut |_, _| {});
        let verified = verified.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        assert_eq!(verified.blocks, 1200, "seed {seed}, round {round}");
        let mut first = Vec::new();
        pack.section("s0").unwrap().unwrap().read(0, &mut first).unwrap();
        assert_eq!(*pack.manifest().unwrap(), *format!("manifest {}", first[0]).into_bytes());
        changed += u32::from(pack.root_digest() != last);
        torn += u32::from(files(dir.path()).len() > 1);
        last = pack.root_digest();
    }
    assert!(changed > 0 && torn > 0, "seed {seed}: {changed} changes, {torn} kills while writing");
    // What the last one left is taken over.
    write_sample(&path, 1, 1, 7).unwrap();
    assert_eq!(files(dir.path()), ["a.dpack"]);
}

/// Names the file to the child that may not write it to its end.
const FULL_VARIABLE: &str = "DURAMEN_TEST_PACK_FULL";

/// The child's part: the system lets it write 64 KiB. It does nothing when the test is run by itself.
#[test]
fn child_without_room() {
    let Some(path) = std::env::var_os(FULL_VARIABLE) else { return };
    let mut rng = entropy::rng(3);
    let noise: Vec<u8> = (0..1 << 20).map(|_| rng.u8(..)).collect();
    let mut writer = PackWriter::create(&path, Kind::Graph).unwrap();
    writer.begin_section("s", SectionOptions::default()).unwrap();
    let failed = (0_u8..9).find_map(|number| writer.block(&[number], 1, &noise).err());
    assert!(matches!(failed, Some(PackError::Io { doing: "write", .. })), "{failed:?}");
    // Even if there is room again, nobody knows what is in the file.
    for _ in 0..2 {
        let error = writer.block(b"z", 1, b"short").unwrap_err();
        assert!(
            matches!(&error, PackError::Poisoned { first, .. } if first.contains("cannot write")),
            "{error}"
        );
    }
    assert!(matches!(writer.finish(b""), Err(PackError::Poisoned { .. })));
    // What does not fit into the buffer either is noticed at the end.
    let mut writer = PackWriter::create(&path, Kind::Graph).unwrap();
    writer.begin_section("s", SectionOptions::default()).unwrap();
    writer.block(b"a", 1, &noise[..100 << 10]).unwrap();
    assert!(matches!(writer.finish(b""), Err(PackError::Io { .. })));
    println!("refused as it should be");
}

/// P-10: a disk that is full spoils nothing but the new file.
#[test]
fn a_writer_without_room_gives_up_and_leaves_the_old_pack() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    write_sample(&path, 1, 3, 1).unwrap();
    let before = std::fs::read(&path).unwrap();
    // Beyond the limit there is an error instead of a signal, which the child ignores.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "container_writers::child_without_room", "--nocapture", "--test-threads", "1"])
        .env(FULL_VARIABLE, &path)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("refused as it should be"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(files(dir.path()), ["a.dpack"]);
}
