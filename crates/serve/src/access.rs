//! Who may do what.
//!
//! That a connection comes from this host proves nothing: any page that a browser here shows can
//! send requests to it, by a name of its own that leads here. So each request has to name this
//! service as its host, and what another site makes a browser send is refused.

use crate::limits::BODY_BYTES_MAX;
use crate::peer::Peer;
use crate::problem::Problem;
use crate::service::{Caller, Service};
use crate::tokens::{Scope, Scopes};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Instant;

/// The cookie that bears a token: a stream of events cannot set headers.
pub const COOKIE: &str = "ringside";

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// In addition where TLS is spoken: a browser that was here asks this host by nothing else, for 30
/// days. It means every port: a year, as is usual, would be long for a name that has other uses.
const HSTS: &str = "max-age=2592000";

/// Lets through what its sender may ask for, with a [`Caller`].
pub async fn guard(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_encrypted = service.config.tls.is_some() && !names_localhost(&request);
    let mut response = match caller(&service, &peer, &request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            match with_body(&service, request).await {
                Ok(request) => next.run(request).await,
                Err(problem) => problem.into_response(),
            }
        }
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if is_encrypted {
        let value = HeaderValue::from_static(HSTS);
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, value);
    }
    response
}

/// The request with its whole body: read here, for as long and as far as any may be.
async fn with_body(service: &Service, request: Request) -> Result<Request, Problem> {
    let (head, body) = request.into_parts();
    let read = axum::body::to_bytes(body, BODY_BYTES_MAX);
    match tokio::time::timeout(service.config.limits.head_time_max, read).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, body.into())),
        Ok(Err(_)) => Err(Problem::too_large(BODY_BYTES_MAX)),
        Err(_) => Err(Problem::slow()),
    }
}

fn caller(service: &Service, peer: &Peer, request: &Request) -> Result<Caller, Problem> {
    let host = host(request)?;
    let tls = service.config.tls.as_ref();
    if let Some(hosts) = service.hosts.as_ref().filter(|_| !peer.is_local_socket)
        && !hosts.hold(&host, peer.server, tls)
    {
        let text = "this service is not known by that name: use its address or a name of its \
                    certificate, or start it with --host NAME";
        return Err(Problem::forbidden(text));
    }
    check_site(request, &host, tls.is_some())?;
    let Some(scope) = needed(request.method(), request.uri().path()) else {
        return Ok(Caller { name: peer.name.clone(), scopes: Scopes::default() });
    };
    let caller = known(service, peer, request.headers())?;
    if !caller.scopes.allow(scope) {
        let text = format!("this token lacks the scope {}", scope.name());
        return Err(Problem::forbidden(text));
    }
    Ok(caller)
}

/// By the token where there are tokens, else by the user whose process it is.
///
/// # Errors
/// It is not let in.
pub fn known(service: &Service, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Problem> {
    let Some(tokens) = &service.config.tokens else {
        let own = rustix::process::getuid().as_raw();
        let may = |uid: u32| uid == own || uid == 0 || service.config.users.contains(&uid);
        return match peer.uid {
            Some(_) if service.config.metrics_only => {
                Ok(Caller { name: peer.name.clone(), scopes: Scopes::READ })
            }
            Some(uid) if may(uid) => Ok(Caller { name: peer.name.clone(), scopes: Scopes::ALL }),
            _ => Err(Problem::forbidden(format!(
                "{} is not served: --user NAME lets a user in, or start the service with --tokens",
                peer.name
            ))),
        };
    };
    let (other, now) = (peer.other_host(), Instant::now());
    if let Some(left_out) = other.and_then(|address| service.guesses.left_out(address, now)) {
        return Err(Problem::guesser(left_out));
    }
    let secret = bearer(headers).or_else(|| cookie(headers));
    let holder = secret.and_then(|secret| tokens.holder(secret));
    if let (Some(_), None, Some(address)) = (secret, holder, other) {
        service.guesses.note(address, now);
    }
    holder
        .map(|token| Caller {
            name: format!("{}, {}", token.name, peer.name),
            scopes: token.scopes,
        })
        .ok_or_else(|| Problem::unknown_client("a token is needed: Authorization: Bearer TOKEN"))
}

/// True of a name that each host has: what a browser keeps of it is kept of all of them.
fn names_localhost(request: &Request) -> bool {
    host(request).is_ok_and(|host| host == "localhost" || host.starts_with("localhost:"))
}

/// What a request needs; nothing for the page itself, which holds no data, and to sign in.
fn needed(method: &Method, path: &str) -> Option<Scope> {
    let is_read = [Method::GET, Method::HEAD].contains(method);
    match path {
        "/" | "/app.js" | "/app.css" | "/icon.svg" if is_read => None,
        "/api/v1/session" => None,
        "/api/v1/packets" | "/api/v1/talkers" | "/api/v1/sql" => Some(Scope::Packets),
        // They hold what the packets do: names, addresses of pages, who called whom.
        _ if path.starts_with("/api/v1/records/") => Some(Scope::Packets),
        _ if path.starts_with("/api/v1/calls/") => Some(Scope::Packets),
        "/api/v1/rules/test" => Some(Scope::Read),
        _ if is_read => Some(Scope::Read),
        _ => Some(Scope::Control),
    }
}

/// By which name the service was asked.
fn host(request: &Request) -> Result<String, Problem> {
    let mut named = request.headers().get_all(header::HOST).iter();
    let host = match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    };
    let host = host.ok_or_else(|| Problem::bad("one Host header is needed"))?.to_ascii_lowercase();
    match request.uri().authority() {
        Some(other) if !other.as_str().eq_ignore_ascii_case(&host) => {
            Err(Problem::bad("the address and the Host header name different hosts"))
        }
        _ => Ok(host),
    }
}

