//! What is found is written in the words of the interface.

use crate::model::ErrorBody;
use duramen_api::data_diff::DataDiff;
use duramen_changes::{
    Column, Compared, Ending, LeftOut, Only, Part, Row, Sequence, SequenceState, Summary, Table,
};

#[test]
fn every_part_is_a_line_of_the_interface() {
    let ending = Ending { added: 1, removed: 2, changed: 3, listed: 4 };
    let table = Table {
        schema: "s".into(),
        name: "t".into(),
        columns: vec![Column { name: "c".into(), type_name: "text".into(), is_always_generated: true }],
        key: vec![0],
        left_out: vec![LeftOut { name: "l".into(), only_in: Some(Only::Snapshot), why: "w".into() }],
        only_in: Some(Only::Branch),
        compared: Compared::Blocks { changed: 1, of: 2 },
    };
    let state = Some(SequenceState { last_value: 5, is_called: false });
    let parts = [
        Part::Table(Table { compared: Compared::Full { why: "w".into() }, ..table.clone() }),
        Part::Table(table),
        Part::Row(Row { old: Some(vec![None, Some("x".into())]), new: None }),
        Part::Ending(ending),
        Part::Sequence(Sequence { schema: "s".into(), name: "q".into(), old: None, new: state }),
        Part::Summary(Summary { tables: 1, differing: 1, rows: ending, sequences: 1 }),
    ];
    for part in parts {
        let sent = serde_json::to_string(&part).unwrap();
        let read: DataDiff = serde_json::from_str(&sent).unwrap();
        assert!(!matches!(read, DataDiff::Failed(ErrorBody { .. })));
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Part>(&again).unwrap(), part);
    }
}
