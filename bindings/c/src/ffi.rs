//! The functions of the header: they turn pointers into slices, and errors into numbers and texts.
//!
//! All `unsafe` of the library is here. Each function relies on what the header asks of its caller: a pointer and a length
//! mean that many bytes that can be read during the call, and a pointer to a result can be written.

use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use duramen_access::c1z::ReadOptions;

use crate::error::{Error, Status};
use crate::graph::Graph;
use crate::handles;
use crate::query::Kind;
use crate::spare;

/// Bytes that the library owns until [`duramen_bytes_free`] is called with them. Empty ones have no memory.
#[repr(C)]
#[derive(Debug)]
pub struct DuramenBytes {
    /// Where they are; null if there are none.
    pub data: *mut u8,
    /// How many they are.
    pub len: usize,
    /// For how many there is room.
    pub capacity: usize,
}

/// How many pieces of memory callers hold.
static HELD: AtomicUsize = AtomicUsize::new(0);

impl DuramenBytes {
    const EMPTY: DuramenBytes = DuramenBytes { data: std::ptr::null_mut(), len: 0, capacity: 0 };

    fn of(bytes: Vec<u8>) -> DuramenBytes {
        if bytes.capacity() == 0 {
            return DuramenBytes::EMPTY;
        }
        HELD.fetch_add(1, Ordering::Relaxed);
        let mut bytes = ManuallyDrop::new(bytes);
        DuramenBytes { data: bytes.as_mut_ptr(), len: bytes.len(), capacity: bytes.capacity() }
    }
}

/// The bytes that a caller gave.
///
/// # Safety
/// `len` bytes at `data` can be read as long as the slice is used, and are not changed meanwhile.
unsafe fn given<'a>(data: *const u8, len: usize) -> Result<&'a [u8], Error> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::Invalid(format!("there is no pointer to the {len} bytes that are given"))),
        // SAFETY: as above; more than isize::MAX bytes lie nowhere.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

/// The text that a caller gave.
///
/// # Safety
/// As [`given`].
unsafe fn given_text<'a>(data: *const u8, len: usize) -> Result<&'a str, Error> {
    // SAFETY: as of this function.
    std::str::from_utf8(unsafe { given(data, len) }?)
        .map_err(|_| Error::Invalid("a text is not UTF-8".to_owned()))
}

/// Writes a result to where the caller wants it.
///
/// # Safety
/// `to` is null, or can be written.
unsafe fn write<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: as of this function.
        unsafe { to.write(value) };
    }
}

/// The number for what became of a call; the text of an error goes to `error`.
///
/// # Safety
/// As [`write`].
unsafe fn answer(error: *mut DuramenBytes, done: Result<(), Error>) -> i32 {
    let (status, text) = match done {
        Ok(()) => (Status::Ok, DuramenBytes::EMPTY),
        // Without a place for it the text would never be freed.
        Err(failed) if error.is_null() => (failed.status(), DuramenBytes::EMPTY),
        Err(failed) => (failed.status(), DuramenBytes::of(failed.to_string().into_bytes())),
    };
    // SAFETY: as of this function.
    unsafe { write(error, text) };
    status as i32
}

/// Gives bytes to the caller, who has to have a place for them.
///
/// # Safety
/// As [`write`].
unsafe fn give(to: *mut DuramenBytes, bytes: impl FnOnce() -> Result<Vec<u8>, Error>) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::Invalid("there is no pointer to where the result goes".to_owned()));
    }
    // SAFETY: as of this function.
    unsafe { write(to, DuramenBytes::EMPTY) };
    let bytes = bytes()?;
    // SAFETY: as of this function.
    unsafe { write(to, DuramenBytes::of(bytes)) };
    Ok(())
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn duramen_version() -> u32 {
    1
}

/// How many graphs are open, and how many pieces of memory are not freed yet.
///
/// # Safety
/// Each pointer is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_live(graphs: *mut usize, bytes: *mut usize) {
    // SAFETY: as of this function.
    unsafe {
        write(graphs, handles::count());
        write(bytes, HELD.load(Ordering::Relaxed));
    }
}

/// Frees what a call gave. To free it twice is a mistake that cannot be found here.
///
/// # Safety
/// The bytes are as a call gave them, and nobody uses them any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_bytes_free(bytes: DuramenBytes) {
    if !bytes.data.is_null() {
        HELD.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: `DuramenBytes::of` took them from a vector.
        spare::keep(unsafe { Vec::from_raw_parts(bytes.data, bytes.len, bytes.capacity) });
    }
}

/// Opens the graph of a file, or an empty graph if no path is given.
///
/// # Safety
/// As the header asks: `path_len` bytes can be read, and results can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_open(
    path: *const u8,
    path_len: usize,
    max_decoded_bytes: u64,
    graph: *mut u64,
    error: *mut DuramenBytes,
) -> i32 {
    let opened = handles::guarded(|| {
        // SAFETY: as of this function.
        let path = Path::new(OsStr::from_bytes(unsafe { given(path, path_len) }?));
        let options = ReadOptions {
            decompressed_bytes_max: (max_decoded_bytes > 0).then_some(max_decoded_bytes),
            ..ReadOptions::default()
        };
        if graph.is_null() {
            return Err(Error::Invalid("there is no pointer to where the graph goes".to_owned()));
        }
        Ok(handles::add(if path_len == 0 { Graph::empty() } else { Graph::open(path, &options)? }))
    });
    // SAFETY: as of this function.
    unsafe {
        write(graph, *opened.as_ref().unwrap_or(&0));
        answer(error, opened.map(|_| ()))
    }
}

