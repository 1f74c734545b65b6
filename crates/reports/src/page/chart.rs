//! Charts of a report: what they show, their legend, and their figures as a table.

use std::fmt::Write;

use super::draw;
use super::text::{escape, table};
use super::timeline::{Band, Panel, Timeline};
use duramen_base::words::number;
use duramen_measure::histogram::LatencyHistogram;

/// How many rows the table of a line chart's figures has at most; beyond, it is no help to a reader.
const MOST_ROWS: usize = 200;

/// A chart, drawn as SVG within the page.
///
/// ```
/// use duramen_reports::page::Chart;
///
/// let groups = vec![("10 clients", vec![("ours", 3.2), ("theirs", 4.1)])];
/// let chart = Chart::bars("Time to fork", "ms", groups).with_target("target: 5 ms", 5.0);
/// assert!(chart.render().contains("<svg"));
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    pub(super) title: String,
    pub(super) plot: Plot,
}

/// A name, and a value for each time; where there is none, the line is broken.
type Broken<N> = (N, Vec<Option<f64>>);

/// What is plotted.
#[derive(Clone, Debug)]
pub(super) enum Plot {
    Cdf {
        unit: &'static str,
        per_s: f64,
        series: Vec<(String, LatencyHistogram)>,
    },
    Bars {
        unit: String,
        groups: Vec<Group>,
        series: Vec<String>,
        target: Option<(String, f64)>,
        is_stacked: bool,
    },
    Line {
        x_label: String,
        y_label: String,
        series: Vec<(String, Vec<(f64, f64)>)>,
    },
    Timeline(Timeline),
}

/// Bars that stand together.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) label: String,
    /// The index of the series, and the value.
    pub(super) bars: Vec<(usize, f64)>,
}

impl Chart {
    /// Cumulative distributions of latencies over a logarithmic axis: the share of the operations that took at
    /// most so long. The median and the 95th percentile are marked on each line, and written in the legend. `unit` is that of the axis: `ns`, `us`, `ms` or `s`; anything else is taken for `ms`.
    pub fn cdf<N: Into<String>>(
        title: impl Into<String>,
        unit: &str,
        series: impl IntoIterator<Item = (N, LatencyHistogram)>,
    ) -> Self {
        let (unit, per_s) = match unit {
            "ns" => ("ns", 1e9),
            "us" => ("us", 1e6),
            "s" => ("s", 1.0),
            _ => ("ms", 1e3),
        };
        let series = series.into_iter().map(|(name, latencies)| (name.into(), latencies)).collect();
        Self { title: title.into(), plot: Plot::Cdf { unit, per_s, series } }
    }

    /// Groups of horizontal bars, one bar per series and value. Series of the same name have the same colour.
    pub fn bars<L: Into<String>, N: Into<String>>(
        title: impl Into<String>,
        unit: impl Into<String>,
        groups: impl IntoIterator<Item = (L, Vec<(N, f64)>)>,
    ) -> Self {
        Self::bars_of(title, unit, [], groups)
    }

    /// As [`bars`](Self::bars), with the order of the series, so that each has the same colour in every chart that names them
    /// alike, whether all of them have bars or not.
    pub fn bars_of<L: Into<String>, N: Into<String>>(
        title: impl Into<String>,
        unit: impl Into<String>,
        series: impl IntoIterator<Item = &'static str>,
        groups: impl IntoIterator<Item = (L, Vec<(N, f64)>)>,
    ) -> Self {
        let mut series: Vec<String> = series.into_iter().map(str::to_owned).collect();
        let mut index_of = |name: String| {
            series.iter().position(|known| *known == name).unwrap_or_else(|| {
                series.push(name);
                series.len() - 1
            })
        };
        let groups = groups
            .into_iter()
            .map(|(label, bars)| Group {
                label: label.into(),
                bars: bars.into_iter().map(|(name, value)| (index_of(name.into()), value)).collect(),
            })
            .collect();
        let plot = Plot::Bars { unit: unit.into(), groups, series, target: None, is_stacked: false };
        Self { title: title.into(), plot }
    }

    /// As [`bars`](Self::bars), for parts that follow one another: the bars of a group are put end to end, and their sum is
    /// written behind the last.
    pub fn stacked<L: Into<String>, N: Into<String>>(
        title: impl Into<String>,
        unit: impl Into<String>,
        groups: impl IntoIterator<Item = (L, Vec<(N, f64)>)>,
    ) -> Self {
        let mut chart = Self::bars(title, unit, groups);
        if let Plot::Bars { is_stacked, .. } = &mut chart.plot {
            *is_stacked = true;
        }
        chart
    }

