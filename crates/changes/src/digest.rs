//! One digest for all that differs, so that evidence and a file can be held against each other.

use crate::change::{Part, Table};
use serde_json::json;

/// Another context, another digest: this one is of nothing else.
const CONTEXT: &str = "duramen branch diff digest, format 1";

/// Takes what a comparison tells, in its order: first the statements that make one definition the other, then its parts. The same
/// differences have the same digest, however they were found.
#[derive(Debug, Clone)]
pub struct DiffDigest {
    hasher: blake3::Hasher,
}

impl DiffDigest {
    /// Begins with the statements.
    pub fn new<'a>(statements: impl IntoIterator<Item = &'a str>) -> DiffDigest {
        let mut digest = DiffDigest { hasher: blake3::Hasher::new_derive_key(CONTEXT) };
        for statement in statements {
            digest.put(b's', statement.as_bytes());
        }
        digest
    }

    /// Takes a part. How many blocks or tables were read for it does not matter.
    pub fn part(&mut self, part: &Part) {
        match part {
            Part::Table(Table { schema, name, columns, key, left_out, only_in, compared: _ }) => {
                let left_out: Vec<_> = left_out.iter().map(|it| json!([it.name, it.only_in])).collect();
                let value = json!([schema, name, columns, key, left_out, only_in]);
                self.put(b't', value.to_string().as_bytes());
            }
            Part::Row(row) => self.put(b'r', json!([row.old, row.new]).to_string().as_bytes()),
            Part::Ending(ending) => {
                let counts = json!([ending.added, ending.removed, ending.changed, ending.listed]);
                self.put(b'e', counts.to_string().as_bytes());
            }
            Part::Sequence(it) => {
                let value = json!([it.schema, it.name, it.old, it.new]);
                self.put(b'q', value.to_string().as_bytes());
            }
            Part::Summary(_) => {}
        }
    }

    /// The digest, in hexadecimal digits.
    #[must_use]
    pub fn finish(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }

    fn put(&mut self, kind: u8, bytes: &[u8]) {
        self.hasher.update(&[kind]);
        self.hasher.update(&(bytes.len() as u64).to_le_bytes());
        self.hasher.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::DiffDigest;
    use crate::change::{Compared, Part, Row, Summary, Table};

    #[test]
    fn the_digest_is_of_what_differs_and_of_nothing_else() {
        let table = |compared| {
            let (schema, name) = ("s".to_owned(), "t".to_owned());
            let (columns, key, left_out) = (Vec::new(), Vec::new(), Vec::new());
            Part::Table(Table { schema, name, columns, key, left_out, only_in: None, compared })
        };
        let row = |text: &str| Part::Row(Row { old: None, new: Some(vec![Some(text.to_owned())]) });
        let digest = |statements: &[&str], parts: &[Part]| {
            let mut digest = DiffDigest::new(statements.iter().copied());
            parts.iter().for_each(|part| digest.part(part));
            digest.finish()
        };
        let (blocks, full) = (Compared::Blocks { changed: 1, of: 2 }, Compared::Full { why: "x".to_owned() });
        let one = digest(&["a"], &[table(blocks), row("x")]);
        assert_eq!(one, digest(&["a"], &[table(full.clone()), row("x"), Part::Summary(Summary::default())]));
        assert_ne!(one, digest(&["a"], &[table(full.clone()), row("y")]));
        assert_ne!(one, digest(&["b"], &[table(full.clone()), row("x")]));
        assert_ne!(digest(&["ab"], &[]), digest(&["a", "b"], &[]));
        assert_eq!(one.len(), 64);
    }
}
