//! stub
use super::filling::{Filled, Filling};
use super::intake::{Fault, Progress, Target};
use myelin_store::Timestamp;
use myelin_store::nats::frames::FrameReader;

pub(super) struct TarIntake(FrameReader);

impl TarIntake {
    pub(super) fn new(frames: FrameReader) -> Self { Self(frames) }
    pub(super) fn feed(&mut self, bytes: &[u8]) { self.0.feed(bytes); }
    pub(super) fn work(&mut self, _: &mut Option<Filling>, _: &mut dyn Target, _: usize, _: Timestamp) -> Result<Progress, Fault> {
        Err(Fault::Other("no".into()))
    }
    pub(super) fn finish(self, filling: Option<Filling>, _: &mut dyn Target, _: Timestamp) -> Result<Filled, (Option<Filling>, Fault)> {
        Err((filling, Fault::Other("no".into())))
    }
}
