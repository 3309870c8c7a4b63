use super::*;
use ringside_testkit::certificates::{Authority, Certified};
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// A certificate and its key in a folder.
struct Files {
    folder: TempDir,
}

impl Files {
    fn of(certified: &Certified) -> Files {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        files.put(&certified.certificate, &certified.key);
        files
    }

    fn put(&self, certificate: &str, key: &str) {
        write(self.path("certificate"), certificate).unwrap();
        write(self.path("key"), key).unwrap();
        set_permissions(self.path("key"), Permissions::from_mode(0o600)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn load(&self) -> anyhow::Result<Tls> {
        Tls::load(&self.path("certificate"), &self.path("key"))
    }

    fn error(&self) -> String {
        format!("{:#}", self.load().unwrap_err())
    }
}

#[test]
fn a_certificate_with_its_key_names_hosts() {
    let authority = Authority::new("tests");
    let names = ["Ringside.example", "*.wild.example", "192.0.2.1", "2001:db8::1"];
    let files = Files::of(&authority.certify(&names));
    let tls = files.load().unwrap();
    assert!(tls.warnings(SystemTime::now()).is_empty());
    let names = &tls.identity().names;
    for host in ["ringside.example", "a.wild.example", "192.0.2.1", "[2001:db8::1]"] {
        assert!(names.hold(host), "{host}");
    }
    for host in [
        "",
        "example",
        "x.ringside.example",
        "wild.example",
        "a.b.wild.example",
        "*.example",
        "192.0.2.2",
        "[2001:db8::2]",
    ] {
        assert!(!names.hold(host), "{host}");
    }
}

#[test]
fn the_forms_of_keys_are_read() {
    // What `openssl` makes, so that they are not of the library that reads them.
    let test = "the_forms_of_keys_are_read";
    if !ringside_testkit::need_tool(test, "openssl") {
        return;
    }
    let files = Files { folder: tempfile::tempdir().unwrap() };
    let (key, certificate) = (files.path("key"), files.path("certificate"));
    let openssl = |args: &[&str]| {
        let run = std::process::Command::new("openssl").args(args).output().unwrap();
        assert!(run.status.success(), "{run:?}");
    };
    let (key, certificate) = (key.to_str().unwrap(), certificate.to_str().unwrap());
    for (make, mark) in [
        (&["genpkey", "-algorithm", "ed25519", "-out", key][..], "BEGIN PRIVATE KEY"),
        (&["genrsa", "-traditional", "-out", key, "2048"], "BEGIN RSA PRIVATE KEY"),
        (&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], "BEGIN EC PRIVATE"),
    ] {
        openssl(make);
        assert!(std::fs::read_to_string(key).unwrap().contains(mark));
        set_permissions(key, Permissions::from_mode(0o600)).unwrap();
        let subject = ["-subj", "/CN=x", "-addext", "subjectAltName=DNS:x.example"];
        let request = ["req", "-x509", "-key", key, "-out", certificate, "-days", "2"];
        openssl(&[&request[..], &subject].concat());
        assert!(files.load().unwrap().identity().names.hold("x.example"), "{mark}");
    }
    let locked = files.path("locked");
    let locked = locked.to_str().unwrap();
    openssl(&["pkey", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked]);
    std::fs::rename(locked, key).unwrap();
    assert!(files.error().contains("passphrase"), "{}", files.error());
}

#[test]
fn what_is_wrong_with_the_files_is_named_with_its_fix() {
    let authority = Authority::new("tests");
    let [one, other] = [["one.example"], ["two.example"]].map(|names| authority.certify(&names));
    let files = Files::of(&one);
    for (certificate, key, words) in [
        ("", &*one.key, "(--tls-cert): it is empty"),
        ("hello", &one.key, "holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &one.key, "no PEM"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &one.key,
            "certificate is damaged",
        ),
        (&one.key, &one.key, "holds no certificate"),
        (&one.certificate, "", "(--tls-key): it is empty"),
        (&one.certificate, &one.certificate, "holds no key"),
        (&one.certificate, &other.key, "do not belong together"),
        (&"x".repeat(2 << 20), &one.key, "longer than"),
    ] {
        files.put(certificate, key);
        assert!(files.error().contains(words), "{}", files.error());
    }
    files.put(&one.certificate, &one.key);
    for mode in [0o644, 0o660, 0o601] {
        set_permissions(files.path("key"), Permissions::from_mode(mode)).unwrap();
        assert!(files.error().contains("chmod 600"), "{mode:o}: {}", files.error());
    }
    set_permissions(files.path("key"), Permissions::from_mode(0o640)).unwrap();
    files.load().unwrap();
    std::fs::remove_file(files.path("key")).unwrap();
    assert!(files.error().contains("No such file"), "{}", files.error());
    rustix::fs::mkfifoat(rustix::fs::CWD, files.path("key"), rustix::fs::Mode::RUSR).unwrap();
    assert!(files.error().contains("it is no file"), "{}", files.error());
}

#[test]
fn a_certificate_that_clients_refuse_is_warned_of() {
    let authority = Authority::new("tests");
    let warnings = |certified: &Certified, now| Files::of(certified).load().unwrap().warnings(now);
    let expired = authority.certify_expired(&["one.example"]);
    let text = warnings(&expired, SystemTime::now()).concat();
    assert!(text.contains("expired on Jan  1 00:00:00 2002"), "{text}");
    let text = warnings(&expired, UNIX_EPOCH).concat();
    assert!(text.contains("is valid from Jan  1 00:00:00 2001"), "{text}");
    let text = warnings(&authority.certify(&[]), SystemTime::now()).concat();
    assert!(text.contains("names no host"), "{text}");
}

#[test]
fn what_cannot_be_read_again_leaves_what_was_read_before() {
    let authority = Authority::new("tests");
    let files = Files::of(&authority.certify(&["one.example"]));
    let tls = files.load().unwrap();
    files.put("nothing", "nothing");
    tls.renew().unwrap_err();
    assert!(tls.identity().names.hold("one.example"));
    let other = authority.certify(&["two.example"]);
    files.put(&other.certificate, &other.key);
    tls.renew().unwrap();
    let names = &tls.identity().names;
    assert!(names.hold("two.example") && !names.hold("one.example"));
}

#[test]
fn no_certificate_makes_the_reader_panic() {
    let one = Authority::new("tests").certify(&["one.example", "192.0.2.1"]);
    let key = PrivateKeyDer::from_pem_slice(one.key.as_bytes()).unwrap();
    let der = CertificateDer::from_pem_slice(one.certificate.as_bytes()).unwrap();
    ringside_testkit::fuzz("serve-certificates", 5_000, &[der.to_vec()], |bytes| {
        let chain = vec![CertificateDer::from(bytes.to_vec())];
        if let Ok(identity) = Identity::of(chain, key.clone_key()) {
            identity.warnings(UNIX_EPOCH);
            identity.names.hold("one.example");
        }
    });
}