/// Refuses what another site has a browser send. A proxy may have taken TLS off before, but not the
/// service itself: where it speaks TLS, no page of its own came without.
fn check_site(request: &Request, host: &str, has_tls: bool) -> Result<(), Problem> {
    let text = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
    let is_page = request.uri().path() == "/" && request.method() == Method::GET;
    let site = text("sec-fetch-site");
    let is_own = site.is_none_or(|site| [&b"same-origin"[..], b"none"].contains(&site));
    let origin = text("origin");
    let is_same = origin.is_none_or(|origin| {
        let plain = origin.strip_prefix(b"http://").filter(|_| !has_tls);
        let rest = plain.or(origin.strip_prefix(b"https://"));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_bytes()))
    });
    if (is_own || is_page) && is_same {
        return Ok(());
    }
    Err(Problem::forbidden("requests of other sites are refused"))
}

/// The token of an `Authorization` header.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value)).find(|(name, _)| *name == COOKIE).map(|p| p.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::WRONG_TOKENS_MAX;
    use crate::service::Config;
    use axum::body::Body;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let start = Request::builder().method(method).uri(path);
        let add = |start: axum::http::request::Builder, (name, value): &(&str, &str)| {
            start.header(*name, *value)
        };
        headers.iter().fold(start, add).body(Body::empty()).unwrap()
    }

    fn by_tcp(uid: Option<u32>) -> Peer {
        let [client, server] = ["127.0.0.1:50000", "127.0.0.1:8080"].map(|it| it.parse().unwrap());
        Peer { uid, ..Peer::remote(client, server) }
    }

    /// What becomes of a request of root by TCP.
    fn answer(method: &str, headers: &[(&str, &str)]) -> Result<Caller, Problem> {
        let hosts = vec!["ringside.example".into()];
        let service = Service::new(Config { hosts, ..Config::default() }, Some(8080));
        let request = request(method, "/api/v1/captures", headers);
        caller(&service, &by_tcp(Some(0)), &request)
    }

    #[test]
    fn a_name_that_somebody_else_gave_this_host_is_refused() {
        for host in ["127.0.0.1:8080", "LOCALHOST:8080", "[::1]:8080", "Ringside.example"] {
            assert!(answer("GET", &[("host", host)]).is_ok(), "{host}");
        }
        for host in ["evil.example:8080", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example", ""]
        {
            assert!(answer("GET", &[("host", host)]).is_err(), "{host}");
        }
        assert!(answer("GET", &[]).is_err());
        assert!(answer("GET", &[("host", "localhost:8080"), ("host", "evil.example")]).is_err());
    }

    #[test]
    fn what_another_site_sends_is_refused() {
        let own = ("host", "localhost:8080");
        for other in [("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8080")] {
            assert!(answer("POST", &[own, other]).is_ok(), "{other:?}");
        }
        for other in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example"),
            ("origin", "http://localhost:8081"),
            ("origin", "null"),
        ] {
            assert!(answer("POST", &[own, other]).is_err(), "{other:?}");
            assert!(answer("GET", &[own, other]).is_err(), "{other:?}");
        }
    }

    #[test]
    fn without_tokens_the_kernel_says_who_it_is() {
        let service = Service::new(Config { users: vec![1001], ..Config::default() }, Some(8080));
        let of = |uid| {
            let headers = [("host", "localhost:8080")];
            caller(&service, &by_tcp(uid), &request("GET", "/metrics", &headers)).is_ok()
        };
        let own = rustix::process::getuid().as_raw();
        assert!(of(Some(own)) && of(Some(0)) && of(Some(1001)));
        assert!(!of(Some(1002)) && !of(None));
        let page = request("GET", "/", &[("host", "localhost:8080")]);
        let may = caller(&service, &by_tcp(None), &page).unwrap().scopes;
        assert_eq!(may, Scopes::default());
    }

    #[test]
    fn an_address_elsewhere_that_guesses_is_left_out_and_this_host_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        // printf look | sha256sum
        let hash = "3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8";
        std::fs::write(&path, format!("looker read {hash}")).unwrap();
        let tokens = Some(crate::tokens::Tokens::load(&path).unwrap());
        let service = Service::new(Config { tokens, ..Config::default() }, Some(8443));
        let of = |client: &str, token: Option<&str>| {
            let [client, server] = [client, "192.0.2.1:8443"].map(|it| it.parse().unwrap());
            let mut headers = HeaderMap::new();
            if let Some(token) = token {
                let value = format!("Bearer {token}").parse().unwrap();
                headers.insert(header::AUTHORIZATION, value);
            }
            let known = known(&service, &Peer::remote(client, server), &headers);
            known.map_or_else(|problem| problem.into_response().status().as_u16(), |_| 200)
        };
        for _ in 0..2 * WRONG_TOKENS_MAX {
            assert_eq!(of("192.0.2.9:1", None), 401, "that is no guess");
            assert_eq!(of("127.0.0.1:1", Some("none")), 401);
        }
        for port in 1..=WRONG_TOKENS_MAX {
            assert_eq!(of("192.0.2.9:1", Some("look")), 200);
            assert_eq!(of(&format!("192.0.2.9:{port}"), Some("none")), 401);
        }
        assert_eq!([of("192.0.2.9:1", Some("look")), of("192.0.2.9:1", None)], [429; 2]);
        assert_eq!(of("[::ffff:192.0.2.9]:1", Some("look")), 429);
        assert_eq!([of("192.0.2.8:1", Some("look")), of("127.0.0.1:1", Some("look"))], [200; 2]);
    }

    #[test]
    fn every_way_needs_its_scope() {
        for (method, path, scope) in [
            ("GET", "/", None),
            ("POST", "/", Some(Scope::Control)),
            ("GET", "/metrics", Some(Scope::Read)),
            ("GET", "/api/v1/find", Some(Scope::Read)),
            ("GET", "/api/v1/packets", Some(Scope::Packets)),
            ("POST", "/api/v1/packets", Some(Scope::Packets)),
            ("GET", "/api/v1/records/flows", Some(Scope::Packets)),
            ("GET", "/api/v1/sql", Some(Scope::Packets)),
            ("HEAD", "/api/v1/records/dns", Some(Scope::Packets)),
            ("GET", "/api/v1/talkers", Some(Scope::Packets)),
            ("GET", "/api/v1/calls/1@host/ladder", Some(Scope::Packets)),
            ("GET", "/api/v1/recordings", Some(Scope::Read)),
            ("GET", "/api/v1/captures/1/rules", Some(Scope::Read)),
            ("POST", "/api/v1/captures/1/rules", Some(Scope::Control)),
            ("POST", "/api/v1/captures/1/rules/undo", Some(Scope::Control)),
            ("DELETE", "/anything", Some(Scope::Control)),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(needed(&method, path), scope, "{method} {path}");
        }
    }

    #[test]
    fn a_token_comes_by_header_or_cookie() {
        let of = |name: &str, value: &str| request("GET", "/", &[(name, value)]).headers().clone();
        assert_eq!(bearer(&of("authorization", "Bearer abc")), Some("abc"));
        assert_eq!(bearer(&of("authorization", "Basic abc")), None);
        assert_eq!(cookie(&of("cookie", "a=b; ringside=abc; c")), Some("abc"));
        assert_eq!(cookie(&of("cookie", "xringside=abc")), None);
    }
}
