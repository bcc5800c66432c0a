//! A writer of SVG inside HTML, and of HTML itself: elements with escaped text, nothing else.
//!
//! Colours and fonts are classes of the page's style sheet, so that a picture follows the reader's
//! light or dark mode.

use std::fmt::{Display, Write};

/// A picture under way. Coordinates are pixels of its own, from the top left.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

/// Where a text stands beside its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty picture. `title` describes it in words, for readers who cannot see it.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Self { width, height, title: title.to_owned(), body: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(coordinate);
        self.put(format_args!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"));
    }

    /// A bar with its left end at an axis; its right end is rounded. `hint` is shown to who points
    /// at it.
    pub(super) fn bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), hint: &str) {
        let radius = (height / 4.0).min(3.0).min(width / 2.0);
        let (right, straight) = (x + width - radius, height - 2.0 * radius);
        let [x, y, right, straight, radius] = [x, y, right, straight, radius].map(coordinate);
        let path = format!(
            "M{x} {y}H{right}a{radius} {radius} 0 0 1 {radius} {radius}v{straight}a{radius} {radius} 0 0 1 -{radius} {radius}H{x}z"
        );
        self.put(format_args!(
            "<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>",
            escaped(hint)
        ));
    }

    /// A line through points.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)], hint: &str) {
        let mut path = String::new();
        for (number, &(x, y)) in points.iter().enumerate() {
            let sign = if number == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{sign}{} {}", coordinate(x), coordinate(y));
        }
        if points.len() > 1 {
            self.put(format_args!(
                "<path class=\"{class}\" d=\"{path}\"><title>{}</title></path>",
                escaped(hint)
            ));
        }
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), hint: &str) {
        let (x, y) = (coordinate(x), coordinate(y));
        self.put(format_args!(
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"3.5\"><title>{}</title></circle>",
            escaped(hint)
        ));
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (coordinate(x), coordinate(y), escaped(text));
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// A text along a vertical axis, read from below.
    pub(super) fn upright(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y, text) = (coordinate(x), coordinate(y), escaped(text));
        self.put(format_args!(
            "<text class=\"{class}\" transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\">{text}</text>"
        ));
    }

    fn put(&mut self, element: impl Display) {
        let _ = writeln!(self.body, "{element}");
    }

    pub(super) fn finish(self) -> String {
        let Self { width, height, title, body } = self;
        let title = escaped(&title);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n{body}</svg>\n"
        )
    }
}

/// A tenth of a pixel is as fine as anybody sees.
fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Text as HTML means it literally, also within quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_coordinates_short() {
        let mut svg = Svg::new(100.0, 50.5, "a \"b\"");
        svg.text("t", (1.04, 2.0), Anchor::End, "x < y & z");
        svg.path("p", &[(0.0, 0.0), (1.25, 3.0)], "<hint>");
        svg.path("p", &[(0.0, 0.0)], "one point is no line");
        let text = svg.finish();
        assert!(text.contains("viewBox=\"0 0 100 50.5\"") && text.contains("aria-label=\"a &quot;b&quot;\""));
        assert!(
            text.contains("<text class=\"t\" x=\"1\" y=\"2\" text-anchor=\"end\">x &lt; y &amp; z</text>")
        );
        assert!(text.contains("d=\"M0 0L1.2 3\"><title>&lt;hint&gt;</title>"), "{text}");
        assert_eq!(text.matches("<path").count(), 1);
    }
}
