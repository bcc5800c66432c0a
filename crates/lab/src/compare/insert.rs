//! Puts generated text between two markers of a page.
//!
//! Owns the markers: `<!-- plan: NAME -->` and the `<!-- end -->` behind it. Everything else of the
//! page stays as it is.

const END: &str = "<!-- end -->";

/// The page with `text` between the markers of `name`; what was there goes. Says what is wrong with
/// the markers.
pub(crate) fn between_markers(page: &str, name: &str, text: &str) -> Result<String, String> {
    let start = format!("<!-- plan: {name} -->");
    let Some((before, rest)) = page.split_once(&start) else {
        return Err(format!("it has no line {start}"));
    };
    if rest.contains(&start) {
        return Err(format!("it has {start} more than once"));
    }
    let Some((old, after)) = rest.split_once(END) else {
        return Err(format!("{start} is not followed by {END}"));
    };
    match old.contains("<!-- plan: ") {
        true => Err(format!("another plan begins between {start} and {END}")),
        false => Ok(format!("{before}{start}\n\n{}\n\n{END}{after}", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Title\n\n<!-- plan: s1 -->\nold\n<!-- end -->\n\n<!-- plan: s2 -->\n<!-- end -->\ntail\n";

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let page = between_markers(PAGE, "s1", "new\n").unwrap();
        assert_eq!(page, PAGE.replace("\nold\n", "\n\nnew\n\n"));
        assert_eq!(between_markers(&page, "s1", "new").unwrap(), page, "twice is the same as once");
        let both = between_markers(&page, "s2", "two").unwrap();
        assert!(both.contains("new") && both.ends_with("<!-- plan: s2 -->\n\ntwo\n\n<!-- end -->\ntail\n"));
    }

    #[test]
    fn broken_markers_are_told() {
        let error = |page: &str| between_markers(page, "s1", "x").unwrap_err();
        assert!(error("nothing").contains("has no line"));
        assert!(error("<!-- plan: s1 --> open").contains("not followed"));
        assert!(error("<!-- plan: s1 --><!-- plan: s2 --><!-- end -->").contains("another plan"));
        assert!(
            error("<!-- plan: s1 --><!-- end --><!-- plan: s1 --><!-- end -->").contains("more than once")
        );
    }
}
