//! A name server of a test: it answers that no name exists for a while, and then what the cluster's
//! own server says. It remembers what was asked. Decides how a pod is made to ask it; must not know
//! what a test makes of the questions.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::jobs::MpiJob;

/// The cluster's own server.
const CLUSTER_DNS: &str = "10.96.0.10:53";
/// A neighbour on the cluster's network, to find our own address there.
const NEIGHBOUR: &str = "10.89.0.1:6443";
/// How long the cluster's server may take; a pod asks again after five seconds.
const ANSWER_MAX: Duration = Duration::from_secs(2);
const STOP_LOOK_INTERVAL: Duration = Duration::from_millis(100);
const HEADER_BYTES: usize = 12;
/// Answer, recursion available, no such name.
const NO_SUCH_NAME: [u8; 2] = [0x81, 0x83];

/// This machine's address as the cluster's pods and nodes see it.
pub fn own_address() -> Result<IpAddr> {
    let probe = UdpSocket::bind("0.0.0.0:0").context("opening a socket")?;
    probe
        .connect(NEIGHBOUR)
        .context("looking for the cluster's network")?;
    Ok(probe.local_addr().context("asking for our address")?.ip())
}

/// A server that ends with this value.
#[derive(Debug)]
pub struct NameServer {
    /// Where it listens.
    pub address: IpAddr,
    asked: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Knows no name for so long.
    pub fn start(ignorant_for: Duration) -> Result<Self> {
        let address = own_address()?;
        let socket = UdpSocket::bind((address, 53))
            .with_context(|| format!("listening on {address}, port 53"))?;
        socket
            .set_read_timeout(Some(STOP_LOOK_INTERVAL))
            .context("setting a time limit")?;
        let (asked, stop) = (Arc::default(), Arc::<AtomicBool>::default());
        let serving = Serving {
            socket,
            knows_from: Instant::now() + ignorant_for,
            asked: Arc::clone(&asked),
        };
        let until = Arc::clone(&stop);
        let thread = thread::spawn(move || serving.run(&until));
        Ok(Self {
            address,
            asked,
            stop,
            thread: Some(thread),
        })
    }

    /// The names that were asked for so far, in order.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing more to tell.
            drop(thread.join());
        }
    }
}

struct Serving {
    socket: UdpSocket,
    knows_from: Instant,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Serving {
    fn run(self, stop: &AtomicBool) {
        let mut buffer = [0; 1500];
        while !stop.load(Ordering::Relaxed) {
            // Nothing came within the time limit.
            let Ok((length, peer)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            let question = &buffer[..length];
            let Some(name) = name_in(question) else {
                continue;
            };
            self.asked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(name);
            self.answer(question.to_vec(), peer);
        }
    }

    fn answer(&self, question: Vec<u8>, peer: SocketAddr) {
        if Instant::now() < self.knows_from {
            // A lost answer is one that the pod asks for again.
            let _ = self.socket.send_to(&refusal(question), peer);
            return;
        }
        let Ok(socket) = self.socket.try_clone() else {
            return;
        };
        // Not one after the other: a name that the cluster does not know takes its time.
        thread::spawn(move || {
            if let Ok(answer) = ask_cluster(&question) {
                let _ = socket.send_to(&answer, peer);
            }
        });
    }
}

fn refusal(mut question: Vec<u8>) -> Vec<u8> {
    question[2..4].copy_from_slice(&NO_SUCH_NAME);
    question
}

fn ask_cluster(question: &[u8]) -> Result<Vec<u8>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.send_to(question, CLUSTER_DNS)?;
    let mut buffer = [0; 1500];
    let (length, _) = socket.recv_from(&mut buffer)?;
    Ok(buffer[..length].to_vec())
}

/// The first name that a message asks for.
fn name_in(message: &[u8]) -> Option<String> {
    let mut rest = message.get(HEADER_BYTES..)?;
    let mut labels = Vec::new();
    loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            return Some(labels.join("."));
        }
        let label = after.get(..length.into())?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        rest = &after[length.into()..];
    }
}

/// The job, whose pods ask this server and no other.
pub fn asking(mut job: MpiJob, server: &str, namespace: &str) -> MpiJob {
    let config: Value = json!({
        "nameservers": [server],
        "searches": [format!("{namespace}.svc.cluster.local"), "svc.cluster.local", "cluster.local"],
        "options": [{"name": "ndots", "value": "5"}],
    });
    for role in ["Launcher", "Worker"] {
        let spec = |field: &str| format!("/spec/mpiReplicaSpecs/{role}/template/spec/{field}");
        job = job
            .with(&spec("dnsPolicy"), "None")
            .with(&spec("dnsConfig"), config.clone());
    }
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_and_denied() {
        let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(b"\x0bpi-worker-0\x02PI\0\0\x01\0\x01");
        assert_eq!(name_in(&message), Some("pi-worker-0.pi".to_owned()));
        assert_eq!(name_in(&message[..16]), None);
        let answer = refusal(message.clone());
        assert_eq!(answer[3] & 0x0f, 3, "no such name");
        assert_eq!(answer[..2], message[..2], "the same question");
    }
}
