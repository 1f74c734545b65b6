//! A pass: data, what happens beside the load, the load, and what was seen meanwhile.

pub mod stall;
