//! Sorting more than fits into memory: sorted runs in unnamed temporary files, merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::graph::error::{io_error, GraphError};

/// Sorts byte strings. What is equal comes in the order in which it was given.
pub(crate) struct Spill {
    folder: PathBuf,
    budget: usize,
    bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
    runs: Vec<File>,
}

impl Spill {
    /// Sorts with so many bytes of memory; runs go to files in `folder` that have no name.
    pub(crate) fn new(folder: &Path, budget: usize) -> Self {
        let budget = budget.clamp(1 << 16, 1 << 31);
        Spill { folder: folder.to_owned(), budget, bytes: Vec::new(), places: Vec::new(), runs: Vec::new() }
    }

    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> Result<(), GraphError> {
        let begin = self.bytes.len() as u32;
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.places.push((begin, self.bytes.len() as u32));
        if self.bytes.len() + self.places.len() * 8 > self.budget {
            self.write_run()?;
        }
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_by(|a, b| bytes[a.0 as usize..a.1 as usize].cmp(&bytes[b.0 as usize..b.1 as usize]));
    }

    fn write_run(&mut self) -> Result<(), GraphError> {
        self.sort();
        let write = || -> std::io::Result<File> {
            let mut out = BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(&self.folder)?);
            for (begin, end) in &self.places {
                out.write_all(&(end - begin).to_le_bytes())?;
                out.write_all(&self.bytes[*begin as usize..*end as usize])?;
            }
            let mut file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        let run = write().map_err(io_error("write a sorted run in", &self.folder))?;
        self.runs.push(run);
        self.bytes.clear();
        self.places.clear();
        Ok(())
    }

    /// Visits everything in order.
    pub(crate) fn finish(
        mut self,
        mut visit: impl FnMut(&[u8]) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        if self.runs.is_empty() {
            self.sort();
            return self
                .places
                .iter()
                .try_for_each(|(begin, end)| visit(&self.bytes[*begin as usize..*end as usize]));
        }
        if !self.places.is_empty() {
            self.write_run()?;
        }
        self.bytes = Vec::new();
        let failed = |folder: &Path| io_error("read a sorted run in", folder);
        // Together they take about what sorting took.
        let piece = (self.budget / self.runs.len().max(1)).clamp(4 << 10, 1 << 18);
        let mut runs: Vec<BufReader<File>> =
            self.runs.drain(..).map(|file| BufReader::with_capacity(piece, file)).collect();
        let mut heap = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            if let Some(first) = read_one(run).map_err(failed(&self.folder))? {
                heap.push(Reverse((first, number)));
            }
        }
        while let Some(Reverse((bytes, number))) = heap.pop() {
            visit(&bytes)?;
            if let Some(next) = read_one(&mut runs[number]).map_err(failed(&self.folder))? {
                heap.push(Reverse((next, number)));
            }
        }
        Ok(())
    }
}

fn read_one(run: &mut BufReader<File>) -> std::io::Result<Option<Vec<u8>>> {
    let mut len = [0; 4];
    match run.read_exact(&mut len) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
    run.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

impl Spill {
    /// Adds byte strings that are sorted already, as a run of their own.
    pub(crate) fn push_run<const N: usize>(
        &mut self,
        sorted: impl Iterator<Item = [u8; N]>,
    ) -> Result<(), GraphError> {
        let write = || -> std::io::Result<File> {
            let mut out = BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(&self.folder)?);
            for each in sorted {
                out.write_all(&(N as u32).to_le_bytes())?;
                out.write_all(&each)?;
            }
            let mut file = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        let run = write().map_err(io_error("write a sorted run in", &self.folder))?;
        self.runs.push(run);
        Ok(())
    }
}