    /// Lines through points.
    pub fn line<N: Into<String>>(
        title: impl Into<String>,
        x_label: impl Into<String>,
        y_label: impl Into<String>,
        series: impl IntoIterator<Item = (N, Vec<(f64, f64)>)>,
    ) -> Self {
        let series = series.into_iter().map(|(name, points)| (name.into(), points)).collect();
        let (x_label, y_label) = (x_label.into(), y_label.into());
        Self { title: title.into(), plot: Plot::Line { x_label, y_label, series } }
    }

    /// What happened over time: panels over one another, each with its own axis and its lines, and bands of time that
    /// are set off through all of them, with what they are set off for. A line has a value for each of `times`; where it
    /// has none it is broken.
    ///
    /// ```
    /// use duramen_reports::page::Chart;
    ///
    /// let times = vec![0.0, 1.0, 2.0, 3.0];
    /// let commits = vec![("commits", vec![Some(90.0), Some(0.0), Some(0.0), Some(120.0)])];
    /// let chart = Chart::timeline("A stall", "s", times, [("commits/s", commits)], [(1.0, 3.0, "snapshot")]);
    /// assert!(chart.render().contains("snapshot from 1 to 3 s"));
    /// ```
    pub fn timeline<P: Into<String>, N: Into<String>, B: Into<String>>(
        title: impl Into<String>,
        x_label: impl Into<String>,
        times: Vec<f64>,
        panels: impl IntoIterator<Item = (P, Vec<Broken<N>>)>,
        bands: impl IntoIterator<Item = (f64, f64, B)>,
    ) -> Self {
        let panel = |(y_label, series): (P, Vec<Broken<N>>)| Panel {
            y_label: y_label.into(),
            series: series.into_iter().map(|(name, values)| (name.into(), values)).collect(),
        };
        let band = |(from, to, label): (f64, f64, B)| Band { from, to, label: label.into() };
        let timeline = Timeline {
            x_label: x_label.into(),
            times,
            panels: panels.into_iter().map(panel).collect(),
            bands: bands.into_iter().map(band).collect(),
        };
        Self { title: title.into(), plot: Plot::Timeline(timeline) }
    }

    /// Draws the target that the values are held against into a chart of [`bars`](Self::bars); others have none.
    #[must_use]
    pub fn with_target(mut self, label: impl Into<String>, value: f64) -> Self {
        if let Plot::Bars { target, .. } = &mut self.plot {
            *target = Some((label.into(), value));
        }
        self
    }

    /// The chart as an HTML `figure`, with its legend and, folded away, its figures as a table. It is drawn twice,
    /// for wide and for narrow windows, because text that shrinks with its drawing cannot be read on a phone.
    pub fn render(&self) -> String {
        let mut html =
            format!("<figure class=\"chart\">\n<figcaption>{}</figcaption>\n", escape(&self.title));
        html.push_str(&self.legend());
        for (class, size) in [("wide", draw::WIDE), ("narrow", draw::NARROW)] {
            writeln!(html, "<div class=\"{class}\">{}</div>", self.svg(size)).ok();
        }
        let (headers, rows) = self.figures();
        let name = format!("Figures of: {}", self.title);
        let table = table(&name, &headers, &rows);
        write!(html, "<details><summary>Figures</summary>\n{table}</details>\n</figure>\n").ok();
        html
    }

    fn svg(&self, size: draw::Size) -> String {
        match draw::svg(&self.plot, size) {
            Ok(svg) => {
                let label = escape(&self.label());
                let open = format!("<svg role=\"img\" aria-label=\"{label}\" ");
                // The drawing scales with its frame: its view box stays, its fixed size goes.
                let (width, height) = draw::measured(&self.plot, size);
                let sized = format!("<svg width=\"{width}\" height=\"{height}\" ");
                let title = format!("><title>{}</title>", escape(&self.title));
                svg.replacen(&sized, &open, 1).replacen('>', &title, 1)
            }
            Err(reason) => format!("<p>This chart could not be drawn: {}.</p>", escape(&reason)),
        }
    }

