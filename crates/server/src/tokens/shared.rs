//! Tokens that are the fleet's: what is kept of them here is a copy, by which holders are let in while etcd is away.

use super::{Apart, Kept, Line, Revoked, TokenError, Tokens};
use duramen_api::token::{CreateToken, NewToken, Token};
use duramen_base::clock;
use duramen_postgres::scram::Verifier;
use std::collections::{BTreeMap, HashSet};

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

pub(super) fn value(line: Line) -> Vec<u8> {
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

    /// Makes the tokens of this home those of the fleet, which are `all` as of a revision of etcd: others of it are suspended, and who was in by
    /// them is out (R6). They are kept, because an etcd that was put in the place of another one is no reason to lose them. A token of this
    /// home alone stays, and clashes with one of the fleet that has its name; and so does one that is younger than that revision.
    ///
    /// # Errors
    /// When that cannot be written down: then nothing has changed.
    pub(crate) fn follow(&self, all: &[(String, Vec<u8>)], revision: i64) -> Result<Followed, TokenError> {
        let mut kept = self.kept();
        let mut apart = self.apart();
        if revision < apart.seen {
            // etcd was put back to an earlier day: what is younger than that is not known by its numbers.
            kept.values_mut().for_each(|kept| kept.revision = 0);
        }
        apart.seen = revision;
        // What cannot be read, whoever wrote it, holds up no other one.
        let read = all.iter().filter_map(|(name, value)| {
            let line: Line = serde_json::from_slice(value).ok()?;
            let verifier: Verifier = line.verifier.parse().ok()?;
            let is_revoked = apart.revoked.iter().any(|revoked| revoked.id == line.token.id);
            (line.token.name == *name && !is_revoked).then(|| (name.clone(), (line, verifier)))
        });
        let wanted: BTreeMap<String, (Line, Verifier)> = read.collect();
        let mut followed = Followed::default();
        let gone: Vec<String> = kept
            .values()
            .filter(|kept| kept.shared && kept.revision <= revision && !wanted.contains_key(&kept.token.name))
            .map(|kept| kept.token.name.clone())
            .collect();
        let mut count = kept.len() - gone.len();
        let mut new: BTreeMap<String, (Line, Verifier)> = BTreeMap::new();
        let mut ids: HashSet<String> = HashSet::new();
        for (name, (line, verifier)) in wanted {
            ids.insert(line.token.id.clone());
            match kept.get(&name) {
                Some(own) if !own.shared && own.token.id != line.token.id => {
                    followed.clashes.push(name);
                    continue;
                }
                Some(own) if own.revision > revision => continue,
                Some(own)
                    if own.shared
                        && *own.token == line.token
                        && own.verifier.to_string() == line.verifier =>
                {
                    continue;
                }
                Some(_) => {}
                None if count >= super::TOKENS_MAX => {
                    followed.left += 1;
                    continue;
                }
                None => count += 1,
            }
            // The same secret has the same hash here, if it is known.
            let known = kept.get(&name).map(Kept::line);
            let known = known.into_iter().chain(apart.suspended.iter().cloned());
            let mut same =
                known.filter(|known| known.token.id == line.token.id && known.verifier == line.verifier);
            let hash = same.next().and_then(|known| known.hash);
            new.insert(name, (Line { hash, shared: true, ..line }, verifier));
        }
        let now = clock::utc_now();
        let mut suspended = apart.suspended.clone();
        suspended.retain(|line| !ids.contains(&line.token.id) && !line.token.is_over(now));
        suspended.extend(gone.iter().filter_map(|name| kept.get(name)).map(Kept::line));
        let too_many = suspended.len().saturating_sub(super::TOKENS_MAX);
        suspended.drain(..too_many);
        followed.suspended = gone.clone();
        followed.changed = gone.iter().chain(new.keys()).cloned().collect();
        if followed.changed.is_empty() {
            return Ok(followed);
        }
        let stay = kept.iter().filter(|(name, _)| !gone.contains(name) && !new.contains_key(*name));
        let lines = stay.map(|(_, kept)| kept.line()).chain(new.values().map(|(line, _)| line.clone()));
        let changed = Apart { suspended, ..apart.clone() };
        self.write_with(lines.collect(), &changed)?;
        *apart = changed;
        gone.iter().for_each(|name| drop(kept.remove(name)));
        for (name, (line, verifier)) in new {
            let hash = line.hash.as_deref().and_then(|hash| blake3::Hash::from_hex(hash).ok());
            kept.insert(name, Kept { shared: true, ..Kept::new(line.token, verifier, hash) });
        }
        Ok(followed)
    }

    /// Ends a token in this home, and remembers that the fleet is to be told, which [`Tokens::told`] ends.
    ///
    /// # Errors
    /// When there is none of that name, or the change cannot be written down.
    pub(crate) fn revoke_in_fleet(&self, name: &str) -> Result<Token, TokenError> {
        self.end(name, true)
    }

    /// Tokens that the fleet had, and has no more: id and name.
    pub(crate) fn suspended(&self) -> Vec<(String, String)> {
        let apart = self.apart();
        apart.suspended.iter().map(|line| (line.token.id.clone(), line.token.name.clone())).collect()
    }

    /// Tokens that were revoked here, which the fleet is to be told.
    pub(crate) fn to_tell(&self) -> Vec<Revoked> {
        self.apart().revoked.clone()
    }

    /// The fleet does not have a token any more that was revoked here.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub(crate) fn told(&self, id: &str) -> Result<(), TokenError> {
        let kept = self.kept();
        let mut apart = self.apart();
        let mut changed = apart.clone();
        changed.revoked.retain(|revoked| revoked.id != id);
        changed.suspended.retain(|line| line.token.id != id);
        self.write_with(kept.values().map(Kept::line).collect(), &changed)?;
        *apart = changed;
        Ok(())
    }
}

