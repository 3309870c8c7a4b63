//! What authenticates, and is not kept unless that is asked for.

use crate::text::Text;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Stands where something is hidden.
const HIDDEN: &[u8] = b"***";

/// Names in a query, or in a path's parameters, whose values are secrets. In lower case, without
/// what separates words.
const SECRETS: [&[u8]; 32] = [
    b"accesskey",
    b"accesstoken",
    b"apikey",
    b"auth",
    b"authorization",
    b"authtoken",
    b"awsaccesskeyid",
    b"bearer",
    b"clientsecret",
    b"credential",
    b"credentials",
    b"csrf",
    b"csrftoken",
    b"idtoken",
    b"jsessionid",
    b"jwt",
    b"passphrase",
    b"passwd",
    b"password",
    b"phpsessid",
    b"privatekey",
    b"pwd",
    b"refreshtoken",
    b"secret",
    b"session",
    b"sessionid",
    b"sessiontoken",
    b"sid",
    b"sig",
    b"signature",
    b"token",
    b"xamzsignature",
];

/// Short ones that are taken for such only as a whole name.
const SHORT: [&[u8]; 4] = [b"pass", b"pw", b"key", b"code"];

/// A target or a URL without user and password, and without the values of secrets in its query.
pub(crate) fn target(target: &[u8], shows_credentials: bool) -> Text {
    let may_hide = |byte: &u8| *byte == b'@' || ends_part(byte);
    if shows_credentials || !target.iter().any(may_hide) {
        return target.into();
    }
    let mut out = Vec::with_capacity(target.len());
    let rest = authority(target, &mut out);
    let mut parts = rest.split_inclusive(ends_part);
    // The path, or what stands before the first parameter.
    out.extend(parts.next().unwrap_or_default());
    // A secret may have a `;` or `?` in it, and go on in the next part.
    let mut goes_on = false;
    for part in parts {
        let has_end = part.last().is_some_and(ends_part);
        let (text, end) = part.split_at(part.len() - usize::from(has_end));
        let name = text.iter().position(|&byte| byte == b'=').map(|equals| &text[..=equals]);
        let is_hidden = match name {
            Some(name) => is_secret(name),
            None => goes_on && !text.is_empty(),
        };
        match is_hidden {
            true => out.extend([name.unwrap_or_default(), HIDDEN].concat()),
            false => out.extend(text),
        }
        out.extend(end);
        goes_on = (is_hidden || goes_on && text.is_empty()) && matches!(end, b";" | b"?");
    }
    out.into()
}

/// True if a byte ends a part of a target that may be a parameter.
fn ends_part(byte: &u8) -> bool {
    matches!(byte, b'?' | b'&' | b';' | b'#')
}

/// Copies scheme and `//`, and says that user and password are hidden if there are some; the rest.
fn authority<'t>(target: &'t [u8], out: &mut Vec<u8>) -> &'t [u8] {
    let Some(start) = target.windows(3).position(|three| three == b"://").map(|at| at + 3) else {
        return target;
    };
    let is_scheme = target[..start - 3].iter().all(u8::is_ascii_alphanumeric);
    let rest = &target[start..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    match rest[..end].iter().rposition(|&byte| byte == b'@') {
        Some(at) if is_scheme => {
            out.extend(&target[..start]);
            out.extend(HIDDEN);
            &rest[at..]
        }
        _ => target,
    }
}

/// True if what has this name is a secret; a `=` at its end does not matter.
fn is_secret(name: &[u8]) -> bool {
    let separates = |byte: &u8| matches!(byte, b'_' | b'-' | b'.' | b'[' | b']' | b'%' | b'=');
    let name = decoded(name);
    let plain: Vec<u8> =
        name.iter().filter(|byte| !separates(byte)).map(u8::to_ascii_lowercase).collect();
    SHORT.contains(&plain.as_slice())
        || SECRETS
            .iter()
            .any(|secret| plain == *secret || secret.len() >= 5 && plain.ends_with(secret))
}

