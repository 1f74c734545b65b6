//! Drawing charts as SVG.

use plotters::coord::combinators::IntoLogRange;
use plotters::coord::ranged1d::Ranged;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Group, Plot};
use duramen_base::words::number;
use duramen_measure::histogram::LatencyHistogram;

/// Dark enough on white to be told from it (3:1) and from each other by people who do not see all colours; after
/// the set of M. Okabe and K. Ito, "Color Universal Design" (2008).
pub(super) const COLORS: [RGBColor; 6] = [
    RGBColor(0, 105, 175),
    RGBColor(200, 75, 0),
    RGBColor(0, 130, 95),
    RGBColor(170, 70, 130),
    RGBColor(80, 80, 80),
    RGBColor(150, 110, 0),
];
/// Lengths of dashes and gaps, so that lines can be told apart without colour too.
const DASHES: [Option<(u32, u32)>; 6] =
    [None, Some((8, 4)), Some((3, 3)), Some((14, 4)), Some((5, 5)), Some((1, 6))];
pub(super) const INK: RGBColor = RGBColor(36, 41, 47);
pub(super) const GRID: RGBColor = RGBColor(225, 228, 232);
pub(super) const AXIS: RGBColor = RGBColor(120, 128, 138);
const FONT: &str = "sans-serif";
/// More points than this cannot be told apart in a drawing.
const MOST_POINTS: usize = 400;

/// How large a drawing is, in pixels at its natural size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) width: u32,
    height: u32,
    pub(super) font: u32,
    pub(super) ticks: usize,
}

/// For desktop windows.
pub(super) const WIDE: Size = Size { width: 880, height: 390, font: 17, ticks: 9 };
/// For phones.
pub(super) const NARROW: Size = Size { width: 360, height: 310, font: 14, ticks: 4 };

/// The colour of a series for CSS.
pub(super) fn css_color(index: usize) -> String {
    let RGBColor(r, g, b) = COLORS[index % COLORS.len()];
    format!("rgb({r},{g},{b})")
}

/// The dash pattern of a series; none for a solid line.
pub(super) fn dashes(index: usize) -> Option<(u32, u32)> {
    DASHES[index % DASHES.len()]
}

/// The width and height of a drawing; charts of bars are as high as their bars need.
pub(super) fn measured(plot: &Plot, size: Size) -> (u32, u32) {
    match plot {
        Plot::Bars { groups, target, is_stacked, .. } => {
            let (_, height) = rows(groups, *is_stacked, size);
            (size.width, height as u32 + bars_top(target.is_some(), size) + bars_bottom(size))
        }
        Plot::Timeline(timeline) => (size.width, timeline.height(size)),
        _ => (size.width, size.height),
    }
}

/// Draws a plot as an SVG document.
pub(super) fn svg(plot: &Plot, size: Size) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, measured(plot, size)).into_drawing_area();
        let drawn = match plot {
            Plot::Cdf { unit, per_s, series } => {
                let curves: Vec<Curve> =
                    series.iter().map(|(_, latencies)| Curve::new(latencies, *per_s)).collect();
                cdf(&area, size, unit, &curves)
            }
            Plot::Bars { unit, groups, target, is_stacked, .. } => {
                let target = target.as_ref().filter(|(_, value)| value.is_finite());
                let target = target.map(|(label, value)| (label.as_str(), *value));
                bars(&area, size, unit, groups, *is_stacked, target)
            }
            Plot::Line { x_label, y_label, series } => line(
                &area,
                size,
                x_label,
                y_label,
                &series.iter().map(|(_, points)| points.as_slice()).collect::<Vec<_>>(),
            ),
            Plot::Timeline(timeline) => super::timeline::draw(&area, size, timeline),
        };
        drawn.and_then(|()| area.present()).map_err(|error| error.to_string())?;
    }
    Ok(dashed(svg))
}

/// Dashes the lines by their colours. Plotters would draw each dash on its own, which makes a page several times as
/// large.
fn dashed(svg: String) -> String {
    (0..COLORS.len()).filter_map(|index| Some((index, dashes(index)?))).fold(
        svg,
        |svg, (index, (dash, gap))| {
            let RGBColor(r, g, b) = COLORS[index];
            let plain = format!("<polyline fill=\"none\" opacity=\"1\" stroke=\"#{r:02X}{g:02X}{b:02X}\"");
            svg.replace(&plain, &format!("{plain} stroke-dasharray=\"{dash} {gap}\""))
        },
    )
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

pub(super) fn style(size: Size) -> TextStyle<'static> {
    (FONT, size.font).into_font().color(&INK)
}

