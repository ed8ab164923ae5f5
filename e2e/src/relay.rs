//! A place between an operator and the API server at which the operator can be made to die: just
//! before its n-th write gets through, or just after it did and before the operator hears of it. Or
//! the cluster changes just before a write gets through.
//!
//! Decides what counts as a write (all but the election's) and that nothing gets through for a dead
//! operator; must not know what the writes mean.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use anyhow::{Context, Result};

use crate::api::{Api, Head, read_head};

/// Where in the course of a write the operator dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The API server never sees the write.
    BeforeApplied,
    /// The API server did it; the operator never hears so.
    AfterApplied,
}

/// Kills the operator, at once and for good.
type Kill = Box<dyn FnOnce() + Send>;
/// Does something in the cluster.
type Meddling = Box<dyn FnOnce() + Send>;

/// The place. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Relay {
    /// Where the operator connects to, without TLS.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    api: Arc<Api>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The writes that came by, as method and path.
    writes: Vec<String>,
    trap: Option<(usize, Moment, Kill)>,
    meddling: Option<(String, Meddling)>,
    sprung: bool,
    closed: bool,
    streams: Vec<TcpStream>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("writes", &self.state().writes)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nobody panics with this lock held")
    }
}

/// What becomes of a request.
enum Fate {
    Pass,
    PassAfter(Meddling),
    PassThenDie(Kill),
    Die(Kill),
    Lost,
}

impl Relay {
    /// Opens the place. Without a trap everything gets through.
    pub fn open(api: Arc<Api>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            api,
            state: Mutex::default(),
        });
        let place = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let place = place.clone();
                if place.state().closed {
                    return;
                }
                // A connection that breaks is the operator's to notice.
                thread::spawn(move || drop(place.serve(stream)));
            }
        });
        Ok(Self { address, shared })
    }

    /// Kills the operator at its n-th write from the very first one on, counted from 1.
    pub fn trap(&self, nth: usize, moment: Moment, kill: impl FnOnce() + Send + 'static) {
        self.shared.state().trap = Some((nth, moment, Box::new(kill)));
    }

    /// Does something just before the first write that begins with these words gets through: what
    /// the operator decided by is no longer so.
    pub fn meddle_before(&self, write: &str, meddling: impl FnOnce() + Send + 'static) {
        self.shared.state().meddling = Some((write.to_owned(), Box::new(meddling)));
    }

    /// The operator was killed.
    pub fn sprung(&self) -> bool {
        self.shared.state().sprung
    }

    /// The writes that came by so far, the fatal one included.
    pub fn writes(&self) -> Vec<String> {
        self.shared.state().writes.clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        for stream in state.streams.drain(..) {
            // It may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
        drop(state);
        // Wakes the listener, so that it sees the place is closed.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    /// One request; its answer ends with the connection, as a watch does anyway.
    fn serve(&self, mut client: TcpStream) -> Result<()> {
        let mut reader = BufReader::new(client.try_clone()?);
        let Some(head) = read_head(&mut reader)? else {
            return Ok(());
        };
        let mut body = vec![0; head.length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        match self.judge(&head) {
            Fate::Pass => self.pass(&head, &body, &mut client)?,
            Fate::PassAfter(meddling) => {
                meddling();
                self.pass(&head, &body, &mut client)?;
            }
            Fate::PassThenDie(kill) => {
                let passed = self.pass(&head, &body, &mut std::io::sink());
                self.die(kill);
                passed?;
            }
            Fate::Die(kill) => self.die(kill),
            Fate::Lost => {}
        }
        client.shutdown(Shutdown::Both)?;
        Ok(())
    }

    fn judge(&self, head: &Head) -> Fate {
        let mut state = self.state();
        if state.sprung || state.closed {
            return Fate::Lost;
        }
        let Some(write) = write_of(&head.first_line) else {
            return Fate::Pass;
        };
        if let Some((_, meddling)) = state
            .meddling
            .take_if(|(words, _)| write.starts_with(&*words))
        {
            state.writes.push(write);
            return Fate::PassAfter(meddling);
        }
        state.writes.push(write);
        let count = state.writes.len();
        match state.trap.take() {
            Some((nth, Moment::BeforeApplied, kill)) if nth == count => {
                state.sprung = true;
                Fate::Die(kill)
            }
            Some((nth, Moment::AfterApplied, kill)) if nth == count => Fate::PassThenDie(kill),
            trap => {
                state.trap = trap;
                Fate::Pass
            }
        }
    }

    fn die(&self, kill: Kill) {
        kill();
        self.state().sprung = true;
    }

    fn pass(&self, head: &Head, body: &[u8], client: &mut impl Write) -> Result<()> {
        let mut server = self.api.connect_as_nobody()?;
        self.state().streams.push(server.sock.try_clone()?);
        let fields = head.fields.join("\r\n");
        let text = format!(
            "{}\r\n{fields}\r\nConnection: close\r\n\r\n",
            head.first_line
        );
        server.write_all(text.as_bytes())?;
        server.write_all(body)?;
        let mut buffer = [0; 16 * 1024];
        loop {
            // The API server ends a connection without the closing words of TLS.
            let length = match server.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                other => other?,
            };
            client.write_all(&buffer[..length])?;
            client.flush()?;
        }
    }
}

/// Method and path of a request that changes something other than the election's lease.
fn write_of(first_line: &str) -> Option<String> {
    let (method, rest) = first_line.split_once(' ')?;
    let path = rest.split([' ', '?']).next()?;
    let writes = ["POST", "PUT", "PATCH", "DELETE"].contains(&method);
    (writes && !path.contains("/leases")).then(|| format!("{method} {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_what_changes_something_but_the_lease() {
        let pods = "/api/v1/namespaces/a/pods";
        let line = format!("POST {pods}?fieldManager=x HTTP/1.1");
        assert_eq!(write_of(&line), Some(format!("POST {pods}")));
        assert_eq!(write_of(&format!("GET {pods} HTTP/1.1")), None);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/mpi-operator";
        assert_eq!(write_of(&format!("PUT {lease} HTTP/1.1")), None);
    }
}
