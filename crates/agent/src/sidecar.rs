//! `attend`: the sidecar of a worker that ends by itself. Decides when the worker may start (the GPU
//! driver is there, data is downloaded) and when it must end (the job is over, data is uploaded), and
//! says so by two files that the worker's script waits for. Whatever becomes of it, the worker ends.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::contract;
use crate::poll::poll;
use crate::s3::{self, Stop};
use crate::signals::Signals;

/// In the directory that it shares with the worker, which is where it is started.
const SIGNALS: &str = ".openmpi-controller";
const MAY_START: &str = "SIGCONT";
const MUST_END: &str = "SIGTERM";
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// What the component's script and sidecar exit with when initialisation takes too long.
const EXIT_TIMEOUT: u8 = 124;
const EXIT_FAILED: u8 = 1;

/// What the words ask for, as the component's own sidecar took them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Order {
    namespace: String,
    master: String,
    gpus: u32,
    timeout: Duration,
    download: Option<(String, String)>,
    upload: Option<(String, String)>,
}

/// Attends until the job is over. Returns the container's exit code.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let order = Order::of(words)?;
    let signals = Signals::watch(&[SIGTERM, SIGINT])?;
    let worker = Worker::here()?;
    let ended = attend(&order, &worker, &signals);
    let (exit, why) = match ended {
        Ok(exit) => (exit, String::new()),
        Err(error) => (EXIT_FAILED, format!("{error:#}")),
    };
    if !why.is_empty() {
        eprintln!("muster-agent: {why}");
        last_words(&why);
    }
    // Last, because the worker ends with it, and may say why.
    worker.tell(MUST_END, &why).map(|()| exit)
}

