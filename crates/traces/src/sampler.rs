//! Whose spans are sent: the samplers that `OTEL_TRACES_SAMPLER` can name.

use super::context::TraceId;

/// Decides by the trace alone, so that all turns and workers decide alike.
#[derive(Clone, Debug, PartialEq)]
pub enum Sampler {
    /// All.
    AlwaysOn,
    /// None.
    AlwaysOff,
    /// Traces whose id is below this, as the other implementations reckon.
    Ratio(u64),
    /// As the starter did; of traces that begin here, as this one does.
    ParentBased(Box<Sampler>),
}

/// What `OTEL_TRACES_SAMPLER` or `OTEL_TRACES_SAMPLER_ARG` says is not understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// There is no such sampler.
    #[error("OTEL_TRACES_SAMPLER is {0:?}: write always_on, always_off, traceidratio, or one of these with parentbased_ before it")]
    Name(String),
    /// Not a share.
    #[error("OTEL_TRACES_SAMPLER_ARG is {0:?}: write the share of traces to send as a number from 0 to 1")]
    Argument(String),
}

impl Sampler {
    /// The sampler of this name. Without a name, the standard's: as the starter did, else always.
    ///
    /// # Errors
    /// [`SamplerError`]
    pub fn parse(name: Option<&str>, argument: Option<&str>) -> Result<Self, SamplerError> {
        let name = name.unwrap_or("parentbased_always_on");
        let (parent_based, root) = match name.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, name),
        };
        let root = match root {
            "always_on" => Self::AlwaysOn,
            "always_off" => Self::AlwaysOff,
            "traceidratio" => {
                let argument = argument.unwrap_or("1");
                let share: f64 =
                    argument.trim().parse().map_err(|_| SamplerError::Argument(argument.to_owned()))?;
                if !(0.0..=1.0).contains(&share) {
                    return Err(SamplerError::Argument(argument.to_owned()));
                }
                Self::Ratio((share * (1_u64 << 63) as f64) as u64)
            }
            _ => return Err(SamplerError::Name(name.to_owned())),
        };
        Ok(if parent_based { Self::ParentBased(Box::new(root)) } else { root })
    }

    /// Whether the spans of a trace are sent. `parent`: whether the starter's were.
    #[must_use]
    pub fn samples(&self, id: &TraceId, parent: Option<bool>) -> bool {
        match (self, parent) {
            (Self::AlwaysOn, _) => true,
            (Self::AlwaysOff, _) => false,
            (Self::Ratio(bound), _) => {
                let mut low = [0; 8];
                low.copy_from_slice(&id[8..]);
                u64::from_be_bytes(low) >> 1 < *bound
            }
            (Self::ParentBased(_), Some(sampled)) => sampled,
            (Self::ParentBased(root), None) => root.samples(id, None),
        }
    }
}

#[cfg(test)]
mod tests;
