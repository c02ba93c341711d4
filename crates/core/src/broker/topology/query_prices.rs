//! The sums of what queries take, and whether one more is within the limits.

use hashbrown::HashMap;

use crate::amqp::AmqpError;
use crate::broker::slab::SlotId;
use crate::query::COMPILED_BYTES_MAX;
use crate::query::expr::Expr;
use crate::query::price::Price;

use super::conditions::filter::ConsumerFilter;
use super::ids::{NOBODY, Owner, VhostId};
use super::query_limits::QueryLimits;
use super::{Topology, errors};

/// The prices of all queries that are in use.
#[derive(Debug, Default)]
pub(super) struct QueryPrices {
    limits: QueryLimits,
    vhosts: Vec<Price>,
    /// Of connections that are there. What was recovered belongs to none.
    connections: HashMap<Owner, Price>,
    all: Price,
    /// The bytes that were compiled since somebody asked, also those of refused queries.
    compiled_bytes: u64,
}

impl QueryPrices {
    pub fn new(limits: QueryLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub fn limits(&self) -> &QueryLimits {
        &self.limits
    }

    /// The memory of all queries.
    pub fn bytes(&self) -> u64 {
        self.all.bytes
    }

    pub fn note_compiled(&mut self, price: Price) {
        self.compiled_bytes += price.bytes;
    }

    pub fn take_compiled_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.compiled_bytes)
    }

    /// Check that a query is within all limits, instead of one with the price `before`.
    ///
    /// # Errors
    /// 406, with its price, the limit, and the predicate that takes most.
    pub fn check(
        &self,
        vhost: VhostId,
        connection: Owner,
        query: &Expr,
        (price, before): (Price, Price),
    ) -> Result<(), AmqpError> {
        let limits = &self.limits;
        let bytes = |price: Price| price.bytes;
        let refuse = |what: &str, limit: u64, measure: fn(Price) -> u64| {
            let most = query.most_expensive(measure);
            Err(errors::precondition(&format!("the query takes {what}, and the limit is {limit}; most takes {most}")))
        };
        let with = |sum: Option<&Price>| sum.map_or(0, |sum| sum.bytes.saturating_sub(before.bytes)) + price.bytes;
        let of_vhost = with(self.vhosts.get(vhost.index()));
        let of_connection = with(self.connections.get(&connection));
        if price.bytes > limits.bytes_max {
            return refuse(&format!("{} bytes when compiled", price.bytes), limits.bytes_max, bytes);
        }
        if price.ns_per_byte > limits.ns_per_byte_max {
            let what = format!("{} ns per byte of a message", price.ns_per_byte);
            return refuse(&what, limits.ns_per_byte_max, |price| price.ns_per_byte);
        }
        if of_connection > limits.connection_bytes_max {
            let what = format!("{} bytes, those of the connection {of_connection}", price.bytes);
            return refuse(&what, limits.connection_bytes_max, bytes);
        }
        if of_vhost > limits.vhost_bytes_max {
            let what = format!("{} bytes, those of the vhost {of_vhost}", price.bytes);
            return refuse(&what, limits.vhost_bytes_max, bytes);
        }
        Ok(())
    }

    /// Add the price of a query that is in use from now on.
    pub fn add(&mut self, vhost: VhostId, connection: Owner, price: Price) {
        if self.vhosts.len() <= vhost.index() {
            self.vhosts.resize(vhost.index() + 1, Price::default());
        }
        self.vhosts[vhost.index()] += price;
        if connection != NOBODY {
            *self.connections.entry(connection).or_default() += price;
        }
        self.all += price;
    }

    /// Put the price of a query in place of that of another one of the same binding. Its connection may be gone.
    pub fn replace(&mut self, vhost: VhostId, connection: Owner, before: Price, price: Price) {
        self.subtract(vhost, connection, before);
        self.vhosts[vhost.index()] += price;
        self.all += price;
        if let Some(sum) = self.connections.get_mut(&connection) {
            *sum += price;
        }
    }

    /// Subtract the price of a query that is not in use any more. Its connection may be gone.
    pub fn subtract(&mut self, vhost: VhostId, connection: Owner, price: Price) {
        self.vhosts[vhost.index()] -= price;
        self.all -= price;
        if let Some(sum) = self.connections.get_mut(&connection) {
            *sum -= price;
        }
    }

    /// Forget the sum of a connection that is gone. What it has bound still counts for the vhost.
    pub fn forget(&mut self, connection: Owner) {
        self.connections.remove(&connection);
    }
}

impl Topology {
    /// Add the price of a query that a consumer has from now on.
    ///
    /// # Errors
    /// 406 when it is over a limit.
    pub fn add_filter(&mut self, vhost: VhostId, connection: Owner, filter: &ConsumerFilter) -> Result<(), AmqpError> {
        let price = self.admit(vhost, connection, Some(filter.query()), Price::default())?;
        self.prices.add(vhost, connection, price);
        Ok(())
    }

    /// Subtract the price of a query that a consumer has no more.
    pub fn remove_filter(&mut self, vhost: VhostId, connection: Owner, filter: &ConsumerFilter) {
        self.prices.subtract(vhost, connection, filter.query().price());
    }

    /// Forget what a connection that is gone has bound. It still counts for the vhost.
    pub fn forget_connection(&mut self, connection: Owner) {
        self.prices.forget(connection);
    }

    /// The most that the patterns of one query may take when it is compiled. What survived a restart is not refused.
    pub(super) fn compiled_bytes_max(&self) -> usize {
        let limit = usize::try_from(self.prices.limits().bytes_max).unwrap_or(COMPILED_BYTES_MAX);
        if self.is_recovering { COMPILED_BYTES_MAX } else { limit }
    }

    /// The bytes of the queries that were compiled since the last call, also of those that were refused.
    pub fn take_compiled_bytes(&mut self) -> u64 {
        self.prices.take_compiled_bytes()
    }
}
