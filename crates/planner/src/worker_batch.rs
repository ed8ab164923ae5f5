//! The pods of a job's workers, as one body and what differs from pod to pod: a job of ten thousand
//! workers must not need ten thousand rendered pods at once. Decides the words that differ and puts
//! them into the body; what else a worker's pod holds is for `render`.

use contract::files::worker_key_item;
use contract::protocol::AGENT_PORT;
use serde_json::Value;

use crate::host_name;
use crate::job::{HostNames, Job, LauncherHost};

/// Workers on the host's network share its ports, also with the workers of other jobs: each job
/// begins somewhere else, below the ports that the kernel gives to connections.
const HOST_PORT_MIN: u32 = 20_000;
const HOST_PORTS: u32 = 12_000;

/// Pods of workers to create.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerBatch {
    /// Which workers.
    pub indices: Vec<u32>,
    naming: WorkerNaming,
    pieces: Vec<Piece>,
}

impl WorkerBatch {
    /// Of these workers; `render` makes the body of a pod from its words. Renders two pods, however
    /// many workers there are; none if there are no workers.
    pub(crate) fn new(
        indices: Vec<u32>,
        naming: WorkerNaming,
        render: impl Fn(&WorkerWords) -> Value,
    ) -> Option<Self> {
        let words = naming.words(*indices.first()?);
        let mark = unused_mark(&render(&words).to_string());
        let marked = render(&words.replaced_by(&mark)).to_string();
        Some(Self {
            indices,
            naming,
            pieces: pieces(&marked, &mark),
        })
    }

    /// Name of worker `index`'s pod.
    pub fn name(&self, index: u32) -> String {
        self.naming.name(index)
    }

    /// About how large the pod of any worker is, as JSON.
    pub fn body_bytes(&self) -> usize {
        let texts = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Word(_) => 64,
        });
        texts.sum()
    }

    /// The pod of worker `index`, as JSON.
    pub fn body(&self, index: u32) -> String {
        let words = self.naming.words(index);
        let mut body = String::with_capacity(self.body_bytes());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => body.push_str(text),
                Piece::Word(word) => body.push_str(&words.spelled(*word)),
            }
        }
        body
    }
}

/// How the names and ports of a job's workers follow from their indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerNaming {
    prefix: String,
    host_names: HostNames,
    /// A launcher that is a host may have rank 0 of the hosts.
    first_host: u32,
    /// Where the ports of workers on the host's network begin.
    first_port: Option<u32>,
}

impl WorkerNaming {
    pub(crate) fn of(job: &Job) -> Self {
        let on_host = job.workers.role().template["spec"]["hostNetwork"] == true;
        let hash = |hash: u32, byte: u8| hash.wrapping_mul(31).wrapping_add(byte.into());
        Self {
            prefix: format!("{}-", job.names.worker),
            host_names: job.host_names(),
            first_host: u32::from(job.launcher.host == Some(LauncherHost::Indexed)),
            first_port: on_host.then(|| job.owner.uid.bytes().fold(0, hash)),
        }
    }

    fn name(&self, index: u32) -> String {
        format!("{}{index}", self.prefix)
    }

    /// Port of a worker's agent.
    pub(crate) fn port(&self, index: u32) -> u16 {
        self.own_port(index).unwrap_or(AGENT_PORT)
    }

    /// The same, where each worker has one of its own.
    fn own_port(&self, index: u32) -> Option<u16> {
        let port = HOST_PORT_MIN + self.first_port?.wrapping_add(index) % HOST_PORTS;
        Some(u16::try_from(port).expect("the range ends below 65536"))
    }

    /// What differs in the pod of worker `index`.
    pub(crate) fn words(&self, index: u32) -> WorkerWords {
        let name = self.name(index);
        WorkerWords {
            hostname: host_name::of_pod(self.host_names, &name),
            name,
            host_index: (self.first_host + index).to_string(),
            key_item: worker_key_item(index),
            port: self.own_port(index).map(|port| OwnPort {
                text: port.to_string(),
                number: port.into(),
            }),
        }
    }
}

/// What differs between the pods of two workers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkerWords {
    pub(crate) name: String,
    /// The host name that its spec sets, where it sets one.
    pub(crate) hostname: Option<String>,
    /// Which host it is.
    pub(crate) host_index: String,
    /// Where its key is in the job's Secret.
    pub(crate) key_item: String,
    /// Port of its agent, where each worker has one of its own.
    pub(crate) port: Option<OwnPort>,
}

