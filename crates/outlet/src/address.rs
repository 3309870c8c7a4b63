//! Which server, as users write it.

use crate::clickhouse::create_table;
use crate::error::OutletError;
use ringside_kafka::Mechanism;
use ringside_record::Record;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use ureq::http::Uri;
use ureq::http::uri::Authority;

/// What addresses begin with: the kind of server, with TLS or without. The one that is written back
/// comes first.
const SCHEMES: [(&str, Kind, bool); 11] = [
    ("clickhouse", Kind::ClickHouse, false),
    ("clickhouse+https", Kind::ClickHouse, true),
    ("clickhouses", Kind::ClickHouse, true),
    ("kafka", Kind::Kafka, false),
    ("kafka+tls", Kind::Kafka, true),
    ("kafkas", Kind::Kafka, true),
    ("otlp", Kind::Otlp, false),
    ("otlp+https", Kind::Otlp, true),
    ("otlps", Kind::Otlp, true),
    ("s3", Kind::S3, false),
    ("s3+https", Kind::S3, true),
];

/// What is said of anything else.
const NO_SCHEME: &str = "it does not begin with clickhouse://, kafka://, otlp:// or s3://";

/// Path of OTLP over HTTP, by its specification.
const OTLP_PATH: &str = "/v1/logs";

/// Lengths of a bucket's name.
const BUCKET_BYTES_MIN: usize = 3;
const BUCKET_BYTES_MAX: usize = 63;

/// Longest prefix: a key has at most 1,024 bytes, and a batch's name and folders follow.
const PREFIX_BYTES_MAX: usize = 800;

/// Longest name of a topic, by Kafka's own rules.
const TOPIC_BYTES_MAX: usize = 249;

/// Brokers that are asked first: any of them names the others.
const BROKERS_MAX: usize = 16;

/// Longest name of a spool's folder; of what is longer it has the begin and a digest.
const FOLDER_BYTES_MAX: usize = 200;

/// Longest name of a database or a table.
const NAME_BYTES_MAX: usize = 100;

/// A server, and where records go there.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT`, with brackets around IPv6; of Kafka several, with commas between them.
    pub host: String,
    /// The server is asked by TLS.
    pub is_encrypted: bool,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// What takes the records.
    pub place: Place,
}

/// What takes the records of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A table of ClickHouse.
    ClickHouse {
        /// Its database.
        database: String,
        /// Its name; that of the records' kind if none was written.
        table: Option<String>,
    },
    /// A topic of Kafka.
    Kafka {
        /// Its name; that of the records' kind if none was written.
        topic: Option<String>,
        /// How the password is shown, if it was written.
        mechanism: Option<Mechanism>,
    },
    /// Log records of OpenTelemetry.
    Otlp {
        /// Path of the service.
        path: String,
    },
    /// Objects of Parquet, by the interface of S3.
    S3 {
        /// `BUCKET` or `BUCKET/PREFIX`.
        path: String,
        /// The region, if it was written.
        region: Option<String>,
    },
}

/// Kinds of servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ClickHouse,
    Kafka,
    Otlp,
    S3,
}

impl Kind {
    /// The usual port, with TLS or without: of ClickHouse's HTTP interface, of Kafka's examples, of
    /// OTLP over HTTP by its specification, of HTTP.
    fn port(self, is_encrypted: bool) -> u16 {
        match (self, is_encrypted) {
            (Kind::ClickHouse, false) => 8123,
            (Kind::ClickHouse, true) => 8443,
            (Kind::Kafka, false) => 9092,
            (Kind::Kafka, true) => 9093,
            (Kind::Otlp, _) => 4318,
            (Kind::S3, false) => 80,
            (Kind::S3, true) => 443,
        }
    }
}

impl FromStr for Address {
    type Err = OutletError;

