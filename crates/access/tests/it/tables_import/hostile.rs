//! Files that say more than they hold, or hold more than they seem to: refused, in little memory.

use std::path::Path;
use std::process::Command;

use super::*;

/// Names the folder to the child.
const FOLDER_VARIABLE: &str = "DURAMEN_TEST_TABLES_MEMORY";
/// The most memory that a refusal may take: the text of a page and the values of a batch.
const PEAK_MAX: u64 = 700 << 20;

fn types(folder: &Path) -> std::path::PathBuf {
    folder.join("resource_types.parquet")
}

fn zstd(dictionary: bool) -> WriterProperties {
    let all = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    all.set_dictionary_enabled(dictionary).set_encoding(Encoding::PLAIN).build()
}

/// The child's part. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let folder = Path::new(&folder);
    let error = import_parquet(&folder.join("tables"), &folder.join("all.dpack"), Format::Pack).unwrap_err();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let peak = line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    println!("\npeak {peak}\nsaid {error}");
}

/// What a process of its own says of tables that were changed, after it took little memory.
fn refusal_in_little_memory(change: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    write_tables(&dir.path().join("tables"), Default::default);
    change(&dir.path().join("tables"));
    let bytes = types(&dir.path().join("tables")).metadata().unwrap().len();
    assert!(bytes < 2 << 20, "a short file: {bytes}");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tables_import::hostile::child", "--nocapture", "--test-threads", "1"])
        .env(FOLDER_VARIABLE, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_owned();
    let peak: u64 = line("peak ").parse().unwrap();
    assert!(peak < PEAK_MAX, "{} MiB: {text}", peak >> 20);
    assert!(!dir.path().join("all.dpack").exists());
    line("said ")
}

/// Nobody is at its other end, so whoever waits for it waits for ever.
#[test]
fn a_pipe_in_the_place_of_a_table_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tables");
    write_tables(&folder, Default::default);
    std::fs::remove_file(types(&folder)).unwrap();
    assert!(Command::new("mkfifo").arg(types(&folder)).status().unwrap().success());
    let (told, said) = std::sync::mpsc::channel();
    let pack = dir.path().join("all.dpack");
    std::thread::spawn(move || {
        told.send(import_parquet(&folder, &pack, Format::Pack).unwrap_err().to_string())
    });
    let error = said.recv_timeout(std::time::Duration::from_secs(30)).expect("an answer in half a minute");
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn a_page_of_zeros_that_shrinks_to_nothing_is_refused() {
    let said = refusal_in_little_memory(|folder| {
        let long: &'static str = Box::leak("\0".repeat(200 << 20).into_boxed_str());
        write_table(&types(folder), zstd(false), "required binary id (STRING);", &[Texts(vec![long])]);
    });
    assert!(said.contains("\"id\"") && said.contains("smaller pages"), "{said}");
}

#[test]
fn columns_that_are_too_long_together_are_refused() {
    let said = refusal_in_little_memory(|folder| {
        let long: &'static str = Box::leak("\0".repeat(100 << 20).into_boxed_str());
        let names = ["id", "display_name", "description"];
        let schema: String = names.iter().map(|name| format!("required binary {name} (STRING);")).collect();
        let mut columns: Vec<Values> = names.iter().map(|_| Texts(vec![long])).collect();
        columns.insert(0, Lists(vec![long, long], vec![1, 1], vec![0, 1]));
        let traits =
            "required group traits (LIST) { repeated group list { required binary element (STRING); } }";
        write_table(&types(folder), zstd(false), &format!("{traits} {schema}"), &columns);
    });
    assert!(said.contains("smaller pages"), "{said}");
}

#[test]
fn one_long_text_in_very_many_rows_is_refused() {
    let said = refusal_in_little_memory(|folder| {
        let long: &'static str = Box::leak("a".repeat(64 << 10).into_boxed_str());
        write_table(&types(folder), zstd(true), "required binary id (STRING);", &[Texts(vec![long; 30_000])]);
    });
    assert!(said.contains("bytes of text") && said.contains("resource_types.parquet"), "{said}");
}

#[test]
fn pages_that_one_batch_keeps_in_memory_are_counted_together() {
    let said = refusal_in_little_memory(|folder| {
        // Too long for a dictionary, so that each has a page of its own.
        let long: &'static str = Box::leak("a".repeat(4 << 20).into_boxed_str());
        write_table(&types(folder), zstd(false), "required binary id (STRING);", &[Texts(vec![long; 200])]);
    });
    assert!(said.contains("pages of 256 rows"), "{said}");
}

#[test]
fn one_row_with_millions_of_texts_is_refused() {
    let said = refusal_in_little_memory(|folder| {
        let count = 5 << 20;
        let mut goes_on = vec![1; count];
        goes_on[0] = 0;
        let schema = "required binary id (STRING);
            required group traits (LIST) { repeated group list { required binary element (STRING); } }";
        let columns = [Texts(vec!["a"]), Lists(vec!["USER"; count], vec![1; count], goes_on)];
        write_table(&types(folder), zstd(true), schema, &columns);
    });
    assert!(said.contains("\"traits\"") && said.contains("values of lists"), "{said}");
}

#[test]
fn a_schema_deeper_than_a_stack_is_refused() {
    let said = refusal_in_little_memory(|folder| {
        // A footer by hand: version, schema, rows, row groups.
        let depth = 60_000_u32;
        let mut footer = vec![0x15, 2, 0x19, 0xfc];
        let mut count = depth;
        while count >= 128 {
            footer.push(count as u8 | 128);
            count >>= 7;
        }
        footer.push(count as u8);
        for _ in 0..depth {
            // Repetition, name, one child.
            footer.extend([0x35, 0, 0x18, 1, b'a', 0x15, 2, 0]);
        }
        footer.extend([0x16, 0, 0x19, 0x0c, 0]);
        let length = footer.len() as u32;
        let bytes = [b"PAR1".as_slice(), &footer, &length.to_le_bytes(), b"PAR1"].concat();
        std::fs::write(types(folder), bytes).unwrap();
    });
    assert!(said.contains("schema"), "{said}");
}

/// Flipped bits give rows or an error, in every part of a file and with every codec, but no panic.
#[test]
fn flipped_bits_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("3.c1z");
    write_v3(&Graph::random(51, 60), &from);
    let (tables, to) = (dir.path().join("tables"), dir.path().join("all.c1z"));
    let (mut refused, mut read, mut panicked) = (0, 0, 0);
    for seed in 0..6 {
        match seed {
            0 => exported(&from, None, &tables),
            1 => write_tables(&tables, || zstd(true)),
            2 => write_tables(&tables, || zstd(false)),
            3 => write_tables(&tables, Default::default),
            4 => write_tables(&tables, || {
                let all = WriterProperties::builder().set_compression(Compression::GZIP(Default::default()));
                all.set_writer_version(WriterVersion::PARQUET_2_0).set_dictionary_enabled(true).build()
            }),
            _ => write_tables(&tables, || {
                WriterProperties::builder().set_compression(Compression::LZ4_RAW).build()
            }),
        }
        let mut random = fastrand::Rng::with_seed(seed);
        for name in ["resource_types", "resources", "entitlements", "grants"] {
            let path = tables.join(format!("{name}.parquet"));
            let whole = std::fs::read(&path).unwrap();
            for _ in 0..80 {
                let mut bytes = whole.clone();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(..bytes.len());
                    bytes[at] = if random.bool() { bytes[at] ^ (1 << random.u8(..8)) } else { random.u8(..) };
                }
                std::fs::write(&path, &bytes).unwrap();
                match std::panic::catch_unwind(|| import_parquet(&tables, &to, Format::C1z3)) {
                    Ok(Ok(_)) => read += 1,
                    Ok(Err(_)) => refused += 1,
                    Err(_) => panicked += 1,
                }
            }
            std::fs::write(&path, &whole).unwrap();
        }
        import_parquet(&tables, &to, Format::C1z3).unwrap();
    }
    assert!(
        refused > 400 && read > 20 && panicked == 0,
        "{refused} refused, {read} read, {panicked} panicked"
    );
}
