//! Tokens that are the fleet's: what is kept of them here is a copy, by which holders are let in while etcd is away.

use super::{Kept, Line, TokenError, Tokens};
use duramen_api::token::{CreateToken, NewToken, Token};
use std::collections::BTreeMap;

/// A token that is about to be one of the fleet.
pub(crate) struct Draft {
    line: Line,
    made: NewToken,
}

impl Draft {
    /// The token's name.
    pub(crate) fn name(&self) -> &str {
        &self.made.token.name
    }

    /// The token, with its secret.
    pub(crate) fn made(self) -> NewToken {
        self.made
    }

    /// As the fleet has it: without what only this home can compare with.
    pub(crate) fn value(&self) -> Vec<u8> {
        value(self.line.clone())
    }
}

fn value(line: Line) -> Vec<u8> {
    let line = Line { hash: None, shared: true, ..line };
    serde_json::to_vec(&line).expect("texts, numbers and times are always JSON")
}

impl Tokens {
    /// A token that can be made, as far as this home knows.
    ///
    /// # Errors
    /// As for [`Tokens::create`].
    pub(crate) fn drafted(&self, wanted: CreateToken) -> Result<Draft, TokenError> {
        let token = Tokens::wanted(&self.kept(), wanted)?;
        let (line, made) = self.draft(token, true);
        Ok(Draft { line, made })
    }

    /// A token with another secret, and what the fleet has of it now.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(crate) fn redrafted(&self, name: &str) -> Result<(Draft, Token), TokenError> {
        let token = Token::clone(&super::find(&self.kept(), name)?.token);
        let (line, made) = self.draft(token.clone(), true);
        Ok((Draft { line, made }, token))
    }

    /// Keeps a token that the fleet has since a revision of etcd.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub(crate) fn adopt(&self, draft: &Draft, revision: i64) -> Result<(), TokenError> {
        let mut kept = self.kept();
        self.keep(&mut kept, draft.line.clone())?;
        if let Some(kept) = kept.get_mut(draft.name()) {
            kept.revision = revision;
        }
        Ok(())
    }

    /// The tokens of this home that are not the fleet's, as it would have them.
    pub(crate) fn own(&self) -> Vec<(String, Vec<u8>)> {
        let kept = self.kept();
        let own = kept.values().filter(|kept| !kept.shared);
        own.map(|kept| (kept.token.name.clone(), value(kept.line()))).collect()
    }

    /// Makes the tokens of this home those of the fleet, which are `all` as of a revision of etcd: others of it end, and who was in by them is out (R6). A token of
    /// this home alone stays, unless the fleet has one of its name, and so does one that is younger than that revision. Tells the names of those that changed.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub(crate) fn follow(&self, all: &[(String, Vec<u8>)], revision: i64) -> Result<Vec<String>, TokenError> {
        let read = all.iter().filter_map(|(name, value)| {
            let line: Line = serde_json::from_slice(value).ok()?;
            (line.token.name == *name).then(|| (name.clone(), line))
        });
        let wanted: BTreeMap<String, Line> = read.collect();
        let mut kept = self.kept();
        let gone: Vec<String> = kept
            .values()
            .filter(|kept| kept.shared && kept.revision <= revision && !wanted.contains_key(&kept.token.name))
            .map(|kept| kept.token.name.clone())
            .collect();
        let mut changed = Vec::new();
        for name in gone {
            self.write(
                kept.iter().filter(|(other, _)| **other != name).map(|(_, kept)| kept.line()).collect(),
            )?;
            kept.remove(&name);
            changed.push(name);
        }
        for (name, line) in wanted {
            let same = kept.get(&name).is_some_and(|kept: &Kept| {
                kept.shared && *kept.token == line.token && kept.verifier.to_string() == line.verifier
            });
            let is_younger = kept.get(&name).is_some_and(|kept| kept.revision > revision);
            if !same && !is_younger {
                // The same secret has the same hash here, if it is known.
                let hash = kept.get(&name).filter(|kept| {
                    kept.token.id == line.token.id && kept.verifier.to_string() == line.verifier
                });
                let hash = hash.and_then(|kept| kept.line().hash);
                self.keep(&mut kept, Line { hash, shared: true, ..line })?;
                changed.push(name);
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Check;
    use duramen_base::clock;

    fn wanted(name: &str) -> CreateToken {
        CreateToken { name: name.to_owned(), ..CreateToken::default() }
    }

    /// FL-13: a token that was made on one node lets its holder in on another, until it is ended anywhere.
    #[tokio::test]
    async fn a_token_of_the_fleet_is_good_on_each_node_until_it_is_ended() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (Tokens::open(one.path()).unwrap(), Tokens::open(two.path()).unwrap());
        let draft = here.drafted(wanted("ci")).unwrap();
        let all = vec![("ci".to_owned(), draft.value())];
        assert!(!String::from_utf8_lossy(&draft.value()).contains(&draft.made.secret), "R7");
        here.adopt(&draft, 7).unwrap();
        let made = draft.made();
        assert_eq!(here.follow(&[], 6).unwrap(), [""; 0], "what was seen is older");
        assert_eq!(here.follow(&all, 7).unwrap(), [""; 0], "it has it already");
        assert_eq!(there.follow(&all, 9).unwrap(), ["ci"]);
        let Check::Slow(verifier, Some(grant)) = there.check("ci", &made.secret) else {
            panic!("its hash is not known")
        };
        assert!(verifier.is_of(&made.secret) && grant.token.id == made.token.id);
        there.learn(&grant, &made.secret);
        assert!(matches!(there.check("ci", &made.secret), Check::Right(_)));
        assert_eq!(there.follow(&all, 9).unwrap(), [""; 0], "what was learned stays");
        // It outlives a restart without etcd.
        let there = Tokens::open(two.path()).unwrap();
        let mut grant = there.alive("ci").unwrap();
        // R6.
        assert_eq!(there.follow(&[], 9).unwrap(), ["ci"]);
        tokio::time::timeout(std::time::Duration::from_secs(5), grant.ends())
            .await
            .expect("who was in is out");
        assert!(there.alive("ci").is_err() && there.with_id(&made.token.id).is_none());
        assert!(clock::unix_ms() > 0);
    }

    /// A token that a home had before stays there, unless the fleet has one of its name.
    #[test]
    fn tokens_of_a_home_alone_stay_until_the_fleet_has_their_name() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (Tokens::open(one.path()).unwrap(), Tokens::open(two.path()).unwrap());
        let own = there.create(wanted("ci")).unwrap();
        there.create(wanted("other")).unwrap();
        assert_eq!(there.follow(&[], 9).unwrap(), [""; 0]);
        assert_eq!(there.own().len(), 2);
        let draft = here.drafted(wanted("ci")).unwrap();
        let hostile = ("other".to_owned(), draft.value());
        let all = vec![("ci".to_owned(), draft.value()), hostile, ("bad".to_owned(), b"{".to_vec())];
        assert_eq!(there.follow(&all, 9).unwrap(), ["ci"], "a value under another name is none");
        assert!(there.with_id(&own.token.id).is_none());
        assert_eq!(there.own().len(), 1);
    }
}
