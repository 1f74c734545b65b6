//! Drawing time lines: panels over one another that share their time, with bands through all of them.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::draw::{draw_line, fit, range, style, text_width, Area, Drawn, Size, AXIS, COLORS, GRID, INK};
use duramen_base::words::number;

/// Light enough that lines and texts on it can be read.
const BAND: RGBColor = RGBColor(250, 218, 213);
const BAND_EDGE: RGBColor = RGBColor(190, 60, 40);

/// What is plotted over time.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    pub(super) x_label: String,
    pub(super) times: Vec<f64>,
    pub(super) panels: Vec<Panel>,
    pub(super) bands: Vec<Band>,
}

/// Lines that share an axis.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) y_label: String,
    /// A name and a value for each time; none breaks the line.
    pub(super) series: Vec<(String, Vec<Option<f64>>)>,
}

/// A time that is set off.
#[derive(Clone, Debug)]
pub(super) struct Band {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) label: String,
}

impl Timeline {
    /// The names of all lines.
    pub(super) fn names(&self) -> Vec<&str> {
        self.panels.iter().flat_map(|panel| panel.series.iter().map(|(name, _)| name.as_str())).collect()
    }

    /// The bands in words.
    pub(super) fn bands_in_words(&self) -> String {
        let words = self.bands.iter().map(|band| {
            format!("{} from {} to {} {}", band.label, number(band.from), number(band.to), self.x_label)
        });
        words.collect::<Vec<_>>().join("; ")
    }

    /// The height of a drawing.
    pub(super) fn height(&self, size: Size) -> u32 {
        let panels = u32::try_from(self.panels.len().max(1)).unwrap_or(1);
        bands_height(size) + panels * panel_height(size) + axis_height(size)
    }

    /// The figures as a table: a row for a time, and what it was set off for.
    pub(super) fn figures(&self, most_rows: usize) -> (Vec<String>, Vec<Vec<String>>) {
        let mut headers = vec![self.x_label.clone()];
        headers.extend(self.names().into_iter().map(str::to_owned));
        headers.push("set off".to_owned());
        let stride = self.times.len().div_ceil(most_rows.max(1)).max(1);
        let row = |(index, time): (usize, &f64)| {
            let mut cells = vec![number(*time)];
            let series = self.panels.iter().flat_map(|panel| &panel.series);
            cells.extend(series.map(|(_, values)| {
                values.get(index).copied().flatten().map_or_else(|| "-".to_owned(), number)
            }));
            let is_in = |band: &&Band| *time >= band.from && *time < band.to;
            cells.push(self.bands.iter().find(is_in).map_or_else(String::new, |band| band.label.clone()));
            cells
        };
        (headers, self.times.iter().enumerate().step_by(stride).map(row).collect())
    }
}

fn bands_height(size: Size) -> u32 {
    size.font * 3 / 2
}

fn panel_height(size: Size) -> u32 {
    size.font * 11
}

fn axis_height(size: Size) -> u32 {
    size.font * 3
}

