//! Collects what the server answers to one pipeline of statements.

use crate::{
    json::{self, Kind},
    session::{Column, Guard, Outcome, SessionError},
};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{self, Message};

/// Collects the answers of one pipeline. Our own statements have no portal description, so the first
/// `RowDescription` or `NoData` opens the first outcome.
pub(crate) struct Collector {
    guard: Guard,
    outcomes: Vec<Outcome>,
    kinds: Vec<Kind>,
    open: bool,
    bytes: usize,
    copies_in: bool,
    copies_out: bool,
}

impl Collector {
    pub(crate) fn new(guard: Guard, statements: usize) -> Collector {
        Collector {
            guard,
            outcomes: Vec::with_capacity(statements),
            kinds: Vec::new(),
            open: false,
            bytes: 0,
            copies_in: false,
            copies_out: false,
        }
    }

    /// How many bytes a row may have that is still wanted.
    pub(crate) fn row_limit(&self) -> usize {
        let is_cut = self.outcomes.last().is_some_and(|outcome| outcome.truncated);
        if is_cut {
            0
        } else {
            self.guard.byte_limit.saturating_sub(self.bytes)
        }
    }

    /// Leaves out a row, and with it all that follow in its result.
    pub(crate) fn cut(&mut self) {
        if let Some(outcome) = self.outcomes.last_mut() {
            outcome.truncated = true;
        }
    }

    /// What the statements gave so far.
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// What the statements gave.
    pub(crate) fn into_outcomes(self) -> Vec<Outcome> {
        self.outcomes
    }

    /// Whether a statement wanted rows from the client.
    pub(crate) fn copies_in(&self) -> bool {
        self.copies_in
    }

    /// Whether a statement wanted to send rows outside of a result.
    pub(crate) fn copies_out(&self) -> bool {
        self.copies_out
    }

    pub(crate) fn take(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::RowDescription(body) => {
                let mut outcome = Outcome { rows_json: vec![b'['], ..Outcome::default() };
                self.kinds.clear();
                let mut fields = body.fields();
                while let Some(field) = fields.next()? {
                    self.kinds.push(Kind::of_type(field.type_oid()));
                    outcome.columns.push(Column {
                        name: field.name().to_owned(),
                        type_name: json::type_name(field.type_oid()),
                    });
                }
                self.outcomes.push(outcome);
                self.open = true;
            }
            Message::NoData => {
                self.outcomes.push(Outcome { rows_json: vec![b'['], ..Outcome::default() });
                self.open = true;
            }
            Message::DataRow(body) => self.row(&body)?,
            Message::CommandComplete(body) => {
                let tag = body.tag()?.to_owned();
                self.close(tag);
            }
            Message::PortalSuspended => {
                let tag = self
                    .outcomes
                    .last()
                    .map_or_else(String::new, |last| format!("SELECT {}", last.row_count));
                if let Some(last) = self.outcomes.last_mut() {
                    last.truncated = true;
                }
                self.close(tag);
            }
            Message::EmptyQueryResponse => self.close(String::new()),
            Message::CopyInResponse(_) => self.copies_in = true,
            Message::CopyOutResponse(_) => self.copies_out = true,
            // The data of a COPY to the client is dropped.
            _ => {}
        }
        Ok(())
    }

    fn row(&mut self, body: &backend::DataRowBody) -> Result<(), SessionError> {
        let Some(outcome) = self.outcomes.last_mut() else { return Ok(()) };
        if outcome.truncated || outcome.row_count >= u64::from(self.guard.row_limit) {
            outcome.truncated = true;
            return Ok(());
        }
        let before = outcome.rows_json.len();
        outcome.rows_json.extend_from_slice(if outcome.row_count == 0 { b"[" } else { b",[" });
        let mut ranges = body.ranges();
        let mut first = true;
        for kind in &self.kinds {
            let Some(range) = ranges.next()? else { break };
            if !first {
                outcome.rows_json.push(b',');
            }
            first = false;
            json::write_value(&mut outcome.rows_json, *kind, range.map(|range| &body.buffer()[range]));
        }
        outcome.rows_json.push(b']');
        let bytes = self.bytes + (outcome.rows_json.len() - before);
        if bytes > self.guard.byte_limit {
            outcome.rows_json.truncate(before);
            outcome.truncated = true;
            return Ok(());
        }
        outcome.row_count += 1;
        self.bytes = bytes;
        Ok(())
    }

    fn close(&mut self, tag: String) {
        if self.open {
            if let Some(outcome) = self.outcomes.last_mut() {
                outcome.command = tag;
                outcome.rows_json.push(b']');
            }
            self.open = false;
        }
    }
}