/// The width of a text in pixels, estimated high: the page's fonts are not known here.
pub(super) fn text_width(text: &str, size: Size) -> u32 {
    (text.chars().count() as f64 * f64::from(size.font) * 0.62).ceil() as u32
}

/// Makes a text fit for the drawing. One that is too long is cut; the whole one stands in the table of figures.
pub(super) fn fit(text: &str, width: u32, size: Size) -> String {
    // SVG has no way to write control characters.
    let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text_width(&text, size) <= width {
        return text;
    }
    let keep = (f64::from(width) / (f64::from(size.font) * 0.62)) as usize;
    text.chars().take(keep.saturating_sub(3)).chain("...".chars()).collect()
}

/// A cumulative distribution rises in steps; a few hundred of them are all that a drawing can show.
fn steps(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    let mut height = 0.0;
    let least_rise = 100.0 / MOST_POINTS as f64;
    let last = points.len().saturating_sub(1);
    for (index, (x, y)) in points.into_iter().enumerate() {
        // The tail is what such a chart is read for, so its steps all stay.
        let tail = y > 99.0;
        if index == 0 || index == last || tail || y - height >= least_rise {
            line.push((x, height));
            line.push((x, y));
            height = y;
        }
    }
    line
}

/// A distribution as it is drawn: its line, and the points on it that are marked.
struct Curve {
    line: Vec<(f64, f64)>,
    marks: Vec<(f64, f64)>,
}

impl Curve {
    fn new(latencies: &LatencyHistogram, per_s: f64) -> Curve {
        let points = latencies.distribution().into_iter();
        let line = steps(points.map(|(at, share)| (at.as_secs_f64() * per_s, share * 100.0)).collect());
        let summary = latencies.summary_ms();
        let marks = [(summary.p50, 50.0), (summary.p95, 95.0)];
        let marks = marks.into_iter().map(|(ms, share)| (ms / 1e3 * per_s, share));
        Curve { marks: marks.filter(|(x, _)| *x > 0.0 && !line.is_empty()).collect(), line }
    }
}

fn cdf<'a>(area: &Area<'a>, size: Size, unit: &str, curves: &[Curve]) -> Drawn<'a> {
    let xs = curves.iter().flat_map(|curve| curve.line.iter().map(|(x, _)| *x)).filter(|x| *x > 0.0);
    let (low, high) = xs.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let (low, high) = if low.is_finite() { (nice(low, false), nice(high, true)) } else { (0.1, 10.0) };
    // An axis needs a width even if all latencies are the same.
    let high = if high <= low { low * 10.0 } else { high };
    let mut chart = ChartBuilder::on(area)
        .margin_right(size.font * 2)
        .margin_top(size.font)
        .set_label_area_size(LabelAreaPosition::Left, size.font * 4)
        .set_label_area_size(LabelAreaPosition::Bottom, size.font * 3)
        .build_cartesian_2d(
            (low..high).log_scale().with_key_points(log_ticks(low, high, size.ticks)),
            0.0..100.0_f64,
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .label_style(style(size))
        .x_desc(format!("latency ({unit}, logarithmic)"))
        .x_label_formatter(&|x| number(*x))
        .y_labels(6)
        .y_label_formatter(&|y| format!("{y:.0} %"))
        .draw()?;
    for (index, curve) in curves.iter().enumerate() {
        let points = &curve.line;
        // Before its first step a distribution is zero, after its last it is one.
        let whole = std::iter::once((low, 0.0))
            .chain(points.iter().map(|(x, y)| (x.max(low), *y)))
            .chain((!points.is_empty()).then_some((high, 100.0)));
        if !points.is_empty() {
            draw_line(&mut chart, index, whole.collect())?;
        }
    }
    for (index, curve) in curves.iter().enumerate() {
        let color = COLORS[index % COLORS.len()].filled();
        chart.draw_series(curve.marks.iter().map(|at| Circle::new(*at, (size.font / 4) as i32, color)))?;
    }
    Ok(())
}

pub(super) fn draw_line<'a, X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'a>, Cartesian2d<X, Y>>,
    index: usize,
    points: Vec<(f64, f64)>,
) -> Drawn<'a>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let stroke = COLORS[index % COLORS.len()].stroke_width(2);
    chart.draw_series(LineSeries::new(points, stroke)).map(drop)
}