/// Draws a time line.
pub(super) fn draw<'a>(area: &Area<'a>, size: Size, timeline: &Timeline) -> Drawn<'a> {
    let finite = |time: &f64| time.is_finite();
    let ends = timeline.bands.iter().flat_map(|band| [band.from, band.to]);
    let (low, high) = range(timeline.times.iter().copied().chain(ends).filter(finite), false);
    let left = left_width(timeline, size);
    let last = timeline.panels.len().saturating_sub(1);
    let mut first_series = 0;
    for (index, panel) in timeline.panels.iter().enumerate() {
        let top = bands_height(size) + panel_height(size) * u32::try_from(index).unwrap_or(0);
        let below = if index == last { axis_height(size) } else { 0 };
        let height = panel_height(size) + below;
        let place = area.clone().shrink((0, top), (size.width, height));
        let values = panel.series.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let (y_low, y_high) = range(values.filter(finite), true);
        let mut chart = ChartBuilder::on(&place)
            .margin_right(size.font)
            .margin_top(size.font)
            .set_label_area_size(LabelAreaPosition::Left, left)
            .set_label_area_size(LabelAreaPosition::Bottom, below)
            .build_cartesian_2d(low..high, y_low..y_high)?;
        let shades = timeline.bands.iter().filter(|band| finite(&band.from) && finite(&band.to));
        chart.draw_series(
            shades.clone().map(|band| Rectangle::new([(band.from, y_low), (band.to, y_high)], BAND.filled())),
        )?;
        for edge in shades.flat_map(|band| [band.from, band.to]) {
            let points = [(edge, y_low), (edge, y_high)];
            chart.draw_series(DashedLineSeries::new(points, 3, 3, BAND_EDGE.stroke_width(1)))?;
        }
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(AXIS)
            .label_style(style(size))
            .y_desc(fit(&panel.y_label, panel_height(size), size))
            .y_labels(3)
            .y_label_formatter(&|y| number(*y))
            .x_labels(size.ticks)
            .x_label_formatter(&|x| number(*x));
        if index == last {
            mesh.x_desc(fit(&timeline.x_label, size.width - left, size));
        }
        mesh.draw()?;
        for (offset, (_, values)) in panel.series.iter().enumerate() {
            let series = first_series + offset;
            for points in pieces(&timeline.times, values) {
                if let [only] = points.as_slice() {
                    let color = COLORS[series % COLORS.len()].filled();
                    chart.draw_series(std::iter::once(Circle::new(*only, 2, color)))?;
                } else {
                    draw_line(&mut chart, series, points)?;
                }
            }
        }
        first_series += panel.series.len();
    }
    label_bands(area, size, timeline, left, (low, high))
}

/// The labels stand over their bands and within the drawing.
fn label_bands<'a>(
    area: &Area<'a>,
    size: Size,
    timeline: &Timeline,
    left: u32,
    (low, high): (f64, f64),
) -> Drawn<'a> {
    let plot = f64::from(size.width.saturating_sub(left + size.font));
    let mut free_from = f64::from(left);
    for band in timeline.bands.iter().filter(|band| band.from.is_finite() && band.to.is_finite()) {
        let label = fit(&band.label, size.width - left, size);
        let width = f64::from(text_width(&label, size)) * 0.85;
        let middle = f64::from(left) + ((band.from + band.to) / 2.0 - low) / (high - low) * plot;
        let begin = (middle - width / 2.0).min(f64::from(size.width) - width).max(f64::from(left));
        // One that would stand on another one is left to the table.
        if begin < free_from {
            continue;
        }
        free_from = begin + width + f64::from(size.font);
        let text = style(size).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(&label, &text, (begin as i32, size.font as i32))?;
    }
    Ok(())
}

/// All panels have the same room for the numbers of their axes, so that their times stand over one another.
fn left_width(timeline: &Timeline, size: Size) -> u32 {
    let of_panel = |panel: &Panel| {
        let values = panel.series.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let (low, high) = range(values.filter(|value| value.is_finite()), true);
        [low, high, high * 0.75, high * 0.3].map(|y| text_width(&number(y), size)).into_iter().max()
    };
    timeline.panels.iter().filter_map(of_panel).max().unwrap_or(0) + size.font * 2
}

/// A line where there are values one after the other.
fn pieces(times: &[f64], values: &[Option<f64>]) -> Vec<Vec<(f64, f64)>> {
    let mut pieces = vec![Vec::new()];
    for (time, value) in times.iter().zip(values) {
        match value.filter(|value| value.is_finite() && time.is_finite()) {
            Some(value) => pieces.last_mut().expect("there is always a piece").push((*time, value)),
            None => pieces.push(Vec::new()),
        }
    }
    pieces.retain(|points| !points.is_empty());
    pieces
}
