//! A store that a shell holds open for all of its lines, and what they mean where they name nothing.

use super::{
    current,
    handle::{note, Meant, Opening},
    moment,
};
use crate::failure::Failure;
use duramen_pack::branch::BranchPack;
use duramen_store::{Follower, Options, Scope, Store, StoreError};
use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
};

/// What the lines of a shell mean where they name nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    /// The branch, or a state of it; none for the current branch of the store's folder.
    pub(crate) branch: Option<String>,
    /// The space; none for the default.
    pub(crate) space: Option<String>,
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Session {
    path: PathBuf,
    opening: Opening,
    kept: Kept,
    chosen: RefCell<Chosen>,
    /// Whether the branch is the one that the shell was started for.
    is_told: Cell<bool>,
}

#[derive(Debug)]
enum Kept {
    /// Open to write: its lock is held until the shell ends.
    Writer(Store),
    /// Read on, beside the process that writes it.
    Follower(Box<Follower>),
    /// What does not change while it is read: a pack, or what the last checkpoint holds.
    Still(Store),
}

impl Session {
    /// Opens the store as a shell was told to.
    pub(crate) fn open(path: PathBuf, opening: &Opening, meant: Meant) -> Result<Session, Failure> {
        let kept = if path.is_file() {
            Kept::Still(BranchPack::open(&path)?.store(opening.options(true))?)
        } else if opening.is_checkpoint_only() {
            Kept::Still(opening.open(&path, true)?)
        } else if meant.read_only {
            Kept::Follower(Box::new(opening.follow(&path, opening.options(true))?))
        } else {
            Kept::Writer(opening.open(&path, false)?)
        };
        let chosen = RefCell::new(Chosen { branch: meant.branch, space: meant.space });
        let opening = opening.clone();
        let session = Session { path, opening, kept, chosen, is_told: Cell::new(false) };
        let chosen = session.chosen();
        chosen.branch.iter().try_for_each(|branch| session.choose_branch(branch))?;
        session.is_told.set(chosen.branch.is_some());
        chosen.space.iter().try_for_each(|space| session.choose_space(space))?;
        Ok(session)
    }

    /// The store's folder, or the pack.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether no line can write.
    pub(crate) fn is_read_only(&self) -> bool {
        !matches!(self.kept, Kept::Writer(_))
    }

    /// Opens the store beside this, to be read on.
    pub(crate) fn follow(&self, options: Options) -> Result<Follower, Failure> {
        self.opening.follow(&self.path, options)
    }

    /// The store as it is now.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        Ok(match &self.kept {
            Kept::Writer(store) | Kept::Still(store) => store.clone(),
            Kept::Follower(follower) => follower.store()?,
        })
    }

    /// What lines mean where they name nothing.
    pub(crate) fn chosen(&self) -> Chosen {
        self.chosen.borrow().clone()
    }

    /// The branch that lines mean where they name none.
    pub(crate) fn current(&self, store: &Store) -> Result<String, Failure> {
        match self.chosen().branch {
            Some(name) => Ok(name),
            None => current::name(&self.path, store),
        }
    }

    /// Takes a branch, or a state of it, for the lines that name none.
    pub(crate) fn choose_branch(&self, name: &str) -> Result<(), Failure> {
        moment::snapshot(&self.store()?, name)?;
        self.chosen.borrow_mut().branch = Some(name.to_owned());
        self.is_told.set(false);
        Ok(())
    }

    /// Lets go of a branch that a line chose and that is gone, and says so: for somebody at a terminal, who reads it. The branch
    /// that the shell was started for is kept: then lines fail, because it is gone.
    pub(crate) fn settle(&self) -> Result<(), Failure> {
        let Some(chosen) = self.chosen().branch.filter(|_| !self.is_told.get()) else { return Ok(()) };
        let store = self.store()?;
        match store.branch(moment::split(&chosen)?.0) {
            Err(StoreError::BranchNotFound { .. }) => {
                self.forget_branch();
                let now = self.current(&store)?;
                note(format_args!("the branch {chosen:?} is gone; using {now:?}"));
                Ok(())
            }
            other => Ok(other.map(drop)?),
        }
    }

    /// Goes back to the current branch of the store's folder. Whether another one was chosen.
    pub(crate) fn forget_branch(&self) -> bool {
        self.is_told.set(false);
        self.chosen.borrow_mut().branch.take().is_some()
    }

    /// Takes a space for the lines that name none.
    pub(crate) fn choose_space(&self, name: &str) -> Result<(), Failure> {
        let store = self.store()?;
        moment::snapshot(&store, &self.current(&store)?)?.space(name)?;
        self.chosen.borrow_mut().space = Some(name.to_owned());
        Ok(())
    }

    /// Closes the store, which makes a checkpoint of what was written.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        match &self.kept {
            Kept::Writer(store) | Kept::Still(store) => Ok(store.close()?),
            Kept::Follower(_) => Ok(()),
        }
    }
}
