//! An answer that goes on: the lines of a watch, one at a time. Decides how chunks become lines; must
//! not know what they say.

use std::io::BufReader;
use std::net::{Shutdown, TcpStream};

use anyhow::Result;

use super::{Connection, read_chunk};

/// The lines of an answer, as they come.
#[derive(Debug)]
pub struct Lines {
    from: BufReader<Connection>,
    /// What came and was not asked for yet, from `start` on.
    text: Vec<u8>,
    start: usize,
}

/// Ends the lines from another thread.
#[derive(Debug)]
pub struct Hangup(TcpStream);

impl Hangup {
    /// The next line is an error.
    pub fn hang_up(&self) {
        // It may be over already, which is as good.
        drop(self.0.shutdown(Shutdown::Both));
    }
}

impl Lines {
    pub(super) fn of(from: BufReader<Connection>) -> Self {
        let text = Vec::new();
        Self {
            from,
            text,
            start: 0,
        }
    }

    /// A way to end this while a thread waits for the next line.
    pub fn hangup(&self) -> Result<Hangup> {
        Ok(Hangup(self.from.get_ref().sock.try_clone()?))
    }

    /// The next line; `None` at the end.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        let mut searched = self.start;
        loop {
            let found = self.text[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(length) = found {
                let line = self.start..searched + length;
                self.start = line.end + 1;
                return Ok(Some(&self.text[line]));
            }
            self.text.drain(..self.start);
            self.start = 0;
            searched = self.text.len();
            if !read_chunk(&mut self.from, &mut self.text)? {
                return Ok(None);
            }
        }
    }
}
