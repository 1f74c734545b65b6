//! From text to a spec, with the place of everything that is wrong.

use super::{check, guarded, Spec, SpecError};
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// The greatest size of a spec, in bytes.
pub const BYTES_MAX: usize = 1024 * 1024;

impl Spec {
    /// Reads and checks the spec in a file; gives it with its text.
    ///
    /// # Errors
    /// When the file cannot be read, is larger than [`BYTES_MAX`] or no UTF-8, or as for [`Spec::parse`].
    pub fn read(path: &Path) -> Result<(Self, String), SpecError> {
        let io = |source| SpecError::Io { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let limit = BYTES_MAX as u64 + 1;
        fs::File::open(path).map_err(io)?.take(limit).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() > BYTES_MAX {
            let advice = format!("it is larger than {BYTES_MAX} bytes, which is not a spec");
            return Err(io(io::Error::new(io::ErrorKind::FileTooLarge, advice)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok((Self::parse(&text, path)?, text)),
            Err(wrong) => {
                let good = wrong.utf8_error().valid_up_to();
                let before = String::from_utf8_lossy(&wrong.as_bytes()[..good]).into_owned();
                let message = "this byte is not UTF-8: save the file as UTF-8";
                Err(Source { text: &before, file: path, tree: None }.wrong_at(good, message))
            }
        }
    }

    /// Parses and checks the text of a spec. `file` is what errors call it.
    ///
    /// # Errors
    /// When the text is not TOML, has unknown, missing or mistyped fields, or says what cannot be. Each error
    /// names its line and column.
    pub fn parse(text: &str, file: &Path) -> Result<Self, SpecError> {
        let mut source = Source { text, file, tree: None };
        if text.len() > BYTES_MAX {
            return Err(source.wrong_at(0, &format!("a spec has at most {BYTES_MAX} bytes")));
        }
        let tree = DeTable::parse(text).map_err(|error| source.toml_error(&error))?;
        let mut spec: Self = toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        let tree = tree.into_inner();
        let scope = tree.get("scope").map(Spanned::get_ref);
        if !scope
            .is_some_and(|scope| matches!(scope, DeValue::Table(scope) if scope.contains_key("off_limits")))
        {
            // A script that is allowed by its name is what the series is about.
            let scripts = guarded::scripts(&spec).into_iter().filter(|file| !spec.scope.allow.contains(file));
            let scripts: Vec<String> = scripts.collect();
            spec.scope.off_limits.extend(scripts);
        }
        source.tree = Some(tree);
        check::check(&spec, &source)?;
        Ok(spec)
    }
}

/// One step from a table or list to what is in it.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    /// The value of a key.
    Key(&'a str),
    /// The entry of a list, from 0.
    Entry(usize),
}

/// The text of a spec, and where in it everything is.
pub(super) struct Source<'a> {
    text: &'a str,
    file: &'a Path,
    tree: Option<DeTable<'a>>,
}

impl Source<'_> {
    /// An error at what `steps` lead to, or if that is not written down, at the last thing on the way that
    /// is.
    pub(super) fn wrong(&self, steps: &[Step<'_>], message: &str) -> SpecError {
        self.wrong_at(self.span(steps).map_or(0, |span| span.start), message)
    }

    fn span(&self, steps: &[Step<'_>]) -> Option<Range<usize>> {
        let (first, rest) = steps.split_first()?;
        let Step::Key(key) = first else { return None };
        let mut value: &Spanned<DeValue<'_>> = self.tree.as_ref()?.get(*key)?;
        for step in rest {
            let next = match (step, value.get_ref()) {
                (Step::Key(key), DeValue::Table(table)) => table.get(*key),
                (Step::Entry(index), DeValue::Array(list)) => list.get(*index),
                _ => None,
            };
            match next {
                Some(next) => value = next,
                None => break,
            }
        }
        Some(value.span())
    }

    fn toml_error(&self, error: &toml::de::Error) -> SpecError {
        self.wrong_at(error.span().map_or(0, |span| span.start), error.message())
    }

    fn wrong_at(&self, offset: usize, message: &str) -> SpecError {
        // What a parser names may be the end of the text, or within a character.
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        SpecError::Wrong {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.to_owned(),
        }
    }
}
