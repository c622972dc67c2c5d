//! The pages of the web, by address.

use axum::http::StatusCode;

use super::error::Error;

/// The content at an address.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Html(&'static str),
    Pdf(&'static [u8]),
    /// The page has moved to this address.
    Redirect(&'static str),
    /// A request for the page always gets this error status.
    Broken(StatusCode),
}

/// Returns the normalized address and the content of a page. The query, the fragment and a trailing slash of the
/// address are ignored.
pub(super) fn find(url: &str) -> Result<(String, Content), Error> {
    let address = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let address = address.ok_or_else(|| Error::InvalidUrl(url.to_owned()))?;
    let address = address.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let found = PAGES.iter().find(|(known, _)| known.eq_ignore_ascii_case(address));
    let (known, content) = found.ok_or_else(|| Error::NotFound(url.to_owned()))?;
    Ok((format!("https://{known}"), *content))
}

#[rustfmt::skip]
const PAGES: [(&str, Content); 11] = [
    ("duskfield.example/comparison", Content::Html(include_str!("../../web/duskfield-comparison.html"))),
    ("brambleforge.example", Content::Html(include_str!("../../web/brambleforge.html"))),
    ("brambleforge.example/pricing", Content::Html(include_str!("../../web/brambleforge-pricing.html"))),
    ("osprey-relay.example", Content::Html(include_str!("../../web/osprey-relay.html"))),
    ("osprey-relay.example/pricing", Content::Html(include_str!("../../web/osprey-relay-pricing.html"))),
    ("kitebridge.example/prices", Content::Redirect("https://kitebridge.example/pricing")),
    ("kitebridge.example/pricing", Content::Html(include_str!("../../web/kitebridge-pricing.html"))),
    ("lanternfold.example/pricing", Content::Broken(StatusCode::INTERNAL_SERVER_ERROR)),
    ("marrowstone.example/price-list.pdf", Content::Pdf(include_bytes!("../../web/marrowstone-price-list.pdf"))),
    ("pebblewright.example/reviews", Content::Html(include_str!("../../web/pebblewright-reviews.html"))),
    ("harrowgate.example/approvals", Content::Html(include_str!("../../web/harrowgate-approvals.html"))),
];

#[cfg(test)]
mod tests {
    use super::super::search::INDEX;
    use super::super::{html, pdf};
    use super::*;

    #[test]
    fn indexed_addresses_and_link_targets_of_all_pages_exist() {
        let indexed = INDEX.iter().map(|page| page.url.to_owned());
        let linked = PAGES.iter().flat_map(|(_, content)| match content {
            Content::Html(text) => html::read(text).links.into_iter().map(|link| link.url).collect(),
            Content::Redirect(target) => vec![(*target).to_owned()],
            Content::Pdf(_) | Content::Broken(_) => Vec::new(),
        });
        for url in indexed.chain(linked) {
            assert!(find(&url).is_ok(), "{url}");
        }
    }

    #[test]
    fn address_of_a_page_may_use_http_and_any_case_and_have_a_query_or_fragment() {
        for url in [
            "https://brambleforge.example/pricing",
            "http://Brambleforge.example/pricing/",
            "https://brambleforge.example/pricing?plan=team#top",
        ] {
            assert_eq!(find(url).ok().unwrap().0, "https://brambleforge.example/pricing", "{url}");
        }
        for url in ["brambleforge.example", "https://brambleforge.example/x", "ftp://brambleforge.example"] {
            assert!(find(url).is_err(), "{url}");
        }
    }

    /// The table at the end of a PDF file has the offsets of the objects. PDF readers need these offsets to find the
    /// objects.
    #[test]
    fn offsets_in_the_pdf_point_to_its_objects() {
        let Ok((_, Content::Pdf(bytes))) = find("https://marrowstone.example/price-list.pdf") else { panic!("a PDF") };
        let text = std::str::from_utf8(bytes).unwrap();
        let start: usize = text.split("startxref\n").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        let entries: Vec<&str> = text[start..].lines().skip(3).take_while(|line| line.ends_with("n ")).collect();
        assert_eq!(entries.len(), 6);
        for (number, entry) in (1..).zip(entries) {
            let offset: usize = entry[..10].parse().unwrap();
            assert!(text[offset..].starts_with(&format!("{number} 0 obj")), "{entry}");
        }
        let length: usize = text.split("/Length ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(text.split_once("stream\n").unwrap().1.split("endstream").next().unwrap().len(), length);
        assert_eq!(pdf::read(bytes).pages, 1);
    }
}
