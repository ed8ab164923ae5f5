//! `muster ui`: a page of all jobs and one for each, served on this machine to the person who started it. Decides how
//! long it is served; it changes nothing, and has no rights but those of that person.

mod answer;
mod gate;
mod jobs_page;
mod live;
mod log_stream;
mod server;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::args::Global;
use crate::args::report::UiArgs;
use crate::backend::{Backend, Bell, Watched};
use crate::out;
use crate::view::JobView;
use gate::Gate;

/// What all requests share.
pub(crate) struct Ui {
    backend: Backend,
    /// The jobs of each dialect.
    jobs: Vec<Watched>,
    /// Rings when any of them has changed.
    bell: Bell,
    all_namespaces: bool,
    gate: Gate,
}

impl Ui {
    /// The job, once the first list of jobs is there.
    async fn found(&self, uid: &str) -> Option<Value> {
        self.first(|jobs| jobs.get(uid)).await
    }

    /// The UID of the job that has this name now, of whatever dialect.
    async fn named(&self, namespace: &str, name: &str) -> Option<String> {
        let has_name = |job: &Value| {
            let job = JobView(job);
            (job.namespace(), job.name()) == (namespace, name)
        };
        let named = |jobs: &Watched| jobs.objects().into_iter().find(has_name);
        let job = self.first(named).await?;
        Some(JobView(&job).uid().to_owned())
    }

    /// What is found in the jobs of any dialect; nothing once all have been searched.
    async fn first(&self, find: impl Fn(&Watched) -> Option<Value>) -> Option<Value> {
        let mut rings = self.bell.subscribe();
        loop {
            let found = self.jobs.iter().find_map(&find);
            if found.is_some() || self.jobs.iter().all(Watched::has_answer) {
                return found;
            }
            rings.changed().await.ok()?;
        }
    }
}

pub(crate) async fn run(global: &Global, args: &UiArgs) -> Result<u8> {
    let backend = Backend::connect(global, None).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{}", args.port))?;
    let port = listener.local_addr()?.port();
    let token = secret()?;
    let gate = Gate::new(port, token.clone(), secret()?);
    let (bell, _) = watch::channel(());
    let jobs = backend.watch_jobs(args.all_namespaces, &bell);
    let ui = Arc::new(Ui {
        backend,
        jobs,
        bell,
        all_namespaces: args.all_namespaces,
        gate,
    });
    out::note("Open this link; it works once. Ctrl-C ends the page.\n");
    out::data(&format!("http://127.0.0.1:{port}/?token={token}\n"));
    tokio::select! {
        () = server::serve(listener, ui) => Ok(0),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("cannot listen for Ctrl-C")?;
            Ok(0)
        }
    }
}

/// 256 bits that nobody guesses.
fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("this machine has no random numbers")?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}
