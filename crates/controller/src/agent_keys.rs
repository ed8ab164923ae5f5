//! The keys of one start of a job, for transport Agent. Decides who can prove to be whom: the launcher gets
//! a random root key, from which it derives its own key and the key of every worker. Each worker gets its own
//! key, and the launcher's public key. What each pod mounts of it is the planner's business.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::files::{LAUNCHER_KEY, LAUNCHER_PUBLIC_KEY, VALID_UNTIL, worker_key_item};
use contract::protocol::{KEY_BYTES, LAUNCHER_KEY_LABEL, worker_key_label};
use jiff::Timestamp;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Map, Value};

/// Fresh keys for the launcher and for `workers` pods called `worker-INDEX`, as the `data` of a Secret.
pub(crate) fn secret_data(worker: &str, workers: u32, valid_until: Timestamp) -> Value {
    let mut root = [0; KEY_BYTES];
    getrandom::fill(&mut root).expect("the system has randomness");
    let derive = hmac::Key::new(hmac::HMAC_SHA256, &root);
    let own = hmac::sign(&derive, LAUNCHER_KEY_LABEL.as_bytes());
    let own =
        Ed25519KeyPair::from_seed_unchecked(own.as_ref()).expect("any 32 bytes are a private key");
    let mut data = Map::new();
    let mut put = |name: String, bytes: &[u8]| {
        data.insert(name, STANDARD.encode(bytes).into());
    };
    put(LAUNCHER_KEY.to_owned(), &root);
    put(LAUNCHER_PUBLIC_KEY.to_owned(), own.public_key().as_ref());
    let seconds = valid_until.as_second().to_string();
    put(VALID_UNTIL.to_owned(), seconds.as_bytes());
    for index in 0..workers {
        let label = worker_key_label(&format!("{worker}-{index}"));
        let key = hmac::sign(&derive, label.as_bytes());
        put(worker_key_item(index), key.as_ref());
    }
    Value::Object(data)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn bytes(data: &Value, name: &str) -> Vec<u8> {
        STANDARD.decode(data[name].as_str().unwrap()).unwrap()
    }

    fn made(workers: u32) -> Value {
        secret_data("pi-worker", workers, Timestamp::from_second(99).unwrap())
    }

    #[test]
    fn s08_every_worker_has_a_key_of_its_own() {
        let data = made(300);
        let names = (0..300).map(|index| format!("w{index}"));
        let mut keys: BTreeSet<Vec<u8>> = names.map(|name| bytes(&data, &name)).collect();
        assert_eq!(keys.len(), 300);
        assert!(keys.insert(bytes(&data, "launcher.key")));
        assert!(keys.insert(bytes(&data, "launcher.pub")));
        assert!(keys.iter().all(|key| key.len() == 32));
        assert_eq!(bytes(&data, "valid-until"), b"99");
    }

    #[test]
    fn every_start_has_its_own_keys() {
        assert_ne!(bytes(&made(1), "w0"), bytes(&made(1), "w0"));
    }

    /// The API server accepts 1 MiB of values, and etcd 1.5 MiB for the object with its bookkeeping, which
    /// names every key once more.
    #[test]
    fn s08_the_keys_of_the_largest_job_fit_into_one_secret() {
        let data = made(10_000);
        let entries = data.as_object().unwrap();
        let values: usize = entries.keys().map(|name| bytes(&data, name).len()).sum();
        assert!(values < 1024 * 1024 / 2, "{values}");
        let names: usize = entries.keys().map(String::len).sum();
        let stored = values + 2 * names + 16 * entries.len();
        assert!(stored < 1024 * 1024, "{stored}");
    }
}
