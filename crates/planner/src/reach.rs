//! How mpirun reaches the workers of a job at one site: the job's access with what the site adds. Decides
//! only that; `render` makes objects of it.

use crate::job::{Access, Account, Job, Login, Provided, Workers};
use crate::observed::Observed;
use crate::recorded::KeyRecord;
use crate::site::{Site, Transport};

impl Job {
    /// The job needs muster's agent, and the site does not have its image.
    pub fn lacks_agent(&self, site: &Site) -> bool {
        Reach::at(self, site, None).is_none()
    }
}

/// How mpirun reaches the workers at one site.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach<'a> {
    /// By ssh; `gate` is the image of the gate.
    Ssh {
        login: &'a Login,
        gate: Option<&'a str>,
    },
    /// By muster's agent, from this image, with the keys in this Secret.
    Agent {
        login: &'a Login,
        image: &'a str,
        gated: bool,
        secret: &'a str,
    },
    /// Through the API server, by muster's agent from this image.
    Exec {
        account: &'a Account,
        image: &'a str,
    },
    /// As the templates arrange it, with this container of the workers, and its image.
    Provided {
        provided: &'a Provided,
        sidecar: Option<(&'a str, &'a str)>,
    },
}

impl<'a> Reach<'a> {
    /// None where muster's agent is needed and the operator was not given its image.
    pub(crate) fn of(observed: &'a Observed) -> Option<Self> {
        let keys = observed.recorded.keys.as_ref();
        Self::at(&observed.job, &observed.site, keys)
    }

    /// Of this job at this site, with the keys that its status records.
    pub(crate) fn at(job: &'a Job, site: &'a Site, keys: Option<&'a KeyRecord>) -> Option<Self> {
        let image = site.agent_image.as_deref();
        if job.queue.is_some() {
            // A launcher that comes with its workers must wait for them inside.
            image?;
        }
        let gate = job.gate(site);
        let pods = match &job.workers {
            Workers::Pods(pods) => pods,
            Workers::StatefulSet(set) => {
                let account = &set.account;
                return image.map(|image| Self::Exec { account, image });
            }
        };
        match (&pods.access, site.transport) {
            (Access::Ssh(login), _) | (Access::SiteDefault(login), Transport::Ssh) => {
                Some(Self::Ssh { login, gate })
            }
            (Access::Agent(login, _), _) | (Access::SiteDefault(login), Transport::Agent) => {
                let gated = gate.is_some();
                // Until it is recorded, no pod is made that could mount it.
                let secret = keys.map_or(&job.names.agent_keys, |keys| &keys.secret);
                image.map(|image| Self::Agent {
                    login,
                    image,
                    gated,
                    secret,
                })
            }
            (Access::Provided(provided), _) => {
                let sidecar = match &provided.sidecar {
                    Some(container) => Some((container.as_str(), image?)),
                    None => None,
                };
                Some(Self::Provided { provided, sidecar })
            }
        }
    }

    /// The settings, where muster arranges the access.
    pub(crate) fn login(self) -> Option<&'a Login> {
        match self {
            Self::Ssh { login, .. } | Self::Agent { login, .. } => Some(login),
            Self::Exec { .. } | Self::Provided { .. } => None,
        }
    }
}
