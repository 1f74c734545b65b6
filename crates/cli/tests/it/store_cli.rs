//! The store's commands, through the real program: what they print, what they refuse, and with which exit status.

mod blobs;
mod branches;
mod documentation;
mod documents;
mod events;
mod graphs;
mod history;
mod indexes;
mod packs;
mod pairs;
mod place;
mod shell;
mod shell_pipe;
mod shell_terminal;
mod vectors;
