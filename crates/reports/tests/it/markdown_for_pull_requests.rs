//! Markdown says the verdict first, is short, and takes text for text.

use crate::support::{fixtures, run, HOSTILE, LOWER};
use duramen_measure::evidence::Severity;
use duramen_reports::markdown::{comparison, summary, Changed, Comparison, LONGEST};
use duramen_reports::trends::series;
use duramen_reports::Document;

fn failed() -> Document {
    let mut document = run(1, 5.0, 1.0);
    document.evidence.check("it is fast", false, "it is not");
    document.evidence.find("slow", Severity::Warning, Some(2.5), "A warning.");
    document.evidence.find("note", Severity::Info, None, "Good to know.");
    document.evidence.decide();
    document
}

#[test]
fn the_verdict_comes_first_and_what_is_long_is_folded_away() {
    let text = summary(&[failed(), fixtures().remove(0)], &[]);
    assert!(text.starts_with("## FAIL: a check did not hold in 1 of 2 runs\n"), "{text}");
    assert!(text.contains("- `store` `it is fast`: it is not"), "{text}");
    assert!(text.contains("- **warning** `store` `slow` (2.5): A warning."), "{text}");
    assert!(!text.contains("Good to know"), "{text}");
    assert!(text.contains("<details><summary>Environment</summary>\n\n| processor |"), "{text}");
    assert!(text.contains("```sh\nDURAMEN_SEED=0xdffa6ab80da0e2dc duramen --home"), "{text}");
    assert!(summary(&fixtures(), &[]).starts_with("## PASS: 5 runs, every check held\n"));
    let mut invalid = run(1, 5.0, 1.0);
    invalid.evidence.invalidate("nothing happened");
    assert!(summary(&[invalid], &[]).starts_with("## INVALID: 1 of 1 run say nothing\n"));
}

#[test]
fn changes_over_the_last_runs_are_told() {
    let runs: Vec<Document> = [5.0, 5.1, 4.9, 7.5, 7.6, 7.4]
        .iter()
        .enumerate()
        .map(|(hour, value)| run(i64::try_from(hour).unwrap(), *value, 1.0))
        .collect();
    let text = summary(&runs, &series(&runs, 50, LOWER));
    assert!(text.contains("| `store` | `put/strict` | 2.5 \\["), "{text}");
    assert!(text.contains("**worse**: slower by 50 %"), "{text}");
}

fn compared() -> Comparison {
    Comparison {
        suite: "store".to_owned(),
        regressions: vec!["put".to_owned()],
        is_comparable: true,
        changed: vec![Changed {
            name: "put".to_owned(),
            a: "5 us (n=3)".to_owned(),
            b: "7.5 us (n=3)".to_owned(),
            effect: "+2.5 [2.3, 2.7] us".to_owned(),
            outcome: "worse".to_owned(),
            words: "slower by 50 %".to_owned(),
        }],
        warnings: vec!["The kernel differs.".to_owned()],
        method: "Two figures were compared.".to_owned(),
    }
}

#[test]
fn a_comparison_names_regressions_and_findings_that_are_new() {
    let (a, mut b) = (failed().evidence, failed().evidence);
    b.find("leak", Severity::Problem, None, "It leaks.");
    let text = comparison(&compared(), &[a], &[b]);
    assert!(text.starts_with("## WORSE: `store`, 1 regression\n"), "{text}");
    assert!(
        text.contains("| `put` | 5 us (n=3) | 7.5 us (n=3) | +2.5 \\[2.3, 2.7\\] us | **worse**"),
        "{text}"
    );
    assert!(text.contains("**Regressions:** `put`\n") && text.contains("`leak`: It leaks."), "{text}");
    assert!(!text.contains("A warning."), "it is not new: {text}");
    assert!(text.contains("What else differs (1)") && text.contains("Two figures were compared."), "{text}");

    let mut none = compared();
    none.regressions.clear();
    assert!(comparison(&none, &[], &[]).starts_with("## NO REGRESSION: `store`, 1 figure changed\n"));
    none.changed.clear();
    assert!(comparison(&none, &[], &[]).starts_with("## NO DETECTABLE DIFFERENCE: `store`\n"));
    none.is_comparable = false;
    assert!(comparison(&none, &[], &[]).starts_with("## NOT COMPARABLE: `store`\n"));
}

/// Outside of code.
fn prose(markdown: &str) -> String {
    let mut prose = String::new();
    let mut fence = 0;
    let mut rest = markdown;
    while let Some(at) = rest.find('`') {
        let ticks = rest[at..].chars().take_while(|c| *c == '`').count();
        let is_escaped = fence == 0 && rest[..at].ends_with('\\');
        if fence == 0 {
            prose.push_str(&rest[..at]);
        }
        if !is_escaped {
            fence = if fence == 0 {
                ticks
            } else if fence == ticks {
                0
            } else {
                fence
            };
        }
        rest = &rest[at + ticks..];
    }
    prose + rest
}

#[test]
fn text_out_of_documents_is_text() {
    let mut document = run(1, 5.0, 1.0);
    let evidence = &mut document.evidence;
    evidence.suite = HOSTILE.to_owned();
    evidence.host.cpu = HOSTILE.to_owned();
    evidence.command = vec![format!("{HOSTILE}\n```\n# heading")];
    evidence.check(HOSTILE, false, HOSTILE);
    evidence.find(HOSTILE, Severity::Problem, None, format!("{HOSTILE}\n\n# heading\n"));
    evidence.decide();
    let told = Comparison { suite: HOSTILE.to_owned(), warnings: vec![HOSTILE.to_owned()], ..compared() };
    for text in [
        summary(std::slice::from_ref(&document), &[]),
        comparison(&told, std::slice::from_ref(&document.evidence), std::slice::from_ref(&document.evidence)),
    ] {
        let prose = prose(&text);
        for markup in ["<script", "@octocat", " #1", "[x](", "https://", "\n# "] {
            assert!(!prose.contains(markup), "{markup}: {prose}");
        }
        let tables = text.lines().filter(|line| line.starts_with("| "));
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let widths: Vec<usize> = tables.map(cells).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1] || pair[1] >= 5), "{widths:?}");
        assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
    }
}

#[test]
fn it_fits_into_a_comment() {
    let mut document = failed();
    for index in 0..500 {
        document.evidence.find(format!("rule{index}"), Severity::Problem, None, "long ".repeat(500));
        document.evidence.check(format!("check{index}"), false, "long ".repeat(500));
    }
    let text = summary(&vec![document; 3], &[]);
    assert!(text.len() <= LONGEST, "{}", text.len());
    assert!(text.starts_with("## FAIL") && text.contains("left out"), "{}", &text[..200]);
    let mut told = compared();
    told.changed = vec![told.changed[0].clone(); 5_000];
    told.regressions = vec!["put".to_owned(); 5_000];
    let text = comparison(&told, &[], &[]);
    assert!(text.len() <= LONGEST && text.contains("and 4970 more"), "{}", text.len());
}