/// A name without percent-encoding (RFC 3986, section 2.1), as a server reads it.
fn decoded(name: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (mut out, mut rest) = (Vec::with_capacity(name.len()), name);
    while let [first, after @ ..] = rest {
        let number = match rest {
            [b'%', high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        let byte;
        (byte, rest) = match number {
            Some((high, low)) => ((high << 4 | low) as u8, &after[2..]),
            None => (*first, after),
        };
        out.push(byte);
    }
    out
}

/// The name of the user by the value of Authorization, and the password of Basic authentication.
pub(crate) fn user(value: &[u8], shows_credentials: bool) -> (Option<Text>, Option<Text>) {
    let value = value.trim_ascii();
    let space = value.iter().position(|&byte| byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at(space);
    let rest = rest.trim_ascii();
    if rest.is_empty() {
        return (None, None);
    }
    if scheme.eq_ignore_ascii_case(b"basic") {
        let Ok(pair) = BASE64_STANDARD.decode(rest) else { return (None, None) };
        let colon = pair.iter().position(|&byte| byte == b':').unwrap_or(pair.len());
        let password = pair.get(colon + 1..).filter(|_| shows_credentials);
        return (Some(pair[..colon].into()), password.map(Text::from));
    }
    if scheme.eq_ignore_ascii_case(b"digest") {
        let key = b"username=\"";
        let at = rest.windows(key.len()).position(|part| part.eq_ignore_ascii_case(key));
        let name = at.and_then(|at| rest.get(at + key.len()..)).unwrap_or_default();
        let end = name.iter().position(|&byte| byte == b'"');
        return (end.map(|end| name[..end].into()), None);
    }
    (None, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_where_they_stand() {
        for (given, expected) in [
            ("/a?b=c", "/a?b=c"),
            ("/a?password=x&b=c", "/a?password=***&b=c"),
            ("/a?b=c&user_password=x#f", "/a?b=c&user_password=***#f"),
            ("/a;jsessionid=AB?q=1", "/a;jsessionid=***?q=1"),
            ("/a?access_token=x&X-Amz-Signature=y", "/a?access_token=***&X-Amz-Signature=***"),
            ("/a?monkey=1&key=2&token", "/a?monkey=1&key=***&token"),
            ("http://me:word@h/a?b=http://x:y@z/", "http://***@h/a?b=http://x:y@z/"),
            ("/@user?a=b", "/@user?a=b"),
            ("me@h:443", "me@h:443"),
            ("/?password=", "/?password=***"),
            ("https://app/cb#access_token=x", "https://app/cb#access_token=***"),
            ("/a&token=x", "/a&token=***"),
            // Encoded, as forms and scripts write it.
            ("/?user%5Bpassword%5D=x", "/?user%5Bpassword%5D=***"),
            ("/?%70ass%77or%64=x&a%3d=b&50%=c", "/?%70ass%77or%64=***&a%3d=b&50%=c"),
            // Of a value the rest, whatever it has been cut at.
            ("/?password=a;b;c?d&e&f=g", "/?password=***;***;***?***&e&f=g"),
            ("/a;jsessionid=x?b&c", "/a;jsessionid=***?***&c"),
        ] {
            let hidden = target(given.as_bytes(), false);
            assert_eq!(String::from_utf8_lossy(&hidden), expected);
            assert_eq!(*target(given.as_bytes(), true), *given.as_bytes());
        }
    }

    #[test]
    fn who_asks_is_no_secret_but_the_password_is() {
        let texts = |value: &str, shows| {
            let (user, password) = user(value.as_bytes(), shows);
            let text = |text: Option<Text>| text.map(|t| String::from_utf8_lossy(&t).into_owned());
            (text(user), text(password))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(texts("Basic bWU6d29yZA==", false), (some("me"), None));
        assert_eq!(texts("basic  bWU6d29yZA== ", true), (some("me"), some("word")));
        let digest = "Digest username=\"me\", realm=\"r\", response=\"x\"";
        assert_eq!(texts(digest, true), (some("me"), None));
        for other in ["Bearer abc", "Basic !", "Basic", ""] {
            assert_eq!(texts(other, true), (None, None), "{other}");
        }
    }
}
