//! The page of the browser console: the files that `make web` leaves in `web/dist`, as they are in the program.
//!
//! It knows nothing of HTTP: what is sent with a file, and to whom, is the door's. Without `web/dist` there is one page, which says
//! how to build it (W10 of `docs/design/console.md`).
#![deny(rustdoc::broken_intra_doc_links)]

mod site;

pub use site::{File, Site};

use rust_embed::Embed;
use std::sync::LazyLock;

/// What `make web` made before this was built.
#[derive(Embed)]
#[folder = "../../web/dist/"]
#[allow_missing = true]
struct Dist;

/// The page that this program has.
///
/// # Examples
/// ```
/// let document = duramen_console::embedded().find("/").expect("there is always a page");
/// assert_eq!(document.kind(), "text/html; charset=utf-8");
/// ```
#[must_use]
pub fn embedded() -> &'static Site {
    static EMBEDDED: LazyLock<Site> = LazyLock::new(|| {
        let files = Dist::iter().filter_map(|path| Some((path.to_string(), Dist::get(&path)?)));
        Site::new(files.map(|(path, file)| (path, file.data, file.metadata.sha256_hash())))
    });
    &EMBEDDED
}
