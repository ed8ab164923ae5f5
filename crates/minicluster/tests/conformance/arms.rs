//! The two arms. Decides how a request reaches each, and nothing about what is asked.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use minicluster::{Answer, Cluster, Config, Next};

/// A code and the text of the answer.
pub(crate) type Reply = (u16, Vec<u8>, Vec<String>);
type Later<'a> = Pin<Box<dyn Future<Output = Reply> + 'a>>;

/// Something that answers requests.
pub(crate) trait Arm {
    fn ask(&mut self, request: http::Request<Vec<u8>>) -> Later<'_>;
    /// Lets controllers do what they do.
    fn settle(&mut self);
}

pub(crate) struct Mini(Cluster);

impl Mini {
    pub(crate) fn new() -> Self {
        Self(Cluster::new(Config {
            toleration_secs: 30,
            ..Config::default()
        }))
    }
}

impl Arm for Mini {
    fn ask(&mut self, request: http::Request<Vec<u8>>) -> Later<'_> {
        let now = Timestamp::now();
        let answer = self.0.handle(now, request);
        let reply = match answer {
            Answer::Whole(response) => {
                let warnings = response.headers().get_all(http::header::WARNING).iter();
                let warnings = warnings.filter_map(|value| Some(value.to_str().ok()?.to_owned()));
                let warnings = warnings.collect();
                (response.status().as_u16(), response.into_body(), warnings)
            }
            Answer::Watch(mut watch) => {
                let mut text = Vec::new();
                let end = now + SignedDuration::from_secs(3600);
                for at in [now, end, end] {
                    while let Next::Lines(mut lines) = self.0.follow(at, &mut watch) {
                        text.append(&mut lines);
                        if at == end {
                            break;
                        }
                    }
                }
                (200, text, Vec::new())
            }
            Answer::Log(_) => (200, b"log".to_vec(), Vec::new()),
        };
        Box::pin(std::future::ready(reply))
    }

    fn settle(&mut self) {
        drop(self.0.tick(Timestamp::now()));
    }
}

#[derive(Clone)]
pub(crate) struct Real(kube::Client);

impl Real {
    pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = kube::config::Kubeconfig::read_from(kubeconfig)?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
        // Every answer counts, also those that a client would rather not have.
        config.default_retry = false;
        Ok(Self(kube::Client::try_from(config)?))
    }
}

impl Arm for Real {
    fn ask(&mut self, request: http::Request<Vec<u8>>) -> Later<'_> {
        Box::pin(async {
            let request = request.map(kube::client::Body::from);
            let response = self.0.send(request).await.expect("the API server answers");
            let code = response.status().as_u16();
            let warnings = response.headers().get_all(http::header::WARNING).iter();
            let warnings = warnings.filter_map(|value| Some(value.to_str().ok()?.to_owned()));
            let warnings = warnings.collect();
            let body = response
                .into_body()
                .collect()
                .await
                .expect("the answer arrives whole");
            (code, body.to_bytes().to_vec(), warnings)
        })
    }

    fn settle(&mut self) {}
}
