//! The watches of all replicas: opens them, and delivers what changed. The weather decides how late, and
//! how often.

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use minicluster::{Answer, Next, Watch};

use super::{Happening, Sent, State};
use crate::{clock, reply};

/// Watches are asked at least this often, because they send bookmarks: an operator gives up a watch that is
/// silent for five minutes.
const WATCH_LOOKS_MS: u64 = 290_000;

/// An open watch.
pub(super) struct Open {
    pub(super) replica: usize,
    pub(super) plural: String,
    pub(super) watch: Box<Watch>,
    lines: UnboundedSender<Bytes>,
    pub(super) delivery_due: bool,
}

impl State {
    /// A watch that sends bookmarks although nothing changes.
    pub(super) fn look(&mut self, id: u64) {
        if self.watches.contains_key(&id) {
            self.deliver(id);
            self.plan(WATCH_LOOKS_MS, Happening::Look(id));
        }
    }

    pub(super) fn open_watch(&mut self, sent: Sent) {
        if let Some(answer) = self.weather.refuses(sent.replica, &sent.call) {
            return self.answer(sent, reply::whole(answer));
        }
        let request = self
            .weather
            .rewound(sent.replica, &sent.call, sent.request.clone());
        match self.cluster.handle(clock::now(), request) {
            Answer::Watch(watch) => {
                let (lines, receiver) = unbounded();
                self.sequence += 1;
                let id = self.sequence;
                let open = Open {
                    replica: sent.replica,
                    plural: sent.call.plural.clone(),
                    watch,
                    lines,
                    delivery_due: true,
                };
                self.watches.insert(id, open);
                self.answer(sent, reply::streamed(receiver));
                self.plan(45, Happening::Deliver(id));
                self.plan(WATCH_LOOKS_MS, Happening::Look(id));
            }
            Answer::Whole(answer) => self.answer(sent, reply::whole(answer)),
            Answer::Log(_) => unreachable!("the operator reads no logs"),
        }
    }

    pub(super) fn deliver(&mut self, id: u64) {
        let Some(open) = self.watches.get_mut(&id) else {
            return;
        };
        let lag = self.weather.lag_ms(open.replica, &open.plural);
        open.delivery_due = lag > 0;
        if lag > 0 {
            return self.plan(lag, Happening::Deliver(id));
        }
        let over = match self.cluster.follow(clock::now(), &mut open.watch) {
            Next::Lines(lines) => {
                let lines = self.weather.doubled(open.replica, &open.plural, lines);
                open.lines.unbounded_send(lines.into()).is_err()
            }
            Next::Quiet => open.lines.is_closed(),
            Next::Over => true,
        };
        if over {
            self.watches.remove(&id);
        }
    }

    /// The API server forgets its history: a watch that is behind ends with 410.
    pub(super) fn compact(&mut self) {
        for open in self.watches.values_mut() {
            // Nothing happened that it has not seen, so it is not behind.
            if !self.cluster.has_news(&open.watch)
                && let Next::Lines(lines) = self.cluster.follow(clock::now(), &mut open.watch)
            {
                _ = open.lines.unbounded_send(lines.into());
            }
        }
        self.cluster.compact();
    }

    pub(super) fn drop_watches(&mut self, concerned: impl Fn(&str) -> bool, replica: usize) {
        self.watches
            .retain(|_, open| open.replica != replica || !concerned(&open.plural));
    }
}
