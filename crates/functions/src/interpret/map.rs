//! MAP: a body for every row, so many at a time.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use super::propagate::Ended;
use super::turn::Turn;
use super::types::Failure;
use super::MAX_ITEMS;
use crate::graph::Kind;
use crate::interpret::state::{Control, Key, MapProgress, Scope};
use crate::json::{elements, rows_text, Json};

impl Turn<'_, '_> {
    /// The node that gives the items has ended.
    pub(super) fn items_ended(&mut self, key: &Key, ended: Ended) {
        let items = match ended {
            Ok(items) => items,
            Err(fault) => return self.pass_fault(key, fault),
        };
        let Some(rows) = rows_of(&items) else {
            let text = "df.map: the items are not rows: give it a query, or a step whose result has rows";
            return self.fail_cell(key, Failure::new(text));
        };
        if rows.len() > MAX_ITEMS {
            let text =
                format!("df.map: {} rows are too many, the limit is {MAX_ITEMS}: add a LIMIT", rows.len());
            return self.fail_cell(key, Failure::new(text));
        }
        if rows.is_empty() {
            return self.complete_cell(key, Json::from_valid("[]"));
        }
        let done = self.state.memory.memo.as_mut().map(|memo| memo.items(key)).unwrap_or_default();
        if let Some(progress) = self.map_progress(key) {
            progress.rows = rows;
            progress.done = done;
        }
        self.start_items(key);
        if let Kind::Map { body, .. } = self.node(key).kind {
            // All of them were done before.
            self.finish_map(key, body);
        }
    }

    /// Starts as many bodies as may run at once, the lowest item first.
    fn start_items(&mut self, key: &Key) {
        let Kind::Map { items, body, item: name, parallelism } = &self.node(key).kind else { return };
        let Some(Ok(items)) = self.ended(&key.child(*items)) else { return };
        let Some(progress) = self.map_progress(key) else { return };
        if progress.rows.is_empty() {
            let Some(rows) = rows_of(&items) else {
                let text = "df.map: the items were rows when it began, and are none any more";
                return self.fail_cell(key, Failure::new(text));
            };
            progress.rows = rows;
        }
        let mut begun = Vec::new();
        while progress.open < *parallelism && progress.failed.is_none() {
            if progress.done.contains_key(&progress.next) {
                progress.next += 1;
                continue;
            }
            let Some(row) = progress.rows.get(progress.next as usize) else { break };
            let item =
                Json::from_valid(format!(r#"{{"rows":[{}],"row_count":1}}"#, &items.text()[row.clone()]));
            begun.push((key.item(*body, progress.next), item));
            progress.next += 1;
            progress.open += 1;
        }
        for (body, item) in begun.into_iter().rev() {
            let mut scope = Scope::default();
            scope.own.insert(name.clone(), item);
            self.state.scopes.insert(body.clone(), scope);
            self.push_start(body);
        }
    }

    /// The body of one item has ended.
    pub(super) fn item_ended(&mut self, key: &Key, child: &Key, ended: Ended) {
        let Some(&item) = child.items.last() else { return };
        self.state.scopes.remove(child);
        let Some(progress) = self.map_progress(key) else { return };
        progress.open = progress.open.saturating_sub(1);
        match ended {
            Ok(result) => {
                progress.done.insert(item, result);
                // Ten thousand items with the cells of their bodies would be a large state. The last one is shown.
                if let Some(before) = progress.last_done.replace(item) {
                    self.clear(&key.item(child.node, before));
                }
            }
            Err(_) => progress.failed = Some(progress.failed.map_or(item, |failed| failed.min(item))),
        }
        self.start_items(key);
        self.finish_map(key, child.node);
    }

    /// Ends a MAP of which no item runs.
    fn finish_map(&mut self, key: &Key, body: u32) {
        let Some(progress) = self.map_progress(key) else { return };
        if progress.open > 0 {
            return;
        }
        if let Some(item) = progress.failed {
            if let Some(Err(fault)) = self.ended(&key.item(body, item)) {
                self.pass_fault(key, Arc::clone(&fault));
            }
            return;
        }
        let size = progress.done.values().map(|result| result.text().len() + 1).sum::<usize>();
        if let Some(failure) = self.too_large("df.map", size) {
            return self.fail_cell(key, failure);
        }
        self.admit(size);
        let Some(progress) = self.map_progress(key) else { return };
        let mut text = String::with_capacity(size + 2);
        for result in progress.done.values() {
            let comma = if text.is_empty() { '[' } else { ',' };
            let _ = write!(text, "{comma}{}", result.text());
        }
        text.push(']');
        self.complete_cell(key, Json::from_valid(text));
    }

    fn map_progress(&mut self, key: &Key) -> Option<&mut MapProgress> {
        match &mut self.running(key)?.control {
            Control::Map(progress) => Some(progress),
            _ => None,
        }
    }
}

/// Where the rows of a result set lie in its text; `None` if it is none.
fn rows_of(items: &Json) -> Option<Vec<Range<usize>>> {
    let text = items.text();
    let rows = elements(rows_text(text)?)?;
    // The rows are slices of the text.
    let place = |row: &str| {
        let from = row.as_ptr() as usize - text.as_ptr() as usize;
        from..from + row.len()
    };
    Some(rows.into_iter().map(place).collect())
}
