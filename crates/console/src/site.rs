//! Files by the paths at which they are asked for.

use flate2::{write::GzEncoder, Compression};
use std::{borrow::Cow, collections::BTreeMap, fmt, io::Write, sync::OnceLock};

/// The page that stands in for one that was not built.
const MISSING: &str = include_str!("missing.html");
/// The document's name in `web/dist`.
const DOCUMENT: &str = "index.html";
/// Where Vite puts files whose names hold a hash of what is in them.
const HASHED: &str = "/assets/";
/// Files that are shorter are not worth compressing.
const SHORT: usize = 512;
/// How many bytes of a file's hash stand in its tag.
const TAG_BYTES: usize = 16;

/// The files of a page.
#[derive(Debug)]
pub struct Site {
    files: BTreeMap<String, File>,
    is_built: bool,
}

/// A file, as it is sent.
pub struct File {
    bytes: Cow<'static, [u8]>,
    kind: &'static str,
    tag: String,
    is_hashed: bool,
    /// The same bytes, compressed when they are first asked for. `None`: it is not worth it.
    zipped: OnceLock<Option<Vec<u8>>>,
}

impl Site {
    /// A site of files: each with its path below `web/dist`, what is in it, and a hash of that. Without a document it is a page that
    /// says how to build one.
    ///
    /// # Examples
    /// ```
    /// use duramen_console::Site;
    /// let site = Site::new([("index.html".to_owned(), b"<!doctype html>".as_slice().into(), [7; 32])]);
    /// assert_eq!(site.find("/").unwrap().bytes(), b"<!doctype html>");
    /// assert!(site.find("/../index.html").is_none());
    /// ```
    #[must_use]
    pub fn new(files: impl IntoIterator<Item = (String, Cow<'static, [u8]>, [u8; 32])>) -> Site {
        let files = files.into_iter().map(|(name, bytes, hash)| {
            let path = format!("/{name}");
            (path.clone(), File::new(&path, bytes, &hash))
        });
        let mut files: BTreeMap<String, File> = files.collect();
        let is_built = match files.remove(&format!("/{DOCUMENT}")) {
            Some(document) => {
                files.insert("/".to_owned(), document);
                true
            }
            None => {
                let missing = File::new(DOCUMENT, MISSING.as_bytes().into(), &[0; 32]);
                files = BTreeMap::from([("/".to_owned(), missing)]);
                false
            }
        };
        Site { files, is_built }
    }

    /// The file at a path, which is compared as it is: nothing in it is decoded or resolved.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// The paths at which there is something.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Whether this is the console, rather than the page that says how to build it.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.is_built
    }
}

impl File {
    fn new(path: &str, bytes: Cow<'static, [u8]>, hash: &[u8; 32]) -> File {
        let tag = hash[..TAG_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        File { bytes, kind: kind(path), tag, is_hashed: path.starts_with(HASHED), zipped: OnceLock::new() }
    }

    /// What is in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same as gzip, if that is shorter. It is compressed once.
    #[must_use]
    pub fn zipped(&self) -> Option<&[u8]> {
        self.zipped.get_or_init(|| zip(&self.bytes)).as_deref()
    }

    /// What it is, for the header `Content-Type`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// A word that is another one when its bytes are.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Whether its path is another one when its bytes are, so that it can be kept for good.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.is_hashed
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("kind", &self.kind)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

fn zip(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < SHORT {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail.
    encoder.write_all(bytes).ok()?;
    // Fonts and pictures are compressed already.
    encoder.finish().ok().filter(|zipped| zipped.len() < bytes.len() - bytes.len() / 10)
}

/// What a file is, by its name. A browser guesses nothing (`nosniff`), so that what is not known is not shown.
fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[path = "../tests/unit/site.rs"]
mod tests;
