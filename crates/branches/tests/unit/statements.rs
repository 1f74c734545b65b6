//! S1 to S3: what is read out of a server's log.

use super::*;

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[test]
fn statements_are_read_as_they_were_sent() {
    let log = "=17:1= LOG:  statement: select 1\n\
               =18:1= LOG:  execute <unnamed>: select $1\n\
               =18:2= DETAIL:  Parameters: $1 = '5'\n\
               =17:2= LOG:  statement: select 'a\n\
               \tb',\n\
               \t\n\
               \t=99:1= LOG:  statement: forged'\n\
               a line of somebody else\n\
               =17:3= ERROR:  nothing\n\
               =17:4= LOG:  fastpath function call: \"lo_open\" (OID 952)\n";
    let (count, first) = statements_in(log.as_bytes());
    let expected = [
        (17, hash("select 1")),
        (18, hash("select $1\0Parameters: $1 = '5'")),
        (17, hash("select 'a\nb',\n\n=99:1= LOG:  statement: forged'")),
        (17, hash("fastpath function call: \"lo_open\" (OID 952)")),
    ];
    assert_eq!(count, 4);
    assert_eq!(first, expected.map(|(process, hash)| Hashed { process, hash }));
    let many = "=1:1= LOG:  statement: select 1\n".repeat(1000);
    let (count, first) = statements_in(many.as_bytes());
    assert_eq!((count, first.len()), (1000, NAMED_MAX));
    assert_eq!(statements_in(b"= : = \n=x:1= LOG:  statement: a\n=1:= \n\t\n").0, 0);
}

#[test]
fn a_log_is_read_in_parts_of_whole_lines_and_what_is_too_much_is_counted() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    assert!(Part::read(&path, 0).unwrap().is_none());
    fs::write(&path, "one\ntwo\nthr").unwrap();
    let part = Part::read(&path, 0).unwrap().unwrap();
    assert_eq!((part.text.as_slice(), part.to, part.lost), (&b"one\ntwo\n"[..], 8, 0));
    assert!(Part::read(&path, 8).unwrap().is_none());
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"ee\n").unwrap();
    assert_eq!(Part::read(&path, 8).unwrap().unwrap().text, b"three\n");
    // Somebody cut it.
    let part = Part::read(&path, 1000).unwrap().unwrap();
    assert_eq!((part.from, part.lost), (0, 1000 - 14));
    // A flood, in a file that takes no room.
    file.set_len(BACKLOG_MAX + 100).unwrap();
    file.write_all(b"\nend\n").unwrap();
    let length = BACKLOG_MAX + 105;
    let part = Part::read(&path, 8).unwrap().unwrap();
    assert_eq!((part.from, part.to, part.lost), (length - READ_MAX, length, length - READ_MAX - 8));
    // What was read goes from the disk, and what is written later stays where it is.
    fs::write(&path, vec![b'x'; 6 << 20]).unwrap();
    make_room(&path, 6 << 20).unwrap();
    use std::os::unix::fs::MetadataExt;
    let kept = fs::metadata(&path).unwrap();
    assert!(kept.len() == 6 << 20 && kept.blocks() * 512 <= KEPT + (1 << 16), "{}", kept.blocks() * 512);
}
