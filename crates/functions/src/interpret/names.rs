//! Scopes of named results, and the environment that a substitution sees.

use std::collections::BTreeMap;
use std::mem;

use super::turn::Turn;
use crate::interpret::state::{Control, Fault, Key};
use crate::json::{quoted, Json};
use crate::substitute::Environment;

/// What the handler of a CATCH knows the failure as.
const ERROR: &str = "error";
/// What the instance's input is known as.
const INPUT: &str = "input";

impl Turn<'_, '_> {
    pub(super) fn name_result(&mut self, scope: &Key, name: String, result: Json) {
        let Some(scope) = self.state.scopes.get_mut(scope) else { return };
        if let Some(visible) = &mut scope.visible {
            visible.insert(name.clone(), result.clone());
        }
        scope.own.insert(name, result);
    }

    /// Gives what a branch has named to the scope of the node that it is a branch of.
    pub(super) fn merge_names(&mut self, branch: &Key, node: &Key) {
        let own = self.state.scopes.get(branch).map(|scope| scope.own.clone()).unwrap_or_default();
        let scope = node.scope(self.graph);
        for (name, result) in own {
            self.name_result(&scope, name, result);
        }
    }

    /// Makes a failure known as `$error` to what a CATCH runs next; gives what was known as that before.
    pub(super) fn name_error(&mut self, catch: &Key, fault: &Fault) -> Option<Json> {
        let scope = catch.scope(self.graph);
        let before = self.state.scopes.get(&scope).and_then(|scope| scope.own.get(ERROR).cloned());
        let sqlstate = fault.failure.sqlstate.as_deref().map_or_else(|| "null".to_owned(), quoted);
        let node =
            node_id(self.cx.instance_id, fault.origin.node).unwrap_or_else(|| fault.origin.to_string());
        let message = quoted(&fault.failure.message);
        let text = format!(r#"{{"message": {message}, "sqlstate": {sqlstate}, "node": {}}}"#, quoted(&node));
        self.name_result(&scope, ERROR.to_owned(), Json::from_valid(text));
        before
    }

    /// Takes `$error` away again when the handler of a CATCH has ended; does nothing before it began.
    pub(super) fn restore_error(&mut self, catch: &Key) {
        let Some(frame) = self.state.frames.get_mut(catch) else { return };
        let Control::Handler { before } = &mut frame.control else { return };
        let before = before.take();
        frame.control = Control::Plain;
        let Some(scope) = self.state.scopes.get_mut(&catch.scope(self.graph)) else { return };
        match before {
            Some(before) => scope.own.insert(ERROR.to_owned(), before),
            None => scope.own.remove(ERROR),
        };
        scope.visible = None;
    }

    /// Calls `with` with all that a step of this cell can refer to.
    pub(super) fn environment<T>(&mut self, key: &Key, with: impl FnOnce(&Environment) -> T) -> T {
        let scope = key.scope(self.graph);
        self.make_visible(&scope);
        let memory = &mut self.state.memory;
        let mut environment = memory.environment.take().unwrap_or_else(|| Environment {
            instance_id: self.cx.instance_id.to_owned(),
            label: self.cx.label.map(str::to_owned),
            vars: self.cx.vars.clone(),
            results: BTreeMap::new(),
        });
        // The results are lent to the environment rather than copied: there may be thousands.
        let mut lent = self.state.scopes.get_mut(&scope).and_then(|scope| scope.visible.as_mut());
        if let Some(visible) = &mut lent {
            mem::swap(*visible, &mut environment.results);
        }
        let result = with(&environment);
        if let Some(visible) = &mut lent {
            mem::swap(*visible, &mut environment.results);
        }
        self.state.memory.environment = Some(environment);
        result
    }

    /// Fills in `visible` of a scope. While it is used, the scopes around it do not change: their steps wait for it.
    fn make_visible(&mut self, scope: &Key) {
        if self.state.scopes.get(scope).is_some_and(|scope| scope.visible.is_some()) {
            return;
        }
        let mut chain = vec![scope.clone()];
        let mut seen = loop {
            let key = &chain[chain.len() - 1];
            if let Some(visible) = self.state.scopes.get(key).and_then(|scope| scope.visible.clone()) {
                chain.pop();
                break visible;
            }
            match key.parent(self.graph) {
                Some(parent) if *key != Key::ROOT => chain.push(parent.scope(self.graph)),
                _ => {
                    let mut seen = self.cx.inherited.clone();
                    if let Some(input) = self.cx.input {
                        seen.insert(INPUT.to_owned(), input.clone());
                    }
                    break seen;
                }
            }
        };
        for key in chain.iter().rev() {
            let Some(scope) = self.state.scopes.get_mut(key) else { continue };
            seen.extend(scope.own.iter().map(|(name, result)| (name.clone(), result.clone())));
            scope.visible = Some(seen.clone());
        }
    }
}

/// The public id of a node of an instance, as the SQL function `df._node_id` makes it; `None` if the instance's id is
/// none.
fn node_id(instance_id: &str, node: u32) -> Option<String> {
    let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if instance_id.len() != 8 || !instance_id.bytes().all(hexadecimal) {
        return None;
    }
    let number = mixed(u32::from_str_radix(instance_id, 16).ok()?, 744_910_739, 1_887_975_477);
    let number = number.wrapping_mul(692_426_649).wrapping_add(node);
    Some(format!("{:08x}", mixed(number, 1_232_296_477, 860_817_051)))
}

fn mixed(number: u32, first: u32, second: u32) -> u32 {
    let number = number.wrapping_mul(first);
    (number ^ (number >> 16)).wrapping_mul(second)
}