    /// # Errors
    /// It names no outlet.
    fn from_str(text: &str) -> Result<Address, OutletError> {
        let wrong = |reason| OutletError::Address { text: without_password(text), reason };
        let begin = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let scheme = SCHEMES.into_iter().find(|(scheme, ..)| *scheme == begin);
        let (_, kind, is_encrypted) = scheme.ok_or_else(|| wrong(NO_SCHEME))?;
        let (text, more) = match kind {
            Kind::Kafka => first_broker(text),
            _ => (Cow::Borrowed(text), ""),
        };
        let uri: Uri = text.parse().map_err(|_| wrong("a character or the port is not allowed"))?;
        let authority = uri.authority().ok_or_else(|| wrong("the host is missing"))?;
        if authority.host().is_empty() || authority.host() == "[]" {
            return Err(wrong("the host is missing"));
        }
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        // The library takes a port that is no number as none at all.
        let has_port = host.len() > authority.host().len();
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(wrong("the port is no number from 1 to 65535"));
        }
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (name.to_owned(), password.to_owned())
        });
        if kind == Kind::Kafka && user.as_ref().is_some_and(|(name, _)| name.contains(',')) {
            return Err(wrong("a user stands before the first of several brokers"));
        }
        let place = match kind {
            Kind::S3 => bucket(uri.path(), uri.query()).map_err(wrong)?,
            Kind::Kafka => topic(uri.path(), uri.query()).map_err(wrong)?,
            _ if uri.query().is_some() => return Err(wrong("what follows ? has no meaning here")),
            Kind::ClickHouse => table(uri.path()).map_err(wrong)?,
            Kind::Otlp => service(uri.path()),
        };
        let usual = kind.port(is_encrypted);
        let port = authority.port_u16().unwrap_or(usual);
        let mut host = format!("{}:{port}", authority.host());
        for other in more.split(',').filter(|other| !other.is_empty()) {
            host += &format!(",{}", broker(other, usual).map_err(wrong)?);
        }
        if host.matches(',').count() >= BROKERS_MAX {
            return Err(wrong("it names more than 16 brokers: any of them names the others"));
        }
        Ok(Address { host, is_encrypted, user, place })
    }
}

/// The text with the first of several brokers alone, and the others.
fn first_broker(text: &str) -> (Cow<'_, str>, &str) {
    let begin = text.find("://").map_or(0, |at| at + 3);
    let end = text[begin..].find(['/', '?']).map_or(text.len(), |at| begin + at);
    let hosts_at = text[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    match text[hosts_at..end].split_once(',') {
        None => (Cow::Borrowed(text), ""),
        Some((first, more)) => {
            (Cow::Owned([&text[..hosts_at], first, &text[end..]].concat()), more)
        }
    }
}

/// Another broker, with its port.
fn broker(text: &str, usual_port: u16) -> Result<String, &'static str> {
    let wrong = "brokers are HOST:PORT with commas between them";
    let authority: Authority = text.parse().map_err(|_| wrong)?;
    let host = authority.host();
    let has_port = text.len() > host.len();
    let has_wrong_port = has_port && authority.port_u16().is_none_or(|port| port == 0);
    if host.is_empty() || text.contains('@') || has_wrong_port {
        return Err(wrong);
    }
    Ok(format!("{host}:{}", authority.port_u16().unwrap_or(usual_port)))
}

fn topic(path: &str, query: Option<&str>) -> Result<Place, &'static str> {
    let topic = path.trim_matches('/');
    let is_of = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_topic = topic.len() <= TOPIC_BYTES_MAX && !matches!(topic, "." | "..");
    if !is_topic || !topic.bytes().all(is_of) {
        return Err("a topic has up to 249 letters, digits and ._-");
    }
    let mechanism = match query.map(|query| query.strip_prefix("sasl=")) {
        None => None,
        Some(name) => Some(
            name.and_then(mechanism)
                .ok_or("behind ? stands sasl=plain, sasl=scram-sha-256 or sasl=scram-sha-512")?,
        ),
    };
    Ok(Place::Kafka { topic: (!topic.is_empty()).then(|| topic.to_owned()), mechanism })
}

fn mechanism(name: &str) -> Option<Mechanism> {
    Mechanism::EACH.into_iter().find(|one| one.name().eq_ignore_ascii_case(name))
}

fn table(path: &str) -> Result<Place, &'static str> {
    let mut names = path.trim_start_matches('/').split('/');
    let database = names.next().filter(|name| !name.is_empty()).ok_or("the database is missing")?;
    let table = names.next().filter(|name| !name.is_empty());
    if names.next().is_some() {
        return Err("it has more than a database and a table");
    }
    if ![Some(database), table].into_iter().flatten().all(is_name) {
        return Err("a name has other characters than letters, digits and _");
    }
    Ok(Place::ClickHouse { database: database.to_owned(), table: table.map(str::to_owned) })
}

/// `DATABASE.TABLE`, for records of a kind.
pub(crate) fn table_name(database: &str, table: Option<&str>, kind: &str) -> String {
    format!("{database}.{}", table.unwrap_or(kind))
}

/// Names that need no quotes.
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins_well = !name.starts_with(|first: char| first.is_ascii_digit());
    name.len() <= NAME_BYTES_MAX && begins_well && name.bytes().all(is_letter)
}

fn service(path: &str) -> Place {
    let path = if matches!(path, "" | "/") { OTLP_PATH } else { path };
    Place::Otlp { path: path.to_owned() }
}

/// Names of regions, as providers have them.
fn is_region(name: &str) -> bool {
    let is_of = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=BUCKET_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_of)
}