fn attend(order: &Order, worker: &Worker, signals: &Signals) -> Result<u8> {
    let transfers = order.download.is_some() || order.upload.is_some();
    let store = transfers.then(s3::Store::of_environment).transpose()?;
    // What would fail at the end fails now, while nothing is lost by it.
    let addresses = [
        order.download.as_ref().map(|(from, _)| from),
        order.upload.as_ref().map(|(_, to)| to),
    ];
    for address in addresses.into_iter().flatten() {
        s3::check(address)?;
    }
    let watch = Watch { signals };
    if let Some(exit) = await_driver(order, &watch) {
        return Ok(exit);
    }
    if let (Some(store), Some((from, to))) = (&store, &order.download) {
        let began = Instant::now();
        let tally = store.download(from, Path::new(to), &|| watch.stop());
        let tally = tally.with_context(|| format!("cannot download {from} to {to}"))?;
        println!(
            "downloaded {tally} from {from} to {to} in {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    worker.tell(MAY_START, "")?;
    println!("ready; waiting for the end of {}", order.master);
    let end = watch.until_end();
    println!("the job is over: {end}");
    if let (Some(store), Some((from, to))) = (&store, &order.upload) {
        let to = order.destination(to)?;
        if !Path::new(from).exists() {
            println!("{from} is not there, so nothing is uploaded");
            return Ok(0);
        }
        let tally = store.upload(Path::new(from), &to, &|| watch.told_to_stop());
        let tally = tally.with_context(|| format!("cannot upload {from} to {to}"))?;
        println!("uploaded {tally} from {from} to {to}");
    }
    Ok(0)
}

/// A node may have its GPUs before it has their driver.
fn await_driver(order: &Order, watch: &Watch<'_>) -> Option<u8> {
    if order.gpus == 0 {
        return None;
    }
    let file = contract::variable(contract::DRIVER_FILE);
    let file = file.unwrap_or_else(|| contract::DRIVER_FILE_DEFAULT.to_owned());
    let until = Instant::now() + order.timeout;
    while !Path::new(&file).exists() {
        if watch.stop().is_some() {
            return Some(0);
        }
        if Instant::now() >= until {
            let seconds = order.timeout.as_secs();
            let words =
                format!("initialisation: no NVIDIA driver within {seconds} s: {file} is not there");
            eprintln!("muster-agent: {words}");
            last_words(&words);
            return Some(EXIT_TIMEOUT);
        }
        watch.pause();
    }
    None
}

impl Order {
    fn of(words: &[OsString]) -> Result<Self> {
        let mut order = Self::default();
        let (mut download, mut upload) = ((None, None), (None, None));
        let mut words = words.iter();
        while let Some(option) = words.next() {
            let value = words
                .next()
                .with_context(|| format!("{} needs a value", option.display()))?;
            let value = value
                .to_str()
                .with_context(|| format!("{} is no text", value.display()))?;
            let text = || value.to_owned();
            let number = || {
                value
                    .parse()
                    .with_context(|| format!("{value} is no number"))
            };
            match option.as_bytes() {
                b"--namespace" => order.namespace = text(),
                b"--master" => order.master = text(),
                b"--num-gpus" => order.gpus = number()?,
                b"--timeout-secs" => order.timeout = Duration::from_secs(number()?.into()),
                b"--download-data-from" => download.0 = Some(text()),
                b"--download-data-to" => download.1 = Some(text()),
                b"--upload-data-from" => upload.0 = Some(text()),
                b"--upload-data-to" => upload.1 = Some(text()),
                _ => bail!("attend does not know {}", option.display()),
            }
        }
        order.download = download.0.zip(download.1);
        order.upload = upload.0.zip(upload.1);
        Ok(order)
    }

    /// Every pod has its own place below the address: `/namespace/name/pod`.
    fn destination(&self, address: &str) -> Result<String> {
        let pod = contract::variable(contract::POD).context("MUSTER_POD names no pod")?;
        let name = self.master.strip_suffix("-master").unwrap_or(&self.master);
        let address = address.trim_end_matches('/');
        Ok(format!("{address}/{}/{name}/{pod}", self.namespace))
    }
}

/// The worker's script, which looks for two files.
struct Worker {
    signals: PathBuf,
}

impl Worker {
    fn here() -> Result<Self> {
        let signals = std::env::current_dir()?.join(SIGNALS);
        fs::create_dir_all(&signals)
            .with_context(|| format!("cannot make {}", signals.display()))?;
        Ok(Self { signals })
    }

    fn tell(&self, what: &str, why: &str) -> Result<()> {
        let file = self.signals.join(what);
        fs::write(&file, why).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// What may happen while it waits: the job ends, or the pod is told to.
struct Watch<'a> {
    signals: &'a Signals,
}

impl Watch<'_> {
    /// How the job ended, once the operator has said so.
    fn end(&self) -> Option<String> {
        let file = contract::variable(contract::END_FILE);
        let file = file.unwrap_or_else(|| contract::END_FILE_DEFAULT.to_owned());
        let end = fs::read_to_string(file).ok()?;
        Some(end.trim().to_owned()).filter(|end| !end.is_empty())
    }

    fn told_to_stop(&self) -> Option<Stop> {
        (!self.signals.take().is_empty()).then_some(Stop)
    }

    fn stop(&self) -> Option<Stop> {
        self.told_to_stop().or_else(|| self.end().map(|_| Stop))
    }

    fn until_end(&self) -> String {
        loop {
            if let Some(end) = self.end() {
                return end;
            }
            if self.told_to_stop().is_some() {
                return "this pod is told to end".to_owned();
            }
            self.pause();
        }
    }

    /// A moment, or less when a signal comes.
    fn pause(&self) {
        let mut fds = [PollFd::new(self.signals, PollFlags::IN)];
        // An interruption is as good as the end of the moment.
        drop(poll(&mut fds, LOOK_INTERVAL));
    }
}

/// For the operator, which reads them from the container's end.
fn last_words(words: &str) {
    let file = contract::variable(contract::TERMINATION_LOG);
    let file = file.unwrap_or_else(|| contract::TERMINATION_LOG_DEFAULT.into());
    let end = words.floor_char_boundary(words.len().min(contract::TERMINATION_BYTES_MAX));
    if let Err(error) = fs::write(&file, &words[..end])
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("muster-agent: cannot write to {file}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(words: &[&str]) -> Result<Order> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Order::of(&words)
    }

    #[test]
    fn the_words_of_the_component_are_understood() -> Result<()> {
        let words = [
            "--namespace",
            "n",
            "--master",
            "a-master",
            "--num-gpus",
            "2",
            "--timeout-secs",
            "300",
            "--download-data-from",
            "s3://b/in",
            "--download-data-to",
            "in",
        ];
        let order = order(&words)?;
        assert_eq!((order.gpus, order.timeout.as_secs()), (2, 300));
        assert_eq!(
            order.download,
            Some(("s3://b/in".to_owned(), "in".to_owned()))
        );
        assert_eq!(order.upload, None);
        Ok(())
    }

    #[test]
    fn words_that_it_does_not_know_are_refused() {
        assert!(order(&["--verbose", "1"]).is_err());
        assert!(order(&["--num-gpus", "many"]).is_err());
        assert!(order(&["--namespace"]).is_err());
    }
}