/// The nearest of 1, 2, 5, 10, 20, ... below or above.
fn nice(value: f64, up: bool) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    if up {
        steps.into_iter().find(|step| *step >= value).unwrap_or(decade * 10.0)
    } else {
        steps.into_iter().rev().find(|step| *step <= value).unwrap_or(decade)
    }
}

/// Where a logarithmic axis between two nice numbers is labelled: evenly where it is short, else at 1, 2, 5, 10, ...
/// or only at powers of ten, of which a long axis leaves some out.
fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    if high / low <= 5.001 {
        let step = nice((high - low) / most as f64, true);
        let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-6).floor() as i64);
        return (first..=last).map(|n| n as f64 * step).collect();
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |tick: &f64| *tick >= low * 0.999 && *tick <= high * 1.001;
    let decades = || (first..=last).map(|exponent| 10_f64.powi(exponent));
    let fine: Vec<f64> = decades().flat_map(|ten| [ten, 2.0 * ten, 5.0 * ten]).filter(within).collect();
    if fine.len() <= most + 1 {
        return fine;
    }
    let coarse: Vec<f64> = decades().filter(within).collect();
    let stride = coarse.len().div_ceil(most + 1).max(1);
    coarse.into_iter().step_by(stride).collect()
}

fn line<'a>(area: &Area<'a>, size: Size, x_label: &str, y_label: &str, lines: &[&[(f64, f64)]]) -> Drawn<'a> {
    let finite = |line: &[(f64, f64)]| -> Vec<(f64, f64)> {
        line.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = lines.iter().map(|line| finite(line)).collect();
    let (x_low, x_high) = range(lines.iter().flatten().map(|(x, _)| *x), false);
    // Values begin at zero, as those of bars do, so that a small difference does not look like a large one.
    let (y_low, y_high) = range(lines.iter().flatten().map(|(_, y)| *y), true);
    let labels = [y_low, y_high, y_high * 0.75, y_high * 0.3].map(|y| text_width(&number(y), size));
    let left = labels.into_iter().max().unwrap_or(0) + size.font * 2;
    let mut chart = ChartBuilder::on(area)
        .margin_right(size.font * 2)
        .margin_top(size.font)
        .set_label_area_size(LabelAreaPosition::Left, left)
        .set_label_area_size(LabelAreaPosition::Bottom, size.font * 3)
        .build_cartesian_2d(x_low..x_high, y_low..y_high)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .label_style(style(size))
        .x_desc(fit(x_label, size.width - left, size))
        .y_desc(fit(y_label, size.height - size.font * 4, size))
        .x_labels(size.ticks)
        .x_label_formatter(&|x| number(*x))
        .y_labels(6)
        .y_label_formatter(&|y| number(*y))
        .draw()?;
    for (index, points) in lines.into_iter().enumerate() {
        if let [only] = points.as_slice() {
            let color = COLORS[index % COLORS.len()].filled();
            chart.draw_series(std::iter::once(Circle::new(*only, 3, color)))?;
        } else {
            draw_line(&mut chart, index, points)?;
        }
    }
    Ok(())
}

/// The range of an axis, with some room above, never empty.
pub(super) fn range(values: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if !low.is_finite() {
        return (0.0, 1.0);
    }
    let (low, high) = if from_zero { (low.min(0.0), high.max(0.0)) } else { (low, high) };
    let room = if from_zero { (high - low) * 0.06 } else { 0.0 };
    let high = if high > low { high + if high > 0.0 { room } else { 0.0 } } else { low + 1.0 };
    (if low < 0.0 && from_zero { low - room } else { low }, high)
}

fn bars_top(has_bar: bool, size: Size) -> u32 {
    if has_bar {
        size.font * 2
    } else {
        size.font / 2
    }
}

fn bars_bottom(size: Size) -> u32 {
    size.font * 3
}

/// Where each group begins, in pixels from the top of the plot, and the height of all.
fn rows(groups: &[Group], is_stacked: bool, size: Size) -> (Vec<f64>, f64) {
    let (label, bar, gap) = row_heights(size);
    let mut at = 0.0;
    let starts = groups
        .iter()
        .map(|group| {
            let start = at;
            let bars = if is_stacked { group.bars.len().min(1) } else { group.bars.len() };
            at += label + bar * bars as f64 + gap;
            start
        })
        .collect();
    (starts, f64::max(at, label))
}

