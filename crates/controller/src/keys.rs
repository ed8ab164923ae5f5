//! SSH keys. Decides their form: ECDSA on the curve NIST P-521, as the Kubeflow API promises, the
//! private key in SEC1, the public key as in an `authorized_keys` file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::files::{SSH_PRIVATE_KEY, SSH_PUBLIC_KEY};
use p521::SecretKey;
use p521::elliptic_curve::Generate as _;
use p521::elliptic_curve::sec1::ToSec1Point as _;
use p521::elliptic_curve::zeroize::Zeroizing;
use p521::pkcs8::LineEnding;
use serde_json::{Value, json};

const KEY_TYPE: &str = "ecdsa-sha2-nistp521";
const CURVE: &str = "nistp521";

/// A fresh pair as the `data` of a Secret.
pub(crate) fn secret_data() -> Value {
    let pair = Pair::generate();
    json!({
        (SSH_PRIVATE_KEY): STANDARD.encode(pair.private.as_bytes()),
        (SSH_PUBLIC_KEY): STANDARD.encode(pair.public.as_bytes()),
    })
}

struct Pair {
    private: Zeroizing<String>,
    public: String,
}

impl Pair {
    fn generate() -> Self {
        let secret = SecretKey::generate();
        let point = secret.public_key().to_sec1_point(false);
        let mut blob = Vec::new();
        for field in [KEY_TYPE.as_bytes(), CURVE.as_bytes(), point.as_bytes()] {
            let length = u32::try_from(field.len()).expect("the fields of a key are short");
            blob.extend(length.to_be_bytes());
            blob.extend(field);
        }
        Self {
            private: secret
                .to_sec1_pem(LineEnding::LF)
                .expect("a generated key can be encoded"),
            public: format!("{KEY_TYPE} {}\n", STANDARD.encode(blob)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn openssh_reads_the_private_half_and_derives_the_public_half() {
        let pair = Pair::generate();
        assert!(pair.private.starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
        let path = std::env::temp_dir().join(format!("muster-key-{}", std::process::id()));
        let mut file = std::fs::OpenOptions::new();
        let mut file = file
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        std::io::Write::write_all(&mut file, pair.private.as_bytes()).unwrap();
        let derived = Command::new("ssh-keygen")
            .arg("-y")
            .arg("-f")
            .arg(&path)
            .output();
        std::fs::remove_file(&path).unwrap();
        let derived = derived.expect("ssh-keygen is installed (package openssh-client)");
        assert!(
            derived.status.success(),
            "{}",
            String::from_utf8_lossy(&derived.stderr)
        );
        assert_eq!(String::from_utf8_lossy(&derived.stdout), pair.public);
    }

    #[test]
    fn two_pairs_differ() {
        assert_ne!(Pair::generate().public, Pair::generate().public);
    }
}
