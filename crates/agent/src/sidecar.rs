//! `sidecar`: the sidecar of a worker that ends by itself. Decides when the worker may start (the GPU
//! driver is there, data is downloaded) and when it must end (the job is over, data is uploaded), and
//! tells the worker's script by two files. Whatever happens to the sidecar, the worker ends.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use contract::commands::sidecar;
use contract::env;
use contract::files::{self, INIT_FAILED_WORDS};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::beneath::Beneath;
use crate::poll::poll;
use crate::signals::Signals;
use crate::{s3, settings, termination_log};

/// Files in the directory that the sidecar shares with the worker.
const MAY_START: &str = "SIGCONT";
const MUST_END: &str = "SIGTERM";
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// What the worker's script, too, exits with when initialisation takes too long.
const EXIT_TIMEOUT: u8 = 124;
const EXIT_FAILED: u8 = 1;

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    namespace: String,
    job: String,
    /// Where the worker looks for the two files, below the working directory.
    signal_dir: String,
    gpus: u32,
    timeout: Duration,
    download: Option<(String, String)>,
    upload: Option<(String, String)>,
}

/// Runs until the job is over. Returns the container's exit code.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let options = Options::parse(words)?;
    let signals = Signals::watch(&[SIGTERM, SIGINT])?;
    let files = Beneath::create(Path::new(&options.signal_dir))?;
    // The worker's script looks for files of these names.
    let tell = |what: &str, why: &str| {
        let written = files.write(what, |file| {
            file.write_all(why.as_bytes())?;
            Ok(0)
        });
        written.map(drop)
    };
    let (exit, why) = match run_until_end(&options, &signals, || tell(MAY_START, "")) {
        Ok(exit) => (exit, String::new()),
        Err(error) => (EXIT_FAILED, format!("{error:#}")),
    };
    if !why.is_empty() {
        report(&why);
    }
    // Last, because the worker ends with this file, and may print what it holds.
    tell(MUST_END, &why).map(|()| exit)
}

