//! Computes percentiles and rates of measured latencies.

use std::time::Duration;

pub(crate) struct Latencies {
    sorted: Vec<f64>,
    wall: Duration,
}

impl Latencies {
    pub(crate) fn new(mut micros: Vec<f64>, wall: Duration) -> Self {
        micros.sort_by(f64::total_cmp);
        Self { sorted: micros, wall }
    }

    /// Merges several measurements into one. The total duration is the sum of their durations.
    pub(crate) fn merge(measurements: Vec<Self>) -> Self {
        let wall = measurements.iter().map(|measurement| measurement.wall).sum();
        Self::new(measurements.into_iter().flat_map(|measurement| measurement.sorted).collect(), wall)
    }

    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let at = (self.sorted.len() - 1) as f64 * percent / 100.0;
        self.sorted[at.round() as usize]
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.sorted.len() as f64 / self.wall.as_secs_f64()
    }

    /// Prints the median, the 99th percentile and the rate as a row of a Markdown table.
    pub(crate) fn row(&self, name: &str) {
        println!("| {name} | {:.1} | {:.1} | {:.0} |", self.percentile(50.0), self.percentile(99.0), self.per_second());
    }
}
