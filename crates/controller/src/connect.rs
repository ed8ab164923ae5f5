//! A client for the cluster. Decides where the cluster is (flag, environment, or the pod we run
//! in) and that the client never retries on its own: kube's default would repeat a POST for hours.

use std::sync::Arc;

use anyhow::Context as _;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::util::MapResponseLayer;

use crate::api::{Api, Pause};

const USER_AGENT: &str = concat!("muster-operator/", env!("CARGO_PKG_VERSION"));

/// Where the cluster is: the configuration to make clients from.
pub(crate) async fn configuration(master: &str, kubeconfig: &str) -> anyhow::Result<Config> {
    // Only one provider is compiled in; installed first so that nobody has to guess.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = if kubeconfig.is_empty() {
        if master.is_empty() {
            Config::incluster().context(
                "not running in a cluster, and no --kubeConfig and no KUBECONFIG says where one is",
            )?
        } else {
            let url = master
                .parse()
                .with_context(|| format!("--master {master} is no URL"))?;
            Config::new(url)
        }
    } else {
        let file = Kubeconfig::read_from(kubeconfig)
            .with_context(|| format!("cannot read the kubeconfig {kubeconfig}"))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        config.with_context(|| format!("the kubeconfig {kubeconfig} names no usable cluster"))?
    };
    if !master.is_empty() {
        config.cluster_url = master
            .parse()
            .with_context(|| format!("--master {master} is no URL"))?;
    }
    config.default_retry = false;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(USER_AGENT),
    ));
    Ok(config)
}

/// A client of its own, with connections of its own.
pub(crate) fn api(config: &Config) -> anyhow::Result<Api> {
    let pause = Arc::new(Pause::default());
    let note = Arc::clone(&pause);
    let layer = MapResponseLayer::new(move |answer: http::Response<_>| {
        note.note(&answer);
        answer
    });
    let builder = ClientBuilder::try_from(config.clone()).context("cannot make a client")?;
    let client: Client = builder.with_layer(&layer).build();
    Ok(Api::new(client, pause))
}
