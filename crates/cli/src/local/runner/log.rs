//! A container's log: lines with their time and stream, as the container runtimes of a cluster
//! write them, in files of bounded size. Decides what is kept; the live stream is not cut.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::api::LogParams;
use minicluster::kubelet::PodRef;

/// Size at which a file is put aside, and how many are kept: the kubelet's defaults.
const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;
const FILES_MAX: u32 = 5;
/// A longer line is stored in parts.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The log of one start of a container.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    size: u64,
    /// Unfinished lines of stdout and stderr.
    partial: [Vec<u8>; 2],
}

impl Log {
    /// Opens the log, whose directory is made.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            size,
            partial: Default::default(),
        })
    }

    /// Stores what a program wrote.
    pub(crate) fn write(&mut self, now: Timestamp, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let head = format!("{now:.9} {}", stream.as_str());
        let mut text = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 64);
        let partial = &mut self.partial[stream as usize];
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    line(&mut text, &head, 'F', partial, end);
                    partial.clear();
                }
                None => partial.extend_from_slice(piece),
            }
            while partial.len() >= LINE_BYTES_MAX {
                let rest = partial.split_off(LINE_BYTES_MAX);
                line(&mut text, &head, 'P', partial, b"");
                *partial = rest;
            }
        }
        self.store(&text)
    }

    /// Stores lines that never ended.
    pub(crate) fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = std::mem::take(&mut self.partial[stream as usize]);
            if !rest.is_empty() {
                let mut text = Vec::new();
                line(
                    &mut text,
                    &format!("{now:.9} {}", stream.as_str()),
                    'F',
                    &rest,
                    b"",
                );
                self.store(&text)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, text: &[u8]) -> io::Result<()> {
        if self.size > FILE_BYTES_MAX {
            for number in (1..FILES_MAX - 1).rev() {
                let _ = fs::rename(aside(&self.path, number), aside(&self.path, number + 1));
            }
            fs::rename(&self.path, aside(&self.path, 1))?;
            *self = Self {
                partial: std::mem::take(&mut self.partial),
                ..Self::open(&self.path)?
            };
        }
        self.file.write_all(text)?;
        self.size += text.len() as u64;
        Ok(())
    }
}

fn line(text: &mut Vec<u8>, head: &str, tag: char, start: &[u8], end: &[u8]) {
    text.extend_from_slice(format!("{head} {tag} ").as_bytes());
    text.extend_from_slice(start);
    text.extend_from_slice(end);
    text.push(b'\n');
}

fn aside(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Where the log of one start of a container is.
pub(crate) fn path(directory: &Path, pod: &PodRef, container: &str, attempt: u32) -> PathBuf {
    let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
    directory
        .join("logs")
        .join(name)
        .join(container)
        .join(format!("{attempt}.log"))
}

/// The file of the last start of a container, or of the one before.
pub(crate) fn last(
    directory: &Path,
    pod: &PodRef,
    container: &str,
    previous: bool,
) -> Option<PathBuf> {
    let mut attempt = 0;
    while path(directory, pod, container, attempt + 1).exists() {
        attempt += 1;
    }
    let attempt = if previous {
        attempt.checked_sub(1)?
    } else {
        attempt
    };
    Some(path(directory, pod, container, attempt)).filter(|path| path.exists())
}

/// The lines that were asked for.
pub(crate) fn select(lines: &[Line], params: &LogParams) -> Vec<u8> {
    let oldest = params.since_seconds.map(|secs| {
        Timestamp::now()
            .saturating_sub(jiff::SignedDuration::from_secs(secs))
            .map_or_else(|_| String::new(), |time| format!("{time:.9}"))
    });
    let lines: Vec<&Line> = lines
        .iter()
        .filter(|line| oldest.as_ref().is_none_or(|oldest| line.at >= *oldest))
        .collect();
    let tail = params
        .tail_lines
        .and_then(|tail| usize::try_from(tail).ok());
    let from = tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    let mut text = Vec::new();
    for line in &lines[from..] {
        if params.timestamps {
            text.extend_from_slice(line.at.as_bytes());
            text.push(b' ');
        }
        text.extend_from_slice(&line.text);
    }
    text
}

/// A stored line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) at: String,
    /// With its line end, unless it is a part of a longer one.
    pub(crate) text: Vec<u8>,
}

/// Everything that is kept of a log, oldest first.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for number in (1..FILES_MAX).rev() {
        if let Ok(bytes) = fs::read(aside(path, number)) {
            lines.extend(parse(&bytes));
        }
    }
    lines.extend(parse(&fs::read(path)?));
    Ok(lines)
}

/// Lines of a stored text; an unfinished one at the end is left for the next read.
pub(crate) fn parse(bytes: &[u8]) -> Vec<Line> {
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    bytes[..whole]
        .split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut parts = line.splitn(4, |byte| *byte == b' ');
            let at = String::from_utf8_lossy(parts.next()?).into_owned();
            let (_, tag, text) = (parts.next()?, parts.next()?, parts.next()?);
            let text = match tag {
                b"P" => text.strip_suffix(b"\n").unwrap_or(text).to_vec(),
                _ => text.to_vec(),
            };
            Some(Line { at, text })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("muster-log-{}", std::process::id()));
        directory.join(name)
    }

    #[test]
    fn what_is_written_is_read_back_in_order() {
        let path = place("order.log");
        let mut log = Log::open(&path).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        log.write(now, Stream::Stdout, b"one\ntw").unwrap();
        log.write(now, Stream::Stderr, b"err\n").unwrap();
        log.write(now, Stream::Stdout, b"o\nend").unwrap();
        log.finish(now).unwrap();
        let texts: Vec<u8> = read(&path)
            .unwrap()
            .into_iter()
            .flat_map(|line| line.text)
            .collect();
        assert_eq!(String::from_utf8(texts).unwrap(), "one\nerr\ntwo\nend\n");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_log_never_grows_without_bound_and_its_end_is_kept() {
        let path = std::env::temp_dir().join(format!("muster-big-{}/a.log", std::process::id()));
        let mut log = Log::open(&path).unwrap();
        let chunk = [b'x'; 1023].to_vec();
        for number in 0..80_000_u32 {
            let mut line = chunk.clone();
            line.extend_from_slice(format!("{number}\n").as_bytes());
            log.write(Timestamp::UNIX_EPOCH, Stream::Stdout, &line)
                .unwrap();
        }
        let directory = path.parent().unwrap();
        let size: u64 = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(
            size < u64::from(FILES_MAX) * (FILE_BYTES_MAX + 64 * 1024),
            "{size}"
        );
        let lines = read(&path).unwrap();
        assert!(lines.last().unwrap().text.ends_with(b"79999\n"));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn long_lines_are_parts_of_one() {
        let path = std::env::temp_dir().join(format!("muster-long-{}/a.log", std::process::id()));
        let mut log = Log::open(&path).unwrap();
        let mut long = vec![b'y'; 3 * LINE_BYTES_MAX + 5];
        long.push(b'\n');
        log.write(Timestamp::UNIX_EPOCH, Stream::Stdout, &long)
            .unwrap();
        let text: Vec<u8> = read(&path)
            .unwrap()
            .into_iter()
            .flat_map(|line| line.text)
            .collect();
        assert_eq!(text, long);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