fn run_until_end(
    options: &Options,
    signals: &Signals,
    let_worker_start: impl FnOnce() -> Result<()>,
) -> Result<u8> {
    let transfers = options.download.is_some() || options.upload.is_some();
    let store = transfers.then(s3::Store::of_environment).transpose()?;
    // What would fail at the end fails now, while nothing is lost by it.
    let addresses = [
        options.download.as_ref().map(|(from, _)| from),
        options.upload.as_ref().map(|(_, to)| to),
    ];
    for address in addresses.into_iter().flatten() {
        s3::check(address)?;
    }
    let watch = Watch { signals };
    if let Some(exit) = await_driver(options, &watch) {
        return Ok(exit);
    }
    if let (Some(store), Some((from, to))) = (&store, &options.download) {
        let began = Instant::now();
        let tally = store.download(from, Path::new(to), &|| watch.should_stop());
        let tally = tally.with_context(|| format!("cannot download {from} to {to}"))?;
        println!(
            "downloaded {tally} from {from} to {to} in {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    let_worker_start()?;
    println!("ready; waiting for the end of {}", options.job);
    let end = watch.until_end();
    println!("the job is over: {end}");
    if let (Some(store), Some((from, to))) = (&store, &options.upload) {
        let to = options.destination(to)?;
        if !Path::new(from).exists() {
            println!("{from} is not there, so nothing is uploaded");
            return Ok(0);
        }
        let except = &options.signal_dir;
        let tally = store.upload(Path::new(from), &to, except, &|| watch.told_to_stop());
        let tally = tally.with_context(|| format!("cannot upload {from} to {to}"))?;
        println!("uploaded {tally} from {from} to {to}");
    }
    Ok(0)
}

/// Waits, since a node may have its GPUs before it has their driver. Returns an exit code if there is
/// nothing more to wait for.
fn await_driver(options: &Options, watch: &Watch<'_>) -> Option<u8> {
    if options.gpus == 0 {
        return None;
    }
    let file = settings::path(env::DRIVER_FILE, files::GPU_DRIVER);
    let until = Instant::now() + options.timeout;
    while !file.exists() {
        if watch.should_stop() {
            return Some(0);
        }
        if Instant::now() >= until {
            let seconds = options.timeout.as_secs();
            report(&format!(
                "{INIT_FAILED_WORDS}no NVIDIA driver within {seconds} s: {} is not there",
                file.display()
            ));
            return Some(EXIT_TIMEOUT);
        }
        watch.pause();
    }
    None
}

impl Options {
    fn parse(words: &[OsString]) -> Result<Self> {
        let mut options = Self::default();
        let (mut download, mut upload) = ((None, None), (None, None));
        let mut words = words.iter();
        while let Some(option) = words.next() {
            let value = words
                .next()
                .with_context(|| format!("{} needs a value", option.display()))?;
            let value = value
                .to_str()
                .with_context(|| format!("{} is not UTF-8", value.display()))?;
            let text = || value.to_owned();
            let number = || {
                value
                    .parse()
                    .with_context(|| format!("{value} is not a number"))
            };
            match option.to_str().unwrap_or_default() {
                sidecar::NAMESPACE => options.namespace = text(),
                sidecar::JOB => options.job = text(),
                sidecar::SIGNAL_DIR => options.signal_dir = text(),
                sidecar::GPUS => options.gpus = number()?,
                sidecar::TIMEOUT_SECS => options.timeout = Duration::from_secs(number()?.into()),
                sidecar::DOWNLOAD_FROM => download.0 = Some(text()),
                sidecar::DOWNLOAD_TO => download.1 = Some(text()),
                sidecar::UPLOAD_FROM => upload.0 = Some(text()),
                sidecar::UPLOAD_TO => upload.1 = Some(text()),
                _ => bail!("sidecar has no option {}", option.display()),
            }
        }
        options.download = download.0.zip(download.1);
        options.upload = upload.0.zip(upload.1);
        Ok(options)
    }

    /// Every pod has its own place below the address: `/namespace/job/pod`.
    fn destination(&self, address: &str) -> Result<String> {
        let pod =
            settings::variable(env::POD).with_context(|| format!("{} names no pod", env::POD))?;
        let address = address.trim_end_matches('/');
        Ok(format!("{address}/{}/{}/{pod}", self.namespace, self.job))
    }
}

/// What may happen while the sidecar waits: the job ends, or the kubelet ends the pod.
struct Watch<'a> {
    signals: &'a Signals,
}

impl Watch<'_> {
    /// How the job ended, once the operator has written that.
    fn end(&self) -> Option<String> {
        let end = fs::read_to_string(settings::path(env::END_FILE, files::END_PATH)).ok()?;
        Some(end.trim().to_owned()).filter(|end| !end.is_empty())
    }

    fn told_to_stop(&self) -> bool {
        !self.signals.take().is_empty()
    }

    fn should_stop(&self) -> bool {
        self.told_to_stop() || self.end().is_some()
    }

    fn until_end(&self) -> String {
        loop {
            if let Some(end) = self.end() {
                return end;
            }
            if self.told_to_stop() {
                return "this pod was told to end".to_owned();
            }
            self.pause();
        }
    }

    /// A moment, or less when a signal comes.
    fn pause(&self) {
        let mut fds = [PollFd::new(self.signals, PollFlags::IN)];
        // An interruption ends the wait early, which is fine.
        drop(poll(&mut fds, LOOK_INTERVAL));
    }
}

/// Writes a message to the log, and to the termination log for the operator.
fn report(message: &str) {
    eprintln!("muster-agent: {message}");
    termination_log::write(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_come_in_pairs_and_a_transfer_needs_both_ends() -> Result<()> {
        let options = options(
            "--namespace n --job a --signal-dir .signals --num-gpus 2 --timeout-secs 300 \
             --download-data-from s3://b/in --download-data-to in --upload-data-from out",
        )?;
        let wanted = Options {
            namespace: "n".to_owned(),
            job: "a".to_owned(),
            signal_dir: ".signals".to_owned(),
            gpus: 2,
            timeout: Duration::from_secs(300),
            download: Some(("s3://b/in".to_owned(), "in".to_owned())),
            upload: None,
        };
        assert_eq!(options, wanted);
        Ok(())
    }

    #[test]
    fn unknown_options_are_refused() {
        for line in ["--verbose 1", "--num-gpus many", "--namespace"] {
            assert!(options(line).is_err(), "{line}");
        }
    }
}
