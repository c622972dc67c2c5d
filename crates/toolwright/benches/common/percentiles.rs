//! Latencies and what to say about them.

use std::time::Duration;

pub struct Latencies {
    sorted: Vec<f64>,
    wall: Duration,
}

impl Latencies {
    pub fn new(mut micros: Vec<f64>, wall: Duration) -> Self {
        micros.sort_by(f64::total_cmp);
        Self { sorted: micros, wall }
    }

    /// Several measurements as one.
    pub fn joined(parts: Vec<Self>) -> Self {
        let wall = parts.iter().map(|part| part.wall).sum();
        Self::new(parts.into_iter().flat_map(|part| part.sorted).collect(), wall)
    }

    pub fn percentile(&self, percent: f64) -> f64 {
        let at = (self.sorted.len() - 1) as f64 * percent / 100.0;
        self.sorted[at.round() as usize]
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    pub fn per_second(&self) -> f64 {
        self.sorted.len() as f64 / self.wall.as_secs_f64()
    }

    pub fn row(&self, name: &str) {
        println!("| {name} | {:.1} | {:.1} | {:.0} |", self.percentile(50.0), self.percentile(99.0), self.per_second());
    }
}
