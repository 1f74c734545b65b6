//! What only Linux has.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

/// A number that threads sleep on until it changes.
#[derive(Debug, Default)]
pub struct Futex(AtomicU32);

impl Futex {
    /// Every sleeper: the kernel takes the count as a signed number.
    pub const ALL: u32 = i32::MAX as u32;

    /// The number.
    #[inline]
    pub fn load(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Changes the number. It wakes nobody.
    #[inline]
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps while the number is `expected`. May return earlier.
    pub fn wait(&self, expected: u32) {
        // An error means that the number has changed, or that a signal came: the caller rechecks in any case.
        futex::wait(&self.0, futex::Flags::PRIVATE, expected, None).ok();
    }

    /// Wakes about `count` of those that sleep, or all.
    pub fn wake(&self, count: u32) {
        // It fails for an address that is none only.
        futex::wake(&self.0, futex::Flags::PRIVATE, count).ok();
    }
}

#[allow(unsafe_code, reason = "no library has this system call in a safe form")]
pub(super) fn write_back(file: &File, from: u64, len: u64, finish: bool) -> io::Result<()> {
    let number = |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let how = match finish {
        false => libc::SYNC_FILE_RANGE_WRITE,
        true => {
            libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER
        }
    };
    // SAFETY: the call takes a descriptor, which `file` keeps open, and numbers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), number(from)?, number(len)?, how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(super) fn memory_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    Some((info.totalram as u64).saturating_mul(u64::from(info.mem_unit)))
}
