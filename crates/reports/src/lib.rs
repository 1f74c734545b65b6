//! All evidence in one place: results kept per host with their trends, one page over everything, Markdown.
