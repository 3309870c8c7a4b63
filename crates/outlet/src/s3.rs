//! Object stores with the interface of S3: a batch is an object of Parquet for each hour of its
//! records.
//!
//! Keys are those of a [store](crate::StoreOptions) on this machine, below a prefix, with the
//! batch's token as the name: an object that is put again takes the place of itself, so that each
//! record is there once.

mod signature;

use crate::batch::Batch;
use crate::columnar::{Columnar, ENDING};
use crate::engine::{Engine, Outcome};
use crate::http::Client;
use jiff::Timestamp;
use ringside_arrow::WrongRecord;
use signature::{Request, Signer, path_of};
use std::time::{Duration, Instant};

/// Where what is not of a region's own host lies: what AWS calls its first, and others take.
const REGION: &str = "us-east-1";

/// Objects of a bucket.
pub(crate) struct S3 {
    client: Client,
    columnar: Columnar,
    origin: String,
    host: String,
    /// Before the names of folders, with a slash at its begin and none at its end.
    folder: String,
    /// Without a key requests are not signed.
    signer: Option<Signer>,
    /// How many objects of the batch with this token are there: the next try goes on behind them.
    done: (String, usize),
}

/// Where objects go.
pub(crate) struct Target<'t> {
    /// What URLs of the server begin with.
    pub origin: &'t str,
    /// `BUCKET/PREFIX`.
    pub path: &'t str,
    /// The region, where it is not that of the host's name.
    pub region: Option<&'t str>,
    /// Name and secret of a key.
    pub key: Option<&'t (String, String)>,
}

impl S3 {
    /// For records that are called `kind`.
    pub fn new(client: Client, columnar: Columnar, target: &Target<'_>, kind: &str) -> S3 {
        let host = host(target.origin);
        let region = target.region.unwrap_or_else(|| region(host)).to_owned();
        S3 {
            client,
            columnar,
            origin: target.origin.to_owned(),
            host: host.to_owned(),
            folder: format!("/{}/{kind}", target.path),
            signer: target.key.map(|key| Signer { key: key.clone(), region }),
            done: (String::new(), 0),
        }
    }

    /// Puts an object; `None` if it is there.
    fn put(&self, key: &str, body: &[u8], time: Duration) -> Option<Outcome> {
        let path = path_of(key);
        let mut headers = vec![("host", self.host.clone())];
        if let Some(signer) = &self.signer {
            let signed = [("host", &*self.host)];
            let request = Request { method: "PUT", path: &path, headers: &signed, body };
            headers.extend(signer.sign(&request, Timestamp::now()));
        }
        let url = format!("{}{path}", self.origin);
        match self.client.put(&url, &headers, body, time) {
            Err(why) => Some(Outcome::Failed(why)),
            // Nothing is wrong with a body that is Parquet: what is refused an operator can put
            // right (a bucket, a key, a quota, a clock).
            Ok(answer) => answer.failure().map(|failure| match failure {
                Outcome::Refused(why) => Outcome::Failed(why),
                failure => failure,
            }),
        }
    }
}

impl Engine for S3 {
    fn deliver(&mut self, batch: &Batch, time: Duration) -> Outcome {
        let (until, token) = (Instant::now() + time, batch.token());
        let files = match self.columnar.files(batch) {
            Ok(files) => files,
            Err(WrongRecord(why)) => return Outcome::Refused(why),
        };
        if self.done.0 != token {
            self.done = (token.clone(), 0);
        }
        for (hour, file) in files.iter().skip(self.done.1) {
            let key = format!("{}/{hour}/{token}{ENDING}", self.folder);
            let left = until.saturating_duration_since(Instant::now());
            if let Some(failure) = self.put(&key, file, left) {
                return failure;
            }
            self.done.1 += 1;
        }
        Outcome::acknowledged()
    }
}

/// What a request names as its host: without the port where that is the usual one.
fn host(origin: &str) -> &str {
    let (scheme, host) = origin.split_once("://").unwrap_or(("", origin));
    let usual = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(usual).unwrap_or(host)
}

/// The region of a host `s3.REGION.PROVIDER`, as AWS and others have them: their regions have
/// dashes, which sets them apart from the networks of other hosts.
fn region(host: &str) -> &str {
    let labels: Vec<&str> = host.split('.').collect();
    match labels[..] {
        ["s3", "dualstack", region, _, _, ..] | ["s3", region, _, _, ..]
            if region.contains('-') =>
        {
            region
        }
        _ => REGION,
    }
}

#[cfg(test)]
mod tests;
