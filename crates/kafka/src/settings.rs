//! Which cluster and topic, and as whom.

/// Longest message, with its key: what brokers take by default.
pub const MESSAGE_BYTES_MAX: usize = 1_000_000;
/// The same with what the library puts around it; brokers take 1,048,588.
const MESSAGE_SET_BYTES_MAX: &str = "1010000";

/// Which cluster and topic, and as whom.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `HOST:PORT`, or several with commas between them; they name the others.
    pub brokers: String,
    /// The topic, whose first partition also says how far a producer has come.
    pub topic: String,
    /// What the producer is called: one of the same name that is still there is shut out. It is
    /// the `transactional.id`, and the group of the position.
    pub name: String,
    /// Certificates of the authorities that vouch for the brokers, as PEM: TLS is spoken.
    pub authorities: Option<String>,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// How the password is shown.
    pub mechanism: Mechanism,
}

/// How a password is shown (SASL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// As it is.
    #[default]
    Plain,
    /// That it is known (RFC 5802), by SHA-256 (RFC 7677).
    ScramSha256,
    /// The same by SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// Each.
    pub const EACH: [Mechanism; 3] =
        [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512];

    /// Its registered name.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl Settings {
    /// Settings of the producer and of the consumer that asks for the position, by the names of
    /// librdkafka's CONFIGURATION.md.
    pub(crate) fn of_client(&self) -> Vec<(&'static str, &str)> {
        let protocol = match (self.user.is_some(), self.authorities.is_some()) {
            (false, false) => "plaintext",
            (false, true) => "ssl",
            (true, false) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        let mut all = vec![
            ("bootstrap.servers", &*self.brokers),
            ("client.id", "ringside"),
            ("security.protocol", protocol),
            ("socket.keepalive.enable", "true"),
            // Within a try's time.
            ("socket.timeout.ms", "10000"),
            ("socket.connection.setup.timeout.ms", "5000"),
            // More than any answer has that is asked for.
            ("receive.message.max.bytes", "8388608"),
            ("message.max.bytes", MESSAGE_SET_BYTES_MAX),
            // A server that is away is asked again within the pause between two tries.
            ("reconnect.backoff.max.ms", "1000"),
        ];
        if let Some(pem) = &self.authorities {
            all.push(("ssl.ca.pem", pem));
            all.push(("ssl.endpoint.identification.algorithm", "https"));
        }
        if let Some((name, password)) = &self.user {
            all.push(("sasl.mechanisms", self.mechanism.name()));
            all.extend([("sasl.username", &**name), ("sasl.password", &**password)]);
        }
        all
    }

    pub(crate) fn of_producer(&self) -> Vec<(&'static str, &str)> {
        let mut all = self.of_client();
        all.extend([
            ("transactional.id", &*self.name),
            ("compression.type", "lz4"),
            // Java's clients spread keys so.
            ("partitioner", "murmur2_random"),
            ("delivery.report.only.error", "true"),
        ]);
        all
    }

    pub(crate) fn of_consumer(&self) -> Vec<(&'static str, &str)> {
        let mut all = self.of_client();
        all.extend([
            ("group.id", &*self.name),
            ("enable.auto.commit", "false"),
            ("fetch.max.bytes", "4194304"),
            // A position that is about to be written is waited for.
            ("isolation.level", "read_committed"),
        ]);
        all
    }
}