/// A port, in both ways in which a pod spells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnPort {
    pub(crate) text: String,
    pub(crate) number: Value,
}

impl WorkerWords {
    /// The same words, each replaced by a mark that tells where it stood.
    fn replaced_by(&self, mark: &str) -> Self {
        let marked = |word: Word| format!("{mark}{}", word.letter());
        Self {
            name: marked(Word::Name),
            hostname: self.hostname.as_ref().map(|_| marked(Word::Hostname)),
            host_index: marked(Word::HostIndex),
            key_item: marked(Word::KeyItem),
            port: self.port.as_ref().map(|_| OwnPort {
                text: marked(Word::PortText),
                number: marked(Word::PortNumber).into(),
            }),
        }
    }

    /// A word as it stands in JSON: text without its quotes, which are part of the body.
    fn spelled(&self, word: Word) -> String {
        let port = || {
            self.port
                .as_ref()
                .expect("the body has a port for every worker, or for none")
        };
        let text = match word {
            Word::Name => &self.name,
            Word::Hostname => self.hostname.as_ref().unwrap_or(&self.name),
            Word::HostIndex => &self.host_index,
            Word::KeyItem => &self.key_item,
            Word::PortText => &port().text,
            Word::PortNumber => return port().number.to_string(),
        };
        let quoted = Value::from(text.as_str()).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    }
}

/// A part of the body.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    /// The same in every pod.
    Text(String),
    /// Differs.
    Word(Word),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Name,
    Hostname,
    HostIndex,
    KeyItem,
    PortText,
    PortNumber,
}

impl Word {
    const ALL: [Self; 6] = [
        Self::Name,
        Self::Hostname,
        Self::HostIndex,
        Self::KeyItem,
        Self::PortText,
        Self::PortNumber,
    ];

    fn letter(self) -> char {
        match self {
            Self::Name => 'n',
            Self::Hostname => 'h',
            Self::HostIndex => 'i',
            Self::KeyItem => 'k',
            Self::PortText => 't',
            Self::PortNumber => 'p',
        }
    }
}

/// A mark that does not occur in the text, and that JSON spells as it is.
fn unused_mark(text: &str) -> String {
    let marks = (0_u64..).map(|number| format!("~worker-{number}~"));
    let mut unused = marks.filter(|mark| !text.contains(mark.as_str()));
    unused.next().expect("a text does not contain every number")
}

fn pieces(marked: &str, mark: &str) -> Vec<Piece> {
    let mut parts = marked.split(mark);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut pieces = Vec::new();
    for part in parts {
        let mut letters = part.chars();
        let letter = letters.next();
        let word = Word::ALL
            .into_iter()
            .find(|word| Some(word.letter()) == letter);
        let word = word.expect("a letter that names a word follows every mark");
        let mut rest = letters.as_str();
        if word == Word::PortNumber {
            // A mark is text, and what it stands for is not.
            text.pop();
            rest = &rest[1..];
        }
        pieces.extend([Piece::Text(std::mem::take(&mut text)), Piece::Word(word)]);
        rest.clone_into(&mut text);
    }
    pieces.push(Piece::Text(text));
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn naming(first_port: Option<u32>) -> WorkerNaming {
        WorkerNaming {
            prefix: "demo-worker-".to_owned(),
            host_names: HostNames::Service,
            first_host: 1,
            first_port,
        }
    }

    fn body(words: &WorkerWords) -> Value {
        json!({
            "name": words.name,
            "words": format!("--as={}:{}", words.name, words.host_index),
            "hostname": words.hostname,
            "port": words.port.as_ref().map(|port| &port.number),
            "text": words.port.as_ref().map(|port| &port.text),
            "user": "~worker-0~n and \"~worker-1~p\"",
        })
    }

    #[test]
    fn c03_a_spliced_body_is_the_rendered_one_whatever_the_user_wrote() {
        for naming in [naming(None), naming(Some(u32::MAX))] {
            let indices = vec![0, 7, 9_999, u32::MAX - 1];
            let batch = WorkerBatch::new(indices.clone(), naming.clone(), body).expect("workers");
            for index in indices {
                let spliced: Value = serde_json::from_str(&batch.body(index)).expect("it is JSON");
                assert_eq!(spliced, body(&naming.words(index)));
            }
        }
        assert_eq!(WorkerBatch::new(Vec::new(), naming(None), body), None);
    }
}
