//! Futures that run beside one another and never end. Only those that were woken are polled, as a runtime
//! does it; but in the order of the list, not in that of their waking, which differs from run to run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use futures::task::AtomicWaker;

/// All of them.
pub(crate) struct Beside {
    parts: Vec<Part>,
    whole: Arc<AtomicWaker>,
}

struct Part {
    future: BoxFuture<'static, ()>,
    waker: Waker,
    bell: Arc<Bell>,
}

/// Tells that a part was woken.
struct Bell {
    rung: AtomicBool,
    whole: Arc<AtomicWaker>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Relaxed);
        self.whole.wake();
    }
}

impl Beside {
    pub(crate) fn new(futures: Vec<BoxFuture<'static, ()>>) -> Self {
        let whole: Arc<AtomicWaker> = Arc::default();
        let part = |future| {
            let bell = Arc::new(Bell {
                rung: AtomicBool::new(true),
                whole: Arc::clone(&whole),
            });
            Part {
                future,
                waker: Waker::from(Arc::clone(&bell)),
                bell,
            }
        };
        Self {
            parts: futures.into_iter().map(part).collect(),
            whole,
        }
    }
}

impl Future for Beside {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.whole.register(context.waker());
        self.parts.retain_mut(|part| {
            let is_due = part.bell.rung.swap(false, Ordering::Relaxed);
            let polled = is_due.then(|| {
                let mut context = Context::from_waker(&part.waker);
                part.future.as_mut().poll(&mut context)
            });
            polled != Some(Poll::Ready(()))
        });
        match self.parts.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}
