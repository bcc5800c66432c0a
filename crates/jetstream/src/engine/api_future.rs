//! Work on the thread of the API that waits, where that thread does not.

use super::calls::CallScope;
use super::host::Host;
use myelin_stdx::sync::lock;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Future that goes on on the thread of the API whenever what it waits for has come.
struct ApiFuture {
    host: Arc<dyn Host>,
    state: Mutex<WorkState>,
}

enum WorkState {
    Waits(Work),
    /// Being polled; `is_woken`: and woken meanwhile.
    Goes {
        is_woken: bool,
    },
    Over,
}

impl Wake for ApiFuture {
    fn wake(self: Arc<Self>) {
        match &mut *lock(&self.state) {
            WorkState::Goes { is_woken } => *is_woken = true,
            WorkState::Waits(_) => Arc::clone(&self).go_on_later(),
            WorkState::Over => {}
        }
    }
}

impl ApiFuture {
    fn go_on_later(self: Arc<Self>) {
        let host = Arc::clone(&self.host);
        host.spawn_api(CallScope::Nothing, Box::new(move || self.go_on()));
    }

    fn go_on(self: Arc<Self>) {
        let before = std::mem::replace(&mut *lock(&self.state), WorkState::Goes { is_woken: false });
        let WorkState::Waits(mut work) = before else {
            *lock(&self.state) = before;
            return;
        };
        // If this panics it is over: nobody polls it again.
        let is_over =
            work.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&self)))).is_ready();
        let after = if is_over { WorkState::Over } else { WorkState::Waits(work) };
        let before = std::mem::replace(&mut *lock(&self.state), after);
        if !is_over && matches!(before, WorkState::Goes { is_woken: true }) {
            self.go_on_later();
        }
    }
}

/// Begins with a future, on the thread of the API, which goes on with it when it can.
pub(super) fn run_on_api(host: &Arc<dyn Host>, work: impl Future<Output = ()> + Send + 'static) {
    let state = Mutex::new(WorkState::Waits(Box::pin(work)));
    Arc::new(ApiFuture { host: Arc::clone(host), state }).go_on();
}
