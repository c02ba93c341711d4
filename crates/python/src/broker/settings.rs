//! The arguments of the constructor of `tamis._core.Broker`: the journal, limits of queries, kinds of addresses.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tamis_core::broker::durable::DurableOptions;
use tamis_core::broker::topology::QueryLimits;
use tamis_core::broker::{AddressSettings, Addresses, Storage};
use tamis_core::journal::{Committer, Disk, RealDisk, UnsyncedDisk};

/// Open the journal's directory, and start the thread that writes it.
pub(super) fn storage(dir: PathBuf, segment_bytes: u32, syncs: bool) -> PyResult<(Storage, UnixStream)> {
    let (wake, waker) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    // A full socket needs no further byte: its reader will be woken anyway.
    let committer = Committer::start(move || drop((&waker).write(&[1])))?;
    let disk: Arc<dyn Disk> = if syncs { Arc::new(RealDisk) } else { Arc::new(UnsyncedDisk(Arc::new(RealDisk))) };
    let journal = DurableOptions { segment_bytes, ..DurableOptions::default() };
    Ok((Storage { disk, dir, committer, journal }, wake))
}

/// The limits of queries by their names, with the defaults of those that are missing.
pub(super) fn query_limits(given: &HashMap<String, u64>) -> PyResult<QueryLimits> {
    let mut limits = QueryLimits::default();
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    for (name, &value) in given {
        match name.as_str() {
            "bytes_max" => limits.bytes_max = value,
            "ns_per_byte_max" => limits.ns_per_byte_max = value,
            "connection_bytes_max" => limits.connection_bytes_max = value,
            "vhost_bytes_max" => limits.vhost_bytes_max = value,
            "body_bytes_max" => limits.body_bytes_max = size(value),
            "body_values_max" => limits.body_values_max = size(value),
            "refuses_large_bodies" => limits.refuses_large_bodies = value != 0,
            "match_ns_max" => limits.match_ns_max = value,
            other => return Err(PyValueError::new_err(format!("no limit of queries '{other}'"))),
        }
    }
    Ok(limits)
}

/// The settings of mailboxes and services by their names; 0 is no limit where there may be none.
pub(super) fn addresses(given: &HashMap<String, HashMap<String, u64>>) -> PyResult<Addresses> {
    let mut addresses = Addresses::default();
    for (kind, settings) in given {
        match kind.as_str() {
            "mailbox" => set_address(&mut addresses.mailbox, settings)?,
            "service" => set_address(&mut addresses.service, settings)?,
            other => return Err(PyValueError::new_err(format!("no kind of address '{other}'"))),
        }
    }
    Ok(addresses)
}

fn set_address(settings: &mut AddressSettings, given: &HashMap<String, u64>) -> PyResult<()> {
    for (name, &value) in given {
        let unless_zero = (value > 0).then_some(value);
        match name.as_str() {
            "durable" => settings.durable = value != 0,
            "length_max" => settings.length_max = value,
            "bytes_max" => settings.bytes_max = value,
            "consumer_timeout_ms" => settings.consumer_timeout_ms = unless_zero,
            "unused_ms" => settings.unused_ms = unless_zero,
            other => return Err(PyValueError::new_err(format!("no setting of addresses '{other}'"))),
        }
    }
    Ok(())
}
