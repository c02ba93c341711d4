//! Shortage: publishers wait while memory is short, and go on when it is not.
//!
//! A connection that publishes during a shortage is told (connection.blocked, where it knows that) and read no more;
//! what it sent already waits in its `input`. Consumers go on, and are what ends the shortage.

use crate::amqp::method::{ConnectionBlocked, ConnectionUnblocked};

use super::connection::Life;
use super::{Broker, Event};

const LOW_ON_MEMORY: &str = "low on memory";

impl Broker {
    /// Begin or end a shortage of memory. It ends at nine tenths of the watermark, so that it does not flutter.
    pub(super) fn check_memory(&mut self) {
        let bytes = self.messages.resident_bytes();
        let most = self.options.memory_bytes_max;
        match self.blocked {
            None if bytes > most => self.block(LOW_ON_MEMORY),
            Some(LOW_ON_MEMORY) if bytes <= most / 10 * 9 => self.unblock(),
            _ => {}
        }
    }

    fn block(&mut self, reason: &'static str) {
        self.blocked = Some(reason);
        self.events.push(Event::Blocked { reason: reason.to_owned() });
        let publishers: Vec<u32> =
            self.connections.iter().filter(|(_, connection)| connection.publishes).map(|(number, _)| number).collect();
        publishers.into_iter().for_each(|number| self.block_connection(number));
    }

    /// A connection published: when there is a shortage, it is the last that is heard of it for now.
    #[inline]
    pub(super) fn note_publisher(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        connection.publishes = true;
        if self.blocked.is_some() && !connection.is_blocked {
            self.block_connection(number);
        }
    }

    fn block_connection(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        if connection.is_blocked || connection.life != Life::Open {
            return;
        }
        connection.is_blocked = true;
        if connection.knows_blocked {
            let reason = self.blocked.unwrap_or_default();
            self.answer(number, 0, ConnectionBlocked { reason }.into());
        }
        self.touch(number);
    }

    fn unblock(&mut self) {
        self.blocked = None;
        self.events.push(Event::Unblocked);
        let blocked: Vec<u32> =
            self.connections.iter().filter(|(_, connection)| connection.is_blocked).map(|(number, _)| number).collect();
        for number in blocked {
            let connection = &mut self.connections[number];
            connection.is_blocked = false;
            // Whoever was not read could not be heard.
            connection.heard = self.now;
            if connection.life == Life::Open && connection.knows_blocked {
                self.answer(number, 0, ConnectionUnblocked {}.into());
            }
            self.touch(number);
            self.resume(number);
        }
    }
}
