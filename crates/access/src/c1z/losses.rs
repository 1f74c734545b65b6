//! What a format could not hold, counted.

use crate::graph::Loss;

/// The losses of one file. There are few kinds of them, whatever the number of rows.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    all: Vec<Loss>,
}

impl Losses {
    /// Counts one more row that lost `what`.
    pub(crate) fn note(&mut self, row: &'static str, what: &'static str, id: &str) {
        self.note_many(row, what, 1, id);
    }

    /// Counts `rows` more rows that lost `what`; `example` is the id of one of them.
    pub(crate) fn note_many(&mut self, row: &'static str, what: &str, rows: u64, example: &str) {
        if rows == 0 {
            return;
        }
        match self.all.iter_mut().find(|loss| loss.row == row && loss.what == what) {
            Some(loss) => loss.rows += rows,
            None => self.all.push(Loss { row, what: what.to_owned(), rows, example: example.to_owned() }),
        }
    }

    pub(crate) fn all(&self) -> &[Loss] {
        &self.all
    }
}