    /// What a screen reader says.
    fn label(&self) -> String {
        let kind = match &self.plot {
            Plot::Cdf { .. } => "cumulative distribution of latencies",
            Plot::Bars { .. } => "bar chart",
            Plot::Line { .. } => "line chart",
            Plot::Timeline(_) => "time line",
        };
        let bands = match &self.plot {
            Plot::Timeline(timeline) if !timeline.bands.is_empty() => {
                format!(" Set off: {}.", timeline.bands_in_words())
            }
            _ => String::new(),
        };
        let names: Vec<&str> = self
            .names()
            .into_iter()
            .enumerate()
            .filter(|(index, _)| self.has(*index))
            .map(|(_, name)| name)
            .collect();
        format!("{}: {kind} of {}.{bands} The figures follow in a table.", self.title, names.join(", "))
    }

    /// Whether a series is drawn.
    fn has(&self, series: usize) -> bool {
        match &self.plot {
            Plot::Bars { groups, .. } => {
                groups.iter().any(|group| group.bars.iter().any(|(index, _)| *index == series))
            }
            _ => true,
        }
    }

    fn names(&self) -> Vec<&str> {
        match &self.plot {
            Plot::Cdf { series, .. } => series.iter().map(|(name, _)| name.as_str()).collect(),
            Plot::Bars { series, .. } => series.iter().map(String::as_str).collect(),
            Plot::Line { series, .. } => series.iter().map(|(name, _)| name.as_str()).collect(),
            Plot::Timeline(timeline) => timeline.names(),
        }
    }

    /// What the legend says of each series beside its name.
    fn marks(&self) -> Vec<String> {
        let Plot::Cdf { unit, per_s, series } = &self.plot else {
            return vec![String::new(); self.names().len()];
        };
        let in_unit = |ms: f64| number(ms / 1e3 * per_s);
        let marks = series
            .iter()
            .map(|(_, latencies)| latencies.summary_ms())
            .map(|summary| format!(": p50 {}, p95 {} {unit}", in_unit(summary.p50), in_unit(summary.p95)));
        marks.collect()
    }

    fn legend(&self) -> String {
        let mut html = String::from("<ul class=\"legend\">");
        let all = self.names().into_iter().zip(self.marks()).enumerate();
        for (index, (name, marks)) in all.filter(|(index, _)| self.has(*index)) {
            let color = draw::css_color(index);
            let mark = if matches!(self.plot, Plot::Bars { .. }) {
                format!("<rect width=\"14\" height=\"14\" x=\"7\" fill=\"{color}\"/>")
            } else {
                let dashes = draw::dashes(index)
                    .map_or_else(String::new, |(dash, gap)| format!(" stroke-dasharray=\"{dash} {gap}\""));
                format!("<path d=\"M0 7H28\" stroke=\"{color}\" stroke-width=\"2.5\"{dashes}/>")
            };
            let mark = format!(
                "<svg aria-hidden=\"true\" width=\"28\" height=\"14\" viewBox=\"0 0 28 14\">{mark}</svg>"
            );
            write!(html, "<li>{mark} {}{}</li>", escape(name), escape(&marks)).ok();
        }
        html.push_str("</ul>\n");
        html
    }

    fn figures(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let row = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<String>>();
        match &self.plot {
            Plot::Cdf { unit, per_s, series } => {
                let in_unit = |name: &str| format!("{name} ({unit})");
                let mut headers = row(&["Series", "count"]);
                headers.extend(["min", "p50", "p90", "p95", "p99", "max"].map(in_unit));
                let rows = series.iter().map(|(name, latencies)| {
                    let s = latencies.summary_ms();
                    let mut cells = vec![name.clone(), number(s.count as f64)];
                    cells.extend(
                        [s.min, s.p50, s.p90, s.p95, s.p99, s.max].map(|ms| number(ms / 1e3 * per_s)),
                    );
                    cells
                });
                (headers, rows.collect())
            }
            Plot::Bars { unit, groups, series, target, .. } => {
                let rows = groups.iter().flat_map(|group| {
                    group.bars.iter().map(|(index, value)| {
                        vec![group.label.clone(), series[*index].clone(), number(*value), unit.clone()]
                    })
                });
                let target = target
                    .iter()
                    .map(|(label, value)| vec![label.clone(), String::new(), number(*value), unit.clone()]);
                (row(&["Group", "Series", "Value", "Unit"]), rows.chain(target).collect())
            }
            Plot::Line { x_label, y_label, series } => {
                let points = series.iter().flat_map(|(name, points)| {
                    points.iter().map(move |(x, y)| vec![name.clone(), number(*x), number(*y)])
                });
                (row(&["Series", x_label, y_label]), points.take(MOST_ROWS).collect())
            }
            Plot::Timeline(timeline) => timeline.figures(MOST_ROWS),
        }
    }
}
