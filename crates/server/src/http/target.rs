//! Target of a request, and what is answered before any page is looked at.
//!
//! Compat: these are the answers of Go's HTTP server and its router to odd requests: a missing
//! host, `*`, a path that is not in its shortest form.

use bytes::Bytes;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, EXPECT, HOST, HeaderValue, LOCATION};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};

use myelin_monitor::PageResponse;

use super::body::Body;

/// Where a request leads.
#[derive(Debug)]
pub(super) enum RequestTarget {
    /// To a page, if there is one: the path, percent-encoded, and what follows the `?`.
    Page { path: String, query: String },
    /// To no page.
    PageResponse(Response<Body>),
}

impl RequestTarget {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        read(request).unwrap_or_else(|answer| RequestTarget::PageResponse(*answer))
    }
}

fn read<B>(request: &Request<B>) -> Result<RequestTarget, Box<Response<Body>>> {
    check_host(request)?;
    if request
        .headers()
        .get(EXPECT)
        .is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    {
        return Err(closing(StatusCode::EXPECTATION_FAILED, Body::empty()));
    }
    let uri = request.uri();
    if uri.path() == "*" {
        return Err(match *request.method() {
            Method::OPTIONS => Box::new(Response::new(Body::empty())),
            _ => closing(StatusCode::BAD_REQUEST, Body::empty()),
        });
    }
    if request.method() == Method::CONNECT && uri.path().is_empty() {
        return Err(Box::new(super::framed(PageResponse::not_found())));
    }
    let path = escaped(uri.path()).ok_or_else(|| refusal(""))?;
    let cleaned = clean(&path);
    if cleaned != path && request.method() != Method::CONNECT {
        return Err(redirect(request.method(), &cleaned, uri.query()));
    }
    Ok(RequestTarget::Page { path, query: uri.query().unwrap_or_default().to_owned() })
}

fn check_host<B>(request: &Request<B>) -> Result<(), Box<Response<Body>>> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 && request.method() != Method::CONNECT => {
            Err(refusal(": missing required Host header"))
        }
        (Some(_), Some(_)) => Err(refusal("")),
        (Some(host), None) if !host.as_bytes().iter().all(|&byte| may_be_in_host(byte)) => {
            Err(refusal(": malformed Host header"))
        }
        _ => Ok(()),
    }
}

fn may_be_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

/// 400 in the words that Go has for it.
fn refusal(why: &'static str) -> Box<Response<Body>> {
    let mut response =
        closing(StatusCode::BAD_REQUEST, Body::from(Bytes::from(format!("400 Bad Request{why}"))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if let Ok(reason) = ReasonPhrase::try_from(format!("Bad Request{why}").into_bytes()) {
        response.extensions_mut().insert(reason);
    }
    response
}

fn closing(status: StatusCode, body: Body) -> Box<Response<Body>> {
    let mut response = Box::new(Response::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn redirect(method: &Method, path: &str, query: Option<&str>) -> Box<Response<Body>> {
    // Compat: the escaped path is escaped once more.
    let mut location = escape(path.as_bytes());
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        location.push('?');
        location.push_str(query);
    }
    let mut headers = HeaderMap::new();
    let mut body = Body::empty();
    if method == Method::GET || method == Method::HEAD {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    }
    if method == Method::GET {
        let link = format!("<a href=\"{}\">Temporary Redirect</a>.\n\n", html(&location));
        body = Body::from(Bytes::from(link));
    }
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(LOCATION, location);
    }
    let mut response = Box::new(Response::new(body));
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    *response.headers_mut() = headers;
    response
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}

/// The path as it was sent if it is properly escaped, else escaped anew. `None` if a `%` is not
/// followed by two hex digits.
fn escaped(path: &str) -> Option<String> {
    let bytes = unescape(path.as_bytes())?;
    let is_proper = path.bytes().all(|byte| !must_be_escaped(byte) || b"!'()*[]%".contains(&byte));
    Some(if is_proper { path.to_owned() } else { escape(&bytes) })
}

fn unescape(path: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(*rest.next()?).to_digit(16)?;
        let low = char::from(*rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(bytes)
}

fn escape(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path {
        if must_be_escaped(byte) {
            text.push_str(&format!("%{byte:02X}"));
        } else {
            text.push(char::from(byte));
        }
    }
    text
}

fn must_be_escaped(byte: u8) -> bool {
    !(byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte))
}

/// The shortest path that leads to the same place; a slash at the end stays.
fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            _ => names.push(name),
        }
    }
    let slash = if path.ends_with('/') && !names.is_empty() { "/" } else { "" };
    format!("/{}{slash}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_like_go() {
        for (path, cleaned) in [
            ("", "/"),
            ("/", "/"),
            ("//", "/"),
            ("//varz", "/varz"),
            ("/varz/", "/varz/"),
            ("/varz//", "/varz/"),
            ("/a/../varz", "/varz"),
            ("/../../varz", "/varz"),
            ("/varz/.", "/varz"),
            ("/a/b/..", "/a"),
            ("/a%2f..%2fvarz", "/a%2f..%2fvarz"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }

    #[test]
    fn odd_letters_are_escaped_like_go() {
        for (path, expected) in [
            ("/varz", Some("/varz")),
            ("/%76arz", Some("/%76arz")),
            ("/v%zz", None),
            ("/v%7", None),
            ("/\"<>", Some("/%22%3C%3E")),
            ("/a!b'(c)*[d]", Some("/a!b'(c)*[d]")),
        ] {
            assert_eq!(escaped(path).as_deref(), expected, "{path}");
        }
    }
}