/// Closes a graph. What was not saved is gone.
///
/// # Safety
/// `error` is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_close(graph: u64, error: *mut DuramenBytes) -> i32 {
    // SAFETY: as of this function.
    unsafe { answer(error, handles::guarded(|| handles::close(graph))) }
}

/// Begins a sync; all rows that were there are gone.
///
/// # Safety
/// As the header asks: that many bytes can be read, and results can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_start(
    graph: u64,
    id: *const u8,
    id_len: usize,
    kind: *const u8,
    kind_len: usize,
    parent: *const u8,
    parent_len: usize,
    error: *mut DuramenBytes,
) -> i32 {
    let done = handles::with(graph, |graph| {
        // SAFETY: as of this function.
        let (id, kind, parent) = unsafe {
            (given_text(id, id_len)?, given_text(kind, kind_len)?, given_text(parent, parent_len)?)
        };
        graph.start(id, kind, parent)
    });
    // SAFETY: as of this function.
    unsafe { answer(error, done) }
}

/// Notes where the syncing tool stands.
///
/// # Safety
/// As the header asks: that many bytes can be read, and results can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_checkpoint(
    graph: u64,
    token: *const u8,
    token_len: usize,
    error: *mut DuramenBytes,
) -> i32 {
    let done = handles::with(graph, |graph| {
        // SAFETY: as of this function.
        let token = unsafe { given_text(token, token_len) }?;
        graph.change(|sync| token.clone_into(&mut sync.token))
    });
    // SAFETY: as of this function.
    unsafe { answer(error, done) }
}

/// Ends the sync now.
///
/// # Safety
/// `error` is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_end(graph: u64, error: *mut DuramenBytes) -> i32 {
    // SAFETY: as of this function.
    unsafe { answer(error, handles::with(graph, Graph::end)) }
}

/// Marks the sync as one that diffs can be made against.
///
/// # Safety
/// `error` is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_supports_diff(graph: u64, error: *mut DuramenBytes) -> i32 {
    let done = handles::with(graph, |graph| graph.change(|sync| sync.supports_diff = true));
    // SAFETY: as of this function.
    unsafe { answer(error, done) }
}

/// What is known of the sync.
///
/// # Safety
/// Each pointer is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_sync(graph: u64, found: *mut DuramenBytes, error: *mut DuramenBytes) -> i32 {
    // SAFETY: as of this function.
    unsafe { answer(error, give(found, || handles::with(graph, |graph| Ok(graph.describe())))) }
}

/// How many rows there are.
///
/// # Safety
/// Each pointer is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_count(
    graph: u64,
    found: *mut DuramenBytes,
    error: *mut DuramenBytes,
) -> i32 {
    // SAFETY: as of this function.
    unsafe { answer(error, give(found, || handles::with(graph, Graph::count))) }
}

/// Puts rows of a kind.
///
/// # Safety
/// As the header asks: that many bytes can be read, and results can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_put(
    graph: u64,
    kind: u32,
    rows: *const u8,
    rows_len: usize,
    error: *mut DuramenBytes,
) -> i32 {
    // SAFETY: as of this function.
    let done = handles::with(graph, |graph| graph.put(Kind::of(kind)?, unsafe { given(rows, rows_len) }?));
    // SAFETY: as of this function.
    unsafe { answer(error, done) }
}

/// Deletes rows of a kind by their names.
///
/// # Safety
/// As the header asks: that many bytes can be read, and results can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_delete(
    graph: u64,
    kind: u32,
    names: *const u8,
    names_len: usize,
    error: *mut DuramenBytes,
) -> i32 {
    // SAFETY: as of this function.
    let done =
        handles::with(graph, |graph| graph.delete(Kind::of(kind)?, unsafe { given(names, names_len) }?));
    // SAFETY: as of this function.
    unsafe { answer(error, done) }
}

/// A page of rows of a kind.
///
/// # Safety
/// As the header asks: that many bytes can be read, and results can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_list(
    graph: u64,
    kind: u32,
    question: *const u8,
    question_len: usize,
    page: *mut DuramenBytes,
    error: *mut DuramenBytes,
) -> i32 {
    let list = || {
        // SAFETY: as of this function.
        handles::with(graph, |graph| graph.list(Kind::of(kind)?, unsafe { given(question, question_len) }?))
    };
    // SAFETY: as of this function.
    unsafe { answer(error, give(page, list)) }
}

/// Writes the sync into a `.c1z` file of version 3.
///
/// # Safety
/// As the header asks: that many bytes can be read, and results can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn duramen_save(
    graph: u64,
    path: *const u8,
    path_len: usize,
    losses: *mut DuramenBytes,
    error: *mut DuramenBytes,
) -> i32 {
    let save = || {
        handles::with(graph, |graph| {
            // SAFETY: as of this function.
            let path = Path::new(OsStr::from_bytes(unsafe { given(path, path_len) }?));
            graph.save(path).map(String::into_bytes)
        })
    };
    // SAFETY: as of this function.
    unsafe { answer(error, give(losses, save)) }
}

#[cfg(test)]
#[path = "ffi/tests.rs"]
mod tests;
