//! The certificates of one job, for transport Agent. Decides who may call whom: the launcher has a
//! client certificate, the workers a server certificate, and both name the job. The key of the
//! authority exists only while this function runs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::files::{CA_CERTIFICATE, CLIENT_FILES, SERVER_FILES};
use contract::labels::{LAUNCHER_ROLE, WORKER_ROLE};
use contract::protocol::certificate_name;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Map, Value};

/// Longer than any run. The Secret is deleted when the job ends.
const YEARS: i16 = 10;

/// A fresh authority and what it issued, as the `data` of a Secret.
pub(crate) fn secret_data(job: &str) -> Value {
    let authority = authority();
    let mut data = Map::new();
    let mut put = |name: &str, text: String| {
        data.insert(name.to_owned(), STANDARD.encode(text).into());
    };
    put(CA_CERTIFICATE, authority.pem());
    for ([certificate, key], role, purpose) in [
        (
            CLIENT_FILES,
            LAUNCHER_ROLE,
            ExtendedKeyUsagePurpose::ClientAuth,
        ),
        (
            SERVER_FILES,
            WORKER_ROLE,
            ExtendedKeyUsagePurpose::ServerAuth,
        ),
    ] {
        let pair = KeyPair::generate().expect("the system has randomness");
        let mut params = lasting(CertificateParams::new(vec![certificate_name(role, job)]));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        let issued = params
            .signed_by(&pair, &authority)
            .expect("a fresh authority can sign");
        put(certificate, issued.pem());
        put(key, pair.serialize_pem());
    }
    Value::Object(data)
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = lasting(CertificateParams::new(Vec::<String>::new()));
    // It signs certificates of pods, and no other authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().expect("the system has randomness");
    CertifiedIssuer::self_signed(params, key).expect("a fresh key can sign")
}

/// Valid since last year, because clocks differ.
fn lasting(params: Result<CertificateParams, rcgen::Error>) -> CertificateParams {
    let mut params = params.expect("a job's UID makes a valid name");
    let year = TimeZone::UTC.to_datetime(Timestamp::now()).year();
    params.not_before = rcgen::date_time_ymd(i32::from(year) - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(i32::from(year + YEARS), 1, 1);
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(data: &Value, name: &str) -> String {
        let bytes = STANDARD.decode(data[name].as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn nothing_that_could_issue_more_is_kept() {
        let data = secret_data("0a1b");
        let names: Vec<_> = data.as_object().unwrap().keys().cloned().collect();
        let known = [
            "ca.crt",
            "client.crt",
            "client.key",
            "server.crt",
            "server.key",
        ];
        assert_eq!(names, known);
        assert_ne!(text(&data, "client.key"), text(&data, "server.key"));
        assert!(!text(&data, "ca.crt").contains("PRIVATE"));
    }

    #[test]
    fn every_start_has_its_own_authority() {
        assert_ne!(
            text(&secret_data("0a1b"), "ca.crt"),
            text(&secret_data("0a1b"), "ca.crt")
        );
    }
}
