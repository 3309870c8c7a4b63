//! The first bytes of a connection where TLS is spoken: a handshake, or what should have been one.

use rustls::ServerConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Bytes of a request without TLS that are read before its connection is closed: closing with
/// unread bytes takes the answer away from its client.
const PLAIN_BYTES_MAX: u64 = 64 << 10;

/// The encrypted connection, unless the handshake fails or takes longer than `time_max`.
pub async fn shake(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    time_max: Duration,
) -> Option<TlsStream<TcpStream>> {
    match tokio::time::timeout(time_max, begin(stream, config)).await {
        Ok(stream) => stream,
        Err(_) => {
            tracing::debug!("a handshake did not end in time");
            None
        }
    }
}

async fn begin(stream: TcpStream, config: Arc<ServerConfig>) -> Option<TlsStream<TcpStream>> {
    let mut first = [0];
    // Methods of HTTP begin with a letter, and records of TLS with their type, of which no letter
    // is one.
    if stream.peek(&mut first).await.ok()? == 1 && first[0].is_ascii_alphabetic() {
        answer_plainly(stream).await;
        return None;
    }
    match TlsAcceptor::from(config).accept(stream).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            tracing::debug!("a handshake failed: {error}");
            None
        }
    }
}

/// Says to a client without TLS what it should have asked. As far as that fails, it has gone.
async fn answer_plainly(mut stream: TcpStream) {
    let Ok(address) = stream.local_addr() else { return };
    let body = format!("this port speaks TLS: https://{address}/\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    if stream.write_all(answer.as_bytes()).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut rest = stream.take(PLAIN_BYTES_MAX);
        let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    }
}
