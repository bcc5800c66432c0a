//! A way to a server that tests cut and mend.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// Way to a server that can be cut and mended.
pub(crate) struct Cable {
    pub(crate) port: u16,
    is_plugged: Arc<AtomicBool>,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let (is_plugged, ends) = (Arc::new(AtomicBool::new(true)), Arc::<Mutex<Vec<_>>>::default());
        let cable = Self { port, is_plugged: Arc::clone(&is_plugged), ends: Arc::clone(&ends) };
        thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), true) = (near, is_plugged.load(SeqCst)) else { continue };
                let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let ways = [(&near, &far), (&far, &near)];
                for (from, to) in ways.map(|(from, to)| (from.try_clone(), to.try_clone())) {
                    let (mut from, mut to) = (from.expect("a socket"), to.expect("a socket"));
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                ends.lock().expect("nobody panics with it").extend([near, far]);
            }
        });
        cable
    }

    pub(crate) fn unplug(&self) {
        self.is_plugged.store(false, SeqCst);
        for end in self.ends.lock().expect("nobody panics with it").drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn plug(&self) {
        self.is_plugged.store(true, SeqCst);
    }
}
