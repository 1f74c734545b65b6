//! What a suite shows of a document beside its targets.

use crate::page::Report;

/// A part of a page: a heading, and what stands below it.
///
/// ```
/// use duramen_reports::page::Report;
/// use duramen_reports::suite::{Block, Part};
///
/// let table = Block::Table {
///     headers: ["", "here"].map(str::to_owned).to_vec(),
///     rows: vec![["put", "1.4 us"].map(str::to_owned).to_vec()],
/// };
/// let part = Part { title: "Beside others".to_owned(), blocks: vec![table, Block::Text("That is all.".to_owned())] };
/// let page = part.show(Report::new("A run")).render();
/// assert!(page.contains("Beside others") && page.contains("1.4 us"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Its heading.
    pub title: String,
    /// Paragraphs and tables.
    pub blocks: Vec<Block>,
}

/// A paragraph or a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A table.
    Table {
        /// The headers of its columns.
        headers: Vec<String>,
        /// Its rows.
        rows: Vec<Vec<String>>,
    },
}

impl Part {
    /// Adds it to the page of a run.
    #[must_use]
    pub fn show(self, mut report: Report) -> Report {
        report = report.heading(self.title.clone());
        for block in self.blocks {
            report = match block {
                Block::Text(text) => report.note(text),
                Block::Table { headers, rows } => report.table_of(self.title.clone(), headers, rows),
            };
        }
        report
    }
}
