//! A headless Chromium, driven through its debugging port.

use crate::websocket::peer::{FIN, Peer, TEXT, dial, frame, read_head};
use crate::{PATIENCE, eventually};
use myelin_stdx::base64;
use myelin_stdx::sync::lock;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use tempfile::TempDir;

/// Programs that speak the protocol, by the names that they are installed under.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Said where a test needs a browser and there is none.
const MISSING: &str = "no Chromium is here: what the dashboard does in a browser is not tested";

/// One page of a browser, which ends with it.
pub(super) struct Browser {
    child: Child,
    page: Peer,
    asked: u64,
    /// Complaints of the page: exceptions, violations of its policy, files that are not
    /// there.
    pub(super) faults: Vec<String>,
    /// Addresses that the page has asked for.
    pub(super) asked_for: Vec<String>,
    _profile: TempDir,
    /// One browser at a time: each is many processes.
    _turn: MutexGuard<'static, ()>,
}

fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&folders).flat_map(|folder| PROGRAMS.map(|name| folder.join(name)));
    programs.into_iter().find(|path| path.is_file())
}

/// Where the browser listens, from what it writes when it has started.
fn address(child: &mut Child) -> SocketAddr {
    let mut lines = BufReader::new(child.stderr.take().expect("it was piped")).lines();
    let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let rest = line.split("DevTools listening on ws://").nth(1)?.to_owned();
        rest.split('/').next()?.parse().ok()
    });
    // So that the pipe never fills.
    thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    address.expect("Chromium says where it listens")
}

/// Path of the only page's socket.
fn socket(address: SocketAddr) -> Option<String> {
    let mut stream = dial(address);
    write!(stream, "GET /json/list HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    // The connection stays open.
    let head = read_head(&mut stream).ok()?.to_ascii_lowercase();
    let length = head.split("content-length:").nth(1)?.lines().next()?.trim().parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let pages: Value = serde_json::from_slice(&body).ok()?;
    let page = pages.as_array()?.iter().find(|page| page["type"] == "page")?;
    let url = page["webSocketDebuggerUrl"].as_str()?;
    Some(url[url.find("/devtools")?..].to_owned())
}

impl Browser {
    /// Starts one with an empty page; nothing where none is installed, which is said.
    pub(super) fn start() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        let Some(program) = program() else {
            println!("{MISSING}");
            return None;
        };
        let turn = lock(&TURN);
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut child = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--remote-debugging-port=0", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Chromium starts");
        let address = address(&mut child);
        let mut path = None;
        eventually("a page of the browser", || {
            path = socket(address);
            path.is_some()
        });
        let page = Peer::over_path(dial(address), &path.expect("it was waited for"), "");
        let (faults, asked_for) = Default::default();
        let mut browser = Self { child, page, asked: 0, faults, asked_for, _profile: profile, _turn: turn };
        for domain in ["Runtime", "Log", "Page", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Asks the browser for something, and takes note of what it tells meanwhile.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let request = json!({ "id": self.asked, "method": method, "params": params }).to_string();
        self.page.send(&frame(TEXT, request.as_bytes()));
        loop {
            let message = self.message();
            if message["id"] == self.asked {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn message(&mut self) -> Value {
        let mut text = Vec::new();
        loop {
            let (first, payload) = self.page.frame().expect("the browser lives");
            text.extend(payload);
            if first & FIN != 0 {
                return serde_json::from_slice(&text).expect("JSON");
            }
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.faults.push(params.to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.faults.push(params.to_string());
            }
            Some("Network.requestWillBeSent") => {
                self.asked_for.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            Some("Network.webSocketCreated") => {
                self.asked_for.push(params["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }

    /// Value of an expression in the page.
    pub(super) fn script(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", &params);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until this expression is true.
    pub(super) fn wait(&mut self, condition: &str) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.script(&format!("Boolean({condition})")) != true {
            let is_late = std::time::Instant::now() > deadline;
            assert!(!is_late, "never: {condition}\n{}\n{:?}", self.text(), self.faults);
            thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Waits until the view shows this text.
    pub(super) fn wait_for(&mut self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// All text that is seen.
    pub(super) fn text(&mut self) -> String {
        self.script("document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
        self.wait("document.readyState === 'complete' && document.querySelector('form')");
    }

    /// Types into the first field that this selects.
    pub(super) fn fill(&mut self, selector: &str, text: &str) {
        self.script(&format!("document.querySelector({}).select()", json!(selector)));
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Presses the button, or follows the link, of this name.
    pub(super) fn press(&mut self, name: &str) {
        let found = format!(
            "[...document.querySelectorAll('button, a, summary')].find((one) => one.innerText.trim() === {})",
            json!(name)
        );
        self.wait(&found);
        self.script(&format!("{found}.click()"));
    }

    /// Presses a key where the focus is.
    pub(super) fn key(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" {
            "\r"
        } else if key.len() == 1 {
            key
        } else {
            ""
        };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    /// Takes on this size, as a phone has it or not.
    pub(super) fn size(&mut self, width: u32, height: u32, is_phone: bool) {
        let factor = if is_phone { 2 } else { 1 };
        let params =
            json!({ "width": width, "height": height, "deviceScaleFactor": factor, "mobile": is_phone });
        self.call("Emulation.setDeviceMetricsOverride", &params);
    }

    /// Prefers `dark` or `light`.
    pub(super) fn scheme(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Writes what is seen as a PNG.
    pub(super) fn picture(&mut self, path: &Path) {
        let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        let data = base64::decode(picture["data"].as_str().expect("data")).expect("base64");
        std::fs::write(path, data).expect("the folder takes files");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
