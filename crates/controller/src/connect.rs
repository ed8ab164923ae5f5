//! A client for the cluster. Decides where the cluster is (flag, environment, or the pod we run in),
//! and that the client never retries by itself: kube's default would repeat a POST for hours.

use std::sync::Arc;

use anyhow::Context as _;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::util::MapResponseLayer;

use crate::api::{Api, Pause};

const USER_AGENT: &str = concat!("muster-operator/", env!("CARGO_PKG_VERSION"));

/// The configuration of clients for the cluster.
pub(crate) async fn configuration(master: &str, kubeconfig: &str) -> anyhow::Result<Config> {
    // Only one provider is compiled in; rustls wants it to be installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = match master {
        "" => None,
        url => Some(
            url.parse()
                .with_context(|| format!("--master {url} is not a URL"))?,
        ),
    };
    let mut config = match (kubeconfig, &url) {
        ("", None) => Config::incluster()
            .context("not running in a cluster, and neither --kubeConfig nor KUBECONFIG is set")?,
        ("", Some(url)) => Config::new(http::Uri::clone(url)),
        (path, _) => from_file(path).await?,
    };
    if let Some(url) = url {
        config.cluster_url = url;
    }
    config.default_retry = false;
    let user_agent = http::HeaderValue::from_static(USER_AGENT);
    config.headers.push((http::header::USER_AGENT, user_agent));
    Ok(config)
}

async fn from_file(path: &str) -> anyhow::Result<Config> {
    let file = Kubeconfig::read_from(path)
        .with_context(|| format!("cannot read the kubeconfig {path}"))?;
    let mut clusters = file
        .clusters
        .iter()
        .filter_map(|named| named.cluster.as_ref());
    let names_proxy = clusters.any(|cluster| cluster.proxy_url.is_some());
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config =
        config.with_context(|| format!("the kubeconfig {path} names no usable cluster"))?;
    if !names_proxy {
        // kube would send requests to the cluster through HTTPS_PROXY, which is meant for the internet.
        config.proxy_url = None;
    }
    Ok(config)
}

/// A client with its own connections.
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
