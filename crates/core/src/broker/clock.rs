//! The broker's clock: the caller's monotonic time, and the wall clock derived from it.

/// Time in microseconds of the caller's monotonic clock.
pub type Micros = u64;

/// A moment that never comes.
pub(crate) const NEVER: Micros = Micros::MAX;

/// The current time. Only the caller moves it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    now: Micros,
    /// Wall clock minus `now`.
    wall_offset: i64,
    /// The last tick.
    ticked: Micros,
    /// The end of the last time in which nobody was heard, because the caller was busy.
    hearing_since: Micros,
}

/// Time between two ticks after which the silence of clients is not theirs: their sockets have not been read meanwhile.
const DEAF_AFTER_US: Micros = 1_000_000;

impl Clock {
    /// A clock that shows `now`, which is `wall_us` microseconds since 1970.
    pub fn new(now: Micros, wall_us: i64) -> Self {
        Self { now, wall_offset: wall_us.wrapping_sub(now as i64), ticked: now, hearing_since: 0 }
    }

    /// Monotonic time.
    #[inline]
    pub fn now(self) -> Micros {
        self.now
    }

    /// Microseconds since 1970.
    #[inline]
    pub fn wall_us(self) -> i64 {
        (self.now as i64).wrapping_add(self.wall_offset)
    }

    /// Move forward. Time never goes back here, whatever the caller says.
    #[inline]
    pub fn advance(&mut self, now: Micros) {
        self.now = self.now.max(now);
    }

    /// Note a tick at `now`. One that comes much later than the last means that nobody was heard in between.
    pub fn tick(&mut self, now: Micros) {
        self.advance(now);
        if self.now - self.ticked > DEAF_AFTER_US {
            self.hearing_since = self.now;
        }
        self.ticked = self.now;
    }

    /// The moment from which on the silence of a client is its own.
    pub fn hearing_since(self) -> Micros {
        self.hearing_since
    }

    /// Take the wall clock's time at `now`.
    pub fn set_wall(&mut self, now: Micros, wall_us: i64) {
        self.wall_offset = wall_us.wrapping_sub(now as i64);
    }
}