/// What following the fleet's tokens did. Names of tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// Those that changed.
    pub(crate) changed: Vec<String>,
    /// Those of them that the fleet has no more.
    pub(crate) suspended: Vec<String>,
    /// Tokens of this home alone whose names the fleet has for other ones.
    pub(crate) clashes: Vec<String>,
    /// How many there was no room for.
    pub(crate) left: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Check;

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
        assert_eq!(here.follow(&[], 6).unwrap().changed, [""; 0], "what was seen is older");
        assert_eq!(here.follow(&all, 7).unwrap().changed, [""; 0], "it has it already");
        assert_eq!(there.follow(&all, 9).unwrap().changed, ["ci"]);
        let Check::Slow(verifier, Some(grant)) = there.check("ci", &made.secret) else {
            panic!("its hash is not known")
        };
        assert!(verifier.is_of(&made.secret) && grant.token.id == made.token.id);
        there.learn(&grant, &made.secret);
        assert!(matches!(there.check("ci", &made.secret), Check::Right(_)));
        assert_eq!(there.follow(&all, 9).unwrap().changed, [""; 0], "what was learned stays");
        // It outlives a restart without etcd.
        let there = Tokens::open(two.path()).unwrap();
        let mut grant = there.alive("ci").unwrap();
        // R6.
        assert_eq!(there.follow(&[], 9).unwrap().changed, ["ci"]);
        tokio::time::timeout(std::time::Duration::from_secs(5), grant.ends())
            .await
            .expect("who was in is out");
        assert!(there.alive("ci").is_err() && there.with_id(&made.token.id, &made.token.name).is_none());
    }

    /// FL-13: a home whose tokens have names of the fleet's keeps its own, and says so.
    #[test]
    fn tokens_of_a_home_alone_stay_and_clash_with_those_of_the_fleet() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (Tokens::open(one.path()).unwrap(), Tokens::open(two.path()).unwrap());
        let own = there.create(wanted("ci")).unwrap();
        there.create(wanted("other")).unwrap();
        assert_eq!(there.follow(&[], 9).unwrap(), Followed::default());
        assert_eq!(there.own().len(), 2);
        let draft = here.drafted(wanted("ci")).unwrap();
        let hostile = ("other".to_owned(), draft.value());
        let all = vec![("ci".to_owned(), draft.value()), hostile, ("bad".to_owned(), b"{".to_vec())];
        let followed = there.follow(&all, 9).unwrap();
        assert_eq!(followed.clashes, ["ci"], "a value under another name is none");
        assert_eq!(followed.changed, [""; 0]);
        assert!(matches!(there.check("ci", &own.secret), Check::Right(_)), "nothing of it is lost");
        // What the refusal says to do.
        there.revoke_in_fleet("ci").unwrap();
        assert_eq!(there.follow(&all, 9).unwrap().changed, ["ci"]);
        assert!(there.with_id(&own.token.id, &own.token.name).is_none());
        assert_eq!(there.own().len(), 1);
    }

    /// FL-13: one value that nobody can read holds up no other one.
    #[test]
    fn a_token_with_a_bad_verifier_holds_up_no_others() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (Tokens::open(one.path()).unwrap(), Tokens::open(two.path()).unwrap());
        let good = here.drafted(wanted("z")).unwrap();
        let bad = here.drafted(wanted("a")).unwrap();
        let bad = Line { verifier: "SCRAM-SHA-256$0:x".to_owned(), ..bad.line };
        let all = vec![("a".to_owned(), value(bad)), ("z".to_owned(), good.value())];
        assert_eq!(there.follow(&all, 9).unwrap().changed, ["z"]);
        let rotated = Draft { line: here.draft(good.line.token.clone(), true).0, made: good.made() };
        let all = vec![all[0].clone(), ("z".to_owned(), rotated.value())];
        assert_eq!(there.follow(&all, 10).unwrap().changed, ["z"], "the old secret is good no more");
    }

    /// FL-3, FL-13: an etcd that is empty, or another one, suspends tokens; the same one brings them back as they were.
    #[test]
    fn an_empty_etcd_suspends_tokens_and_erases_none() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        let draft = tokens.drafted(wanted("ci")).unwrap();
        let all = vec![("ci".to_owned(), draft.value())];
        tokens.adopt(&draft, 7).unwrap();
        let made = draft.made();
        assert_eq!(tokens.follow(&all, 7).unwrap(), Followed::default());
        assert_eq!(tokens.follow(&[], 8).unwrap().suspended, ["ci"]);
        assert!(tokens.alive("ci").is_err());
        let tokens = Tokens::open(dir.path()).unwrap();
        assert!(tokens.alive("ci").is_err(), "not after a restart, either");
        assert_eq!(tokens.apart().suspended.len(), 1);
        assert_eq!(tokens.follow(&all, 3).unwrap().changed, ["ci"]);
        assert!(matches!(tokens.check("ci", &made.secret), Check::Right(_)), "with its hash");
        assert_eq!(tokens.apart().suspended.len(), 0);
    }

    /// FL-13: an etcd that was put back to an earlier day has lower revisions.
    #[test]
    fn revisions_that_go_back_keep_no_token_alive() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        let draft = tokens.drafted(wanted("ci")).unwrap();
        tokens.adopt(&draft, 1000).unwrap();
        tokens.follow(&[("ci".to_owned(), draft.value())], 1000).unwrap();
        assert_eq!(tokens.follow(&[], 10).unwrap().suspended, ["ci"]);
    }

    /// FL-13: a suspended token is brought back with its secret, on this home alone or in the fleet, and one that was revoked is not.
    #[test]
    fn a_suspended_token_is_brought_back_by_hand() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        let draft = tokens.drafted(wanted("ci")).unwrap();
        tokens.adopt(&draft, 7).unwrap();
        let made = draft.made();
        assert!(matches!(tokens.restore("ci", None), Err(TokenError::Exists(_))), "it is not suspended");
        assert_eq!(tokens.follow(&[], 8).unwrap().suspended, ["ci"]);
        let refused = tokens.restore("other", None).unwrap_err().to_string();
        assert!(refused.contains("no suspended token") && refused.contains("ci"), "{refused}");
        // Outside the fleet: it is this home's own, also after a restart.
        assert_eq!(tokens.restore("ci", None).unwrap().id, made.token.id);
        let tokens = Tokens::open(dir.path()).unwrap();
        assert!(matches!(tokens.check("ci", &made.secret), Check::Right(_)), "with its hash");
        let own = tokens.own();
        assert_eq!(own.len(), 1, "and is offered to the fleet as its others are");
        // In the fleet: as of the revision at which it has it again.
        let tokens = {
            tokens.follow(&own, 20).unwrap();
            assert_eq!(tokens.follow(&[], 21).unwrap().suspended, ["ci"]);
            tokens
        };
        let (token, value) = tokens.to_restore("ci").unwrap();
        assert_eq!(token.id, made.token.id);
        assert_eq!(tokens.restore("ci", Some(30)).unwrap().id, made.token.id);
        assert_eq!(tokens.follow(&[], 29).unwrap(), Followed::default(), "what was seen is older");
        assert_eq!(tokens.follow(&[("ci".to_owned(), value)], 30).unwrap(), Followed::default());
        assert!(tokens.own().is_empty());
        // R6.
        assert_eq!(tokens.follow(&[], 31).unwrap().suspended, ["ci"]);
        tokens.apart().revoked.push(Revoked { id: made.token.id.clone(), name: "ci".to_owned() });
        assert!(
            matches!(tokens.restore("ci", None), Err(TokenError::NotSuspended { known, .. }) if known.is_empty())
        );
    }

    /// R6: what was revoked without the fleet stays revoked, and a secret is not rotated without it.
    #[test]
    fn a_revocation_without_the_fleet_is_not_undone_by_it() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        let draft = tokens.drafted(wanted("ci")).unwrap();
        let all = vec![("ci".to_owned(), draft.value())];
        tokens.follow(&all, 7).unwrap();
        assert!(matches!(tokens.rotate("ci"), Err(TokenError::OfFleet(_))));
        let token = tokens.revoke("ci").unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        assert_eq!(tokens.follow(&all, 8).unwrap(), Followed::default());
        assert!(tokens.alive("ci").is_err());
        assert_eq!(tokens.to_tell(), [Revoked { id: token.id.clone(), name: "ci".to_owned() }]);
        tokens.told(&token.id).unwrap();
        assert_eq!(Tokens::open(dir.path()).unwrap().to_tell(), []);
    }
}