fn bucket(path: &str, query: Option<&str>) -> Result<Place, &'static str> {
    let region = match query.map(|query| query.strip_prefix("region=")) {
        None => None,
        Some(Some(region)) if is_region(region) => Some(region.to_owned()),
        Some(_) => return Err("behind ? stands region=NAME"),
    };
    let path = path.trim_matches('/');
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    let is_of = |text: &str, more: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    let is_bucket = (BUCKET_BYTES_MIN..=BUCKET_BYTES_MAX).contains(&bucket.len())
        && is_of(bucket, b"-.")
        && !bucket.bytes().any(|byte| byte.is_ascii_uppercase());
    if !is_bucket {
        return Err("the bucket has 3 to 63 lower-case letters, digits, - and .");
    }
    if prefix.len() > PREFIX_BYTES_MAX || !is_of(prefix, b"-._=/") || prefix.contains("//") {
        return Err("a prefix has letters, digits and -._= between slashes");
    }
    Ok(Place::S3 { path: path.to_owned(), region })
}

impl Address {
    /// What URLs of the server begin with.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }

    fn scheme(&self) -> &'static str {
        let kind = match &self.place {
            Place::ClickHouse { .. } => Kind::ClickHouse,
            Place::Kafka { .. } => Kind::Kafka,
            Place::Otlp { .. } => Kind::Otlp,
            Place::S3 { .. } => Kind::S3,
        };
        let is_it = |(_, of, encrypted): &(&str, Kind, bool)| {
            (*of, *encrypted) == (kind, self.is_encrypted)
        };
        SCHEMES.into_iter().find(is_it).map_or("", |(scheme, ..)| scheme)
    }

    /// The server's port; `None` of Kafka's brokers, which name others, of any port.
    pub fn port(&self) -> Option<u16> {
        match self.place {
            Place::Kafka { .. } => None,
            _ => self.host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()),
        }
    }

    /// The same with the table or topic of a kind of records, where none was written.
    pub fn for_records(&self, kind: &str) -> Address {
        let mut address = self.clone();
        if let Place::ClickHouse { table: name, .. } | Place::Kafka { topic: name, .. } =
            &mut address.place
        {
            name.get_or_insert_with(|| kind.to_owned());
        }
        address
    }

    /// The statement that makes its table of records `R`, which are called `kind`, if it has one.
    pub fn create_table<R: Record>(&self, kind: &str) -> Option<String> {
        match &self.place {
            Place::ClickHouse { database, table } => {
                Some(create_table::<R>(&table_name(database, table.as_deref(), kind)))
            }
            Place::Kafka { .. } | Place::Otlp { .. } | Place::S3 { .. } => None,
        }
    }

    /// The folder of its spool: every name has another one, and all of them are plain.
    pub(crate) fn folder(&self, kind: &str) -> String {
        let mut folder = format!("{kind}-");
        let mut place = self.clone();
        // How a server is asked, and not where records go: the right way delivers what a wrong one
        // left.
        match &mut place.place {
            Place::S3 { region, .. } => *region = None,
            Place::Kafka { mechanism, .. } => *mechanism = None,
            Place::ClickHouse { .. } | Place::Otlp { .. } => {}
        }
        for byte in place.to_string().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => {
                    folder.push(char::from(byte));
                }
                other => folder.push_str(&format!("_{other:02x}")),
            }
        }
        if folder.len() > FOLDER_BYTES_MAX {
            let digest = Sha256::digest(&folder);
            folder.truncate(FOLDER_BYTES_MAX / 2);
            folder.push('-');
            digest[..16].iter().for_each(|byte| folder.push_str(&format!("{byte:02x}")));
        }
        folder
    }
}

/// For errors: a password has no place there.
fn without_password(text: &str) -> String {
    let Some((before, after)) = text.rsplit_once('@') else { return text.to_owned() };
    let user_at = before.find("://").map_or(0, |at| at + 3);
    let (scheme, user) = before.split_at(user_at);
    format!("{scheme}{}@{after}", user.split(':').next().unwrap_or_default())
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map_or_else(String::new, |(name, _)| format!("{name}@"));
        write!(f, "{}://{user}{}", self.scheme(), self.host)?;
        match &self.place {
            Place::ClickHouse { database, table: Some(table) } => write!(f, "/{database}/{table}"),
            Place::ClickHouse { database, table: None } => write!(f, "/{database}"),
            Place::Kafka { topic, mechanism } => {
                write!(f, "/{}", topic.as_deref().unwrap_or_default())?;
                let name = mechanism.map(|mechanism| mechanism.name().to_ascii_lowercase());
                name.map_or(Ok(()), |name| write!(f, "?sasl={name}"))
            }
            Place::Otlp { path } => f.write_str(path),
            Place::S3 { path, region: None } => write!(f, "/{path}"),
            Place::S3 { path, region: Some(region) } => write!(f, "/{path}?region={region}"),
        }
    }
}

