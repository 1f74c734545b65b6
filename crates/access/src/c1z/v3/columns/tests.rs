use super::*;

#[test]
fn numbers_have_a_width_and_perhaps_a_base() {
    let read = |block: &[u8], rows: usize| {
        let mut at = 1;
        let numbers = Numbers::read(block, &mut at, rows)?;
        Ok::<_, Bad>(((0..rows).map(|row| numbers.get(block, row)).collect::<Vec<_>>(), at))
    };
    assert_eq!(read(&[9, 0], 3).unwrap(), (vec![0, 0, 0], 2));
    assert_eq!(read(&[9, 0x80, 7, 0, 0, 0, 0, 0, 0, 0], 2).unwrap(), (vec![7, 7], 10));
    assert_eq!(read(&[9, 1, 5, 6], 2).unwrap(), (vec![5, 6], 4));
    assert_eq!(read(&[9, 2, 5, 1], 1).unwrap(), (vec![261], 4));
    assert_eq!(read(&[9, 4, 0, 0, 1, 0, 0, 0], 1).unwrap(), (vec![1], 8));
    assert_eq!(read(&[9], 0).unwrap(), (vec![], 1));
    for wrong in [vec![9], vec![9, 3, 0, 0, 0], vec![9, 0x88, 0], vec![9, 1, 5], vec![9, 0x81, 0, 0]] {
        assert!(read(&wrong, 2).is_err(), "{wrong:?}");
    }
}
