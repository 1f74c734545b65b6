use super::*;

#[test]
fn values_come_back_from_memory_and_from_the_file_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut values = Values::new(dir.path(), 1_000);
    let value =
        |number: u32| vec![number as u8; (number as usize * 37) % 400 + usize::from(number == 50) * 5_000];
    let places: Vec<Place> = (0..100).map(|number| values.push(&value(number)).unwrap()).collect();
    assert!(values.filed > 10_000 && values.memory.len() <= 1_000);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
    let mut read = Vec::new();
    for number in (0..100).rev() {
        read.clear();
        read.push(b'.');
        values.read(places[number as usize], &mut read).unwrap();
        assert_eq!(read[1..], value(number), "value {number}");
    }
}

#[test]
fn a_folder_that_takes_no_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut values = Values::new(&dir.path().join("missing"), 10);
    values.push(b"0123456789").unwrap();
    let error = values.push(b"more").unwrap_err();
    assert!(error.to_string().contains("making a file without a name in"), "{error}");
}