/// Without the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlets_are_read_and_written_back_with_what_is_usual() {
        let cases = [
            ("clickhouse://db.example/net", "clickhouse://db.example:8123/net/dns"),
            ("clickhouse://[::1]:9000/net/t_1", "clickhouse://[::1]:9000/net/t_1"),
            ("clickhouse://me:secret@h:1/net/", "clickhouse://me@h:1/net/dns"),
            ("otlp://127.0.0.1", "otlp://127.0.0.1:4318/v1/logs"),
            ("otlp://h:9428/insert/v1/logs", "otlp://h:9428/insert/v1/logs"),
            ("kafka://h", "kafka://h:9092/dns"),
            ("kafkas://h/a.b-c", "kafka+tls://h:9093/a.b-c"),
            (
                "kafka+tls://me:secret@a,b:1,[::1]/t?sasl=scram-sha-512",
                "kafka+tls://me@a:9093,b:1,[::1]:9093/t?sasl=scram-sha-512",
            ),
            ("clickhouses://h/net", "clickhouse+https://h:8443/net/dns"),
            ("clickhouse+https://me:secret@h:9/net/t", "clickhouse+https://me@h:9/net/t"),
            ("otlps://[::1]", "otlp+https://[::1]:4318/v1/logs"),
            ("otlp+https://h:443/x", "otlp+https://h:443/x"),
            ("s3://h:8333/records", "s3://h:8333/records"),
            ("s3://h:8333/records?region=gra", "s3://h:8333/records?region=gra"),
            (
                "s3+https://key@s3.eu-west-1.amazonaws.com/b.c/a/n=1/",
                "s3+https://key@s3.eu-west-1.amazonaws.com:443/b.c/a/n=1",
            ),
        ];
        for (text, shown) in cases {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.for_records("dns").to_string(), shown);
        }
        let address: Address = "clickhouse://me:secret@h:1/net".parse().unwrap();
        assert_eq!(address.user, Some(("me".into(), "secret".into())));
        assert!(!format!("{address:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_outlet_is_refused_with_the_reason() {
        let cases = [
            ("127.0.0.1:8123", "begin with"),
            ("mysql://h/t", "begin with"),
            ("kafka://h/a b", "character"),
            ("kafka://h/a/b", "a topic has"),
            ("kafka://h/..", "a topic has"),
            ("kafka://h/t?sasl=gssapi", "sasl=plain"),
            ("kafka://h,/x:/t", "a topic has"),
            ("kafka://h,g:0/t", "commas"),
            ("kafka://h,me:secret@g/t", "before the first"),
            ("kafka://h,g#x/t", "commas"),
            ("kafka://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q/t", "16 brokers"),
            ("clickhouse://h:8123", "database is missing"),
            ("clickhouse://h/a/b/c", "more than a database"),
            ("clickhouse://h/a`b", "character"),
            ("clickhouse://h/1a", "characters"),
            ("clickhouse://h/a.b", "characters"),
            ("clickhouse:///net", ""),
            ("otlp://", ""),
            ("s3://h", "the bucket has"),
            ("s3://h/ab", "the bucket has"),
            ("s3://h/Abc", "the bucket has"),
            ("s3://h/abc/a//b", "a prefix has"),
            ("s3://h/abc?x=1", "region=NAME"),
            ("s3://h/abc?region=a/b", "region=NAME"),
            ("s3://h/abc/a%20b", "a prefix has"),
            ("otlp://h:0/", "port"),
            ("otlp://h:65536/", "port"),
            ("otlp://h:/", "port"),
            ("otlp://h/v1/logs?x=1", "?"),
            ("otlp://me:secret@h:0/", "otlp://me@h:0/"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("secret"), "{text}: {error}");
        }
        let error = "https://h/x".parse::<Address>().unwrap_err().to_string();
        assert!(error.contains("clickhouse+https://"), "{error}");
    }

    #[test]
    fn each_outlet_has_a_folder_of_its_own() {
        let folder = |text: &str| text.parse::<Address>().unwrap().folder("dns");
        assert_eq!(folder("otlp://h:1/a_b"), "dns-otlp_3a_2f_2fh_3a1_2fa_5fb");
        assert_ne!(folder("otlp://h:1/a/b"), folder("otlp://h:1/a_2fb"));
        assert_eq!(folder("s3://h/abc?region=x"), folder("s3://h/abc"));
        let long = |end: &str| folder(&format!("kafka://{}/{end}", ["h.example"; 16].join(",")));
        assert!(long("a").len() <= FOLDER_BYTES_MAX && long("a") != long("b"), "{}", long("a"));
    }
}
