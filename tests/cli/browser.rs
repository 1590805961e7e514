//! Headless Chromium, controlled through pipes with its DevTools protocol, without a port or a network.

use crate::harness::timeout;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Name of the program in Debian.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Graphics support of the browser.
#[derive(Clone, Copy, PartialEq)]
pub enum Graphics {
    /// No WebGL, which takes less time.
    Flat,
    /// WebGL, emulated by the processor.
    WebGl,
}

/// Browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    session: Option<String>,
    /// Errors of the page, and its messages on the console.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser; `None` if none is installed.
    pub fn start(graphics: Graphics) -> Option<Self> {
        if !Path::new(CHROMIUM).exists() {
            return None;
        }
        let profile = TempDir::new().unwrap();
        // The protocol uses the file descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null",
            "sh",
            CHROMIUM,
        ]);
        command.args(["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]);
        command.args(["--remote-debugging-pipe", "--no-first-run", "--disable-extensions"]);
        command.args(match graphics {
            Graphics::Flat => &["--disable-gpu", "--disable-software-rasterizer"][..],
            Graphics::WebGl => {
                &["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
            }
        });
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let from = BufReader::new(from);
        let complaints = Vec::new();
        let mut browser =
            Self { child, to, from, last: 0, session: None, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol and waits for its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let mut message = self.read();
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
        }
    }

    /// Reads the next message, and stores errors in `complaints`.
    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let of = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(&of["exceptionDetails"]),
            Some("Log.entryAdded") => Some(&of["entry"]),
            Some("Runtime.consoleAPICalled")
                if of["type"] == "error" || of["type"] == "warning" =>
            {
                Some(&of["args"])
            }
            _ => None,
        };
        self.complaints.extend(complaint.map(Value::to_string));
        message
    }

    /// Opens a file and waits until all its pictures are drawn; returns the elapsed milliseconds.
    #[track_caller]
    pub fn open(&mut self, file: &Path) -> f64 {
        self.complaints.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        let most = timeout().as_millis();
        let drawn = format!(
            "new Promise((done, fail) => {{
                 const look = () => document.body?.dataset.drawn && location.href !== 'about:blank'
                     ? done(performance.now()) : performance.now() > {most}
                     ? fail(new Error('not drawn')) : setTimeout(look, 10);
                 look();
             }})"
        );
        self.evaluate(&drawn).as_f64().unwrap()
    }

    /// Returns the value of an expression; for a promise, waits for its value.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", ask);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Sets the width of the page in pixels, and waits until the page is drawn with it.
    pub fn width(&mut self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.await_frames();
    }

    /// Sets the media type (`screen` or `print`) and the colour scheme (`light` or `dark`), and waits until the page is
    /// drawn with them.
    pub fn media(&mut self, media: &str, scheme: &str) {
        let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": feature}));
        self.await_frames();
    }

    /// Waits for two frames: in the first frame, the page notices a change; in the second frame, its charts are drawn.
    fn await_frames(&mut self) {
        self.evaluate(
            "new Promise((done) => {
                 const frame = (left) => left ? requestAnimationFrame(() => frame(left - 1)) : done(0);
                 frame(3);
             })",
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // When the pipe is closed, the helper processes of the browser end.
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.child.wait();
    }
}