fn row_heights(size: Size) -> (f64, f64, f64) {
    let font = f64::from(size.font);
    (font * 1.6, font * 1.5, font * 0.6)
}

/// How many labels an axis of counts has at most: no more than it has whole numbers, so that none is between two of them.
fn whole_ticks(low: f64, high: f64, size: Size) -> usize {
    size.ticks.min((high.floor() - low.ceil()) as usize + 1)
}

fn bars<'a>(
    area: &Area<'a>,
    size: Size,
    unit: &str,
    groups: &[Group],
    is_stacked: bool,
    target: Option<(&str, f64)>,
) -> Drawn<'a> {
    let (starts, height) = rows(groups, is_stacked, size);
    let (label_height, bar_height, _) = row_heights(size);
    let lengths = |group: &Group| -> Vec<f64> {
        let values = group.bars.iter().map(|(_, value)| if value.is_finite() { *value } else { 0.0 });
        if is_stacked {
            vec![values.sum()]
        } else {
            values.collect()
        }
    };
    let values = || groups.iter().flat_map(lengths);
    let (low, high) = range(values().chain(target.map(|(_, value)| value)), true);
    // The values are written behind the bars: the longest needs room even behind the longest bar.
    let text = values().map(|value| text_width(&number(value), size) + size.font).max().unwrap_or(0);
    let margin = size.font;
    let plot_width = f64::from(size.width.saturating_sub(2 * margin)).max(1.0);
    let high = high + (high - low) * f64::from(text) / (plot_width - f64::from(text)).max(1.0);
    let mut chart = ChartBuilder::on(area)
        .margin_left(margin)
        .margin_right(margin)
        .margin_top(bars_top(target.is_some(), size))
        .set_label_area_size(LabelAreaPosition::Bottom, bars_bottom(size))
        // One unit of the vertical axis is one pixel, and it grows downwards.
        .build_cartesian_2d(low..high, height..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .label_style(style(size))
        .x_desc(fit(unit, plot_width as u32, size))
        .x_labels(if values().all(|value| value.fract() == 0.0) {
            whole_ticks(low, high, size)
        } else {
            size.ticks
        })
        .x_label_formatter(&|x| number(*x))
        .draw()?;
    let mut texts = Vec::new();
    for (group, start) in groups.iter().zip(starts) {
        let label = fit(&group.label, plot_width as u32, size);
        texts.push(((low, start + label_height * 0.55), 0, label));
        let mut reached = 0.0;
        for (row, (series, value)) in group.bars.iter().enumerate() {
            let top = start + label_height + if is_stacked { 0.0 } else { bar_height * row as f64 };
            let color = COLORS[series % COLORS.len()];
            let from = if is_stacked { reached } else { 0.0 };
            reached = from + if value.is_finite() { *value } else { 0.0 };
            let corners = [(from, top), (reached, top + bar_height - 3.0)];
            chart.draw_series(std::iter::once(Rectangle::new(corners, color.filled())))?;
            if !is_stacked || row + 1 == group.bars.len() {
                let written = if is_stacked { reached } else { *value };
                texts.push(((reached.max(0.0), top + bar_height / 2.0 - 1.5), 5, number(written)));
            }
        }
    }
    if let Some((label, value)) = target {
        let points = [(value, 0.0), (value, height)];
        chart.draw_series(DashedLineSeries::new(points, 6, 4, INK.stroke_width(2)))?;
        let label = fit(label, plot_width as u32, size);
        // The label stands over its line and within the drawing, whichever end the line is near to.
        let x = f64::from(margin) + (value - low) / (high - low) * plot_width;
        let half = f64::from(text_width(&label, size)) / 2.0;
        let x = x.min(f64::from(size.width) - half).max(half);
        let over = style(size).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw_text(&label, &over, (x as i32, size.font as i32))?;
    }
    // Texts come last, on white, so that they can be read where the target's line passes.
    let middle = style(size).pos(Pos::new(HPos::Left, VPos::Center));
    let half_height = (size.font / 2) as i32;
    for (at, right, text) in texts {
        // Nearer to the true width than the cautious estimate that makes room for a text.
        let width = (f64::from(text_width(&text, size)) * 0.75) as i32;
        let ground = [(right - 2, -half_height), (right + width, half_height)];
        let text = EmptyElement::at(at)
            + Rectangle::new(ground, WHITE.filled())
            + Text::new(text, (right, 0), middle.clone());
        chart.draw_series(std::iter::once(text))?;
    }
    Ok(())
}
