//! `muster up`: a cluster on this machine that runs until `muster down`. Decides where it listens and
//! keeps its files. The process that stays is this command again, in the background.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::args::{Global, UpArgs};
use crate::local::api_server::ApiServer;
use crate::local::cluster::Local;
use crate::local::host;
use crate::out;
use crate::state::{self, Run};
use crate::verbs::run::{Signals, runner_settings};

/// Longer than a start takes on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn run(global: &Global, args: &UpArgs) -> Result<u8> {
    if args.foreground {
        return serve(args).await;
    }
    if state::up_is_alive() {
        print_kubeconfig(global)?;
        return Ok(0);
    }
    let directory = state::directory()?.join("up");
    state::private(&directory)?;
    let kubeconfig = state::up_kubeconfig()?;
    let _ = fs::remove_file(&kubeconfig);
    let path = directory.join("log");
    let log =
        fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut child = Command::new(host::binary()?)
        .args(std::env::args_os().skip(1))
        .arg("--foreground")
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .process_group(0)
        .spawn()
        .context("cannot start the cluster's process")?;
    let since = Instant::now();
    while !kubeconfig.exists() {
        if let Some(status) = child.try_wait()? {
            let said = fs::read_to_string(&path).unwrap_or_default();
            bail!("the cluster did not start ({status})\n{}", said.trim_end());
        }
        if since.elapsed() > START_TIMEOUT {
            bail!(
                "the cluster did not start in 30 s; its log is {}",
                path.display()
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    print_kubeconfig(global)?;
    Ok(0)
}

fn print_kubeconfig(global: &Global) -> Result<()> {
    let path = state::up_kubeconfig()?;
    let path = shell_word(&path.to_string_lossy());
    out::data(&format!("export KUBECONFIG={path}\n"));
    if !global.quiet {
        out::note(
            "A cluster runs on this machine. kubectl uses it after the line above. `muster get --local` \
             lists its jobs, and `muster down` ends the cluster and its jobs.\n",
        );
    }
    Ok(())
}

/// A word that a shell reads as this text.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

async fn serve(args: &UpArgs) -> Result<u8> {
    let run = Run::up()?;
    for leftover in ["pods", "logs"] {
        let _ = fs::remove_dir_all(run.directory.join(leftover));
    }
    let server = ApiServer::bind(args.port).await?;
    let settings = runner_settings(&args.local_args, false)?(&run);
    // As `kubectl apply -f deploy/muster.yaml` has it: the others' would take the short name `mpijob`
    // away, and can be applied like anywhere else.
    let installed = |definition: &&Value| {
        ["kubeflow.org", "muster.dev"]
            .contains(&definition["spec"]["group"].as_str().unwrap_or_default())
    };
    let definitions = crate::schema::definitions()
        .iter()
        .filter(installed)
        .collect();
    let local = Local::start(settings, definitions, Box::new(|_, _| None)).await?;
    let kubeconfig = state::up_kubeconfig()?;
    server.write_kubeconfig(&kubeconfig)?;
    let mut signals = Signals::listen()?;
    tokio::select! {
        () = server.serve(local.shared.clone()) => {}
        _ = signals.next() => {}
    }
    let _ = fs::remove_file(&kubeconfig);
    local.end().await;
    // Whoever waits for the lock waits for the end of this process: the kernel lets it go then.
    std::mem::forget(run);
    Ok(0)
}
