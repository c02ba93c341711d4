//! Principals: users in vhosts, with the verdicts that are remembered of each.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::broker::access::control::{Access, Control, Resource, UserLimits, Verb};
use crate::broker::ids::PrincipalSlot;
use crate::broker::slab::Slab;

/// Maximum number of verdicts that are remembered of one kind; at the bound all of them are forgotten.
const VERDICTS_MAX: usize = 4096;

type Verdicts = HashMap<Box<str>, bool, FixedState>;

/// A user in a vhost.
#[derive(Debug)]
pub(crate) struct Principal {
    pub user: Arc<str>,
    pub vhost: Arc<str>,
    /// The number of its connections.
    connections: u32,
    /// By verb and resource.
    verdicts: [Verdicts; 9],
    /// By verb, for exchange and key, with a NUL between them.
    topics: [Verdicts; 3],
    has_topic_rules: Option<bool>,
}

/// The connections and queues of a user.
#[derive(Debug, Default)]
struct Usage {
    connections: u32,
    queues: u32,
    limits: Option<UserLimits>,
}

/// All principals that have connections, with what is remembered of them.
#[derive(Debug, Default)]
pub(crate) struct Principals {
    slab: Slab<PrincipalSlot, Principal>,
    users: HashMap<Arc<str>, Usage, FixedState>,
    /// Changes whenever verdicts are forgotten, so that whoever keeps one knows that it is old.
    pub version: u64,
}

impl Principals {
    /// Count one more connection of this user in this vhost. Returns whether the user may have it.
    pub fn connect(
        &mut self,
        control: &mut dyn Control,
        user: &str,
        vhost: &Arc<str>,
    ) -> (PrincipalSlot, Result<(), String>) {
        let known = self.slab.iter().find(|(_, known)| *known.user == *user && known.vhost == *vhost).map(|(it, _)| it);
        let number = known.unwrap_or_else(|| {
            let user = self.users.get_key_value(user).map_or_else(|| user.into(), |(user, _)| Arc::clone(user));
            self.slab.insert(Principal {
                user,
                vhost: Arc::clone(vhost),
                connections: 0,
                verdicts: Default::default(),
                topics: Default::default(),
                has_topic_rules: None,
            })
        });
        let principal = &mut self.slab[number];
        principal.connections += 1;
        let usage = self.users.entry(Arc::clone(&principal.user)).or_default();
        usage.connections += 1;
        let limits = *usage.limits.get_or_insert_with(|| control.limits(user));
        let result = match limits.connections {
            Some(maximum) if usage.connections > maximum => {
                Err(format!("connection refused for user '{user}': user connection limit ({maximum}) is reached"))
            }
            _ => Ok(()),
        };
        (number, result)
    }

    /// Count one connection less. A principal without connections is forgotten.
    pub fn disconnect(&mut self, number: PrincipalSlot) {
        let principal = &mut self.slab[number];
        principal.connections -= 1;
        let user = Arc::clone(&principal.user);
        if principal.connections == 0 {
            self.slab.remove(number);
            self.version += 1;
        }
        self.change_usage(&user, |usage| usage.connections -= 1);
    }

    /// Count one more queue that this user declared.
    ///
    /// # Errors
    /// The limit is reached; the queue is not counted.
    pub fn add_queue(&mut self, control: &mut dyn Control, user: &Arc<str>) -> Result<(), String> {
        self.check_queues(control, user)?;
        self.users.entry(Arc::clone(user)).or_default().queues += 1;
        Ok(())
    }

    /// Check that this user may declare one more queue.
    ///
    /// # Errors
    /// The limit is reached.
    pub fn check_queues(&mut self, control: &mut dyn Control, user: &Arc<str>) -> Result<(), String> {
        let usage = self.users.entry(Arc::clone(user)).or_default();
        let limits = *usage.limits.get_or_insert_with(|| control.limits(user));
        match limits.queues {
            Some(maximum) if usage.queues >= maximum => {
                Err(format!("cannot declare queue: queue limit ({maximum}) of user '{user}' is reached"))
            }
            _ => Ok(()),
        }
    }

    /// Count one more queue of a user who may not be connected, whatever the limit. Returns the user.
    pub fn recover_queue(&mut self, user: &str) -> Arc<str> {
        let user = self.users.get_key_value(user).map_or_else(|| user.into(), |(user, _)| Arc::clone(user));
        self.users.entry(Arc::clone(&user)).or_default().queues += 1;
        user
    }

    /// Count one queue less.
    pub fn remove_queue(&mut self, user: &Arc<str>) {
        self.change_usage(user, |usage| usage.queues -= 1);
    }

    fn change_usage(&mut self, user: &Arc<str>, change: impl FnOnce(&mut Usage)) {
        if let Some(usage) = self.users.get_mut(user) {
            change(usage);
            if usage.connections == 0 && usage.queues == 0 {
                self.users.remove(user);
            }
        }
    }

    /// The control plane changed what `user` may do, or what anybody may.
    pub fn forget(&mut self, user: Option<&str>) {
        self.version += 1;
        let numbers: Vec<PrincipalSlot> =
            self.slab.iter().filter(|(_, it)| user.is_none_or(|user| *it.user == *user)).map(|(it, _)| it).collect();
        for number in numbers {
            let principal = &mut self.slab[number];
            principal.verdicts.iter_mut().chain(&mut principal.topics).for_each(Verdicts::clear);
            principal.has_topic_rules = None;
        }
        for (name, usage) in &mut self.users {
            if user.is_none_or(|user| **name == *user) {
                usage.limits = None;
            }
        }
    }

    pub fn get(&self, number: PrincipalSlot) -> &Principal {
        &self.slab[number]
    }

    /// Whether this principal may do this with this resource.
    pub fn allows(
        &mut self,
        control: &mut dyn Control,
        number: PrincipalSlot,
        verb: Verb,
        resource: Resource,
        name: &str,
    ) -> bool {
        let principal = &mut self.slab[number];
        let name = if name.is_empty() && resource == Resource::Exchange { "amq.default" } else { name };
        let verdicts = &mut principal.verdicts[verb as usize * 3 + resource as usize];
        if let Some(verdict) = verdicts.get(name) {
            return *verdict;
        }
        let (user, vhost) = (&*principal.user, &*principal.vhost);
        let verdict = control.allowed(&Access { user, vhost, verb, resource, name, routing_key: None });
        remember(verdicts, name.into(), verdict);
        verdict
    }

    /// Whether routing keys matter to what this principal may do.
    pub fn has_topic_rules(&mut self, control: &mut dyn Control, number: PrincipalSlot) -> bool {
        let Principal { user, vhost, has_topic_rules, .. } = &mut self.slab[number];
        *has_topic_rules.get_or_insert_with(|| control.has_topic_rules(user, vhost))
    }

    /// Whether this principal may do this with this key of an exchange of type topic.
    pub fn allows_topic(
        &mut self,
        control: &mut dyn Control,
        number: PrincipalSlot,
        verb: Verb,
        exchange: &str,
        routing_key: &str,
    ) -> bool {
        if !self.has_topic_rules(control, number) {
            return true;
        }
        let principal = &mut self.slab[number];
        let (user, vhost) = (&*principal.user, &*principal.vhost);
        let key = format!("{exchange}\0{routing_key}");
        let verdicts = &mut principal.topics[verb as usize];
        if let Some(verdict) = verdicts.get(&*key) {
            return *verdict;
        }
        let resource = Resource::Exchange;
        let access = Access { user, vhost, verb, resource, name: exchange, routing_key: Some(routing_key) };
        let verdict = control.allowed(&access);
        remember(verdicts, key.into(), verdict);
        verdict
    }
}

fn remember(verdicts: &mut Verdicts, name: Box<str>, verdict: bool) {
    if verdicts.len() >= VERDICTS_MAX {
        verdicts.clear();
    }
    verdicts.insert(name, verdict);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::topology::StoredQuery;
    use crate::testing::rounds;

    /// Allows names that begin with `mine`, and counts how often it was asked.
    #[derive(Default)]
    struct CountingControl {
        asked: usize,
        has_topic_rules: bool,
        most: Option<u32>,
    }

    impl Control for CountingControl {
        fn allowed(&mut self, access: &Access<'_>) -> bool {
            self.asked += 1;
            access.routing_key.unwrap_or(access.name).starts_with("mine")
        }

        fn has_topic_rules(&mut self, _: &str, _: &str) -> bool {
            self.has_topic_rules
        }

        fn stored_query(&mut self, key: &str) -> Result<StoredQuery, String> {
            Err(format!("no query '{key}'"))
        }

        fn limits(&mut self, _: &str) -> UserLimits {
            UserLimits { connections: self.most, queues: self.most }
        }
    }

    fn connected(control: &mut CountingControl) -> (Principals, PrincipalSlot) {
        let mut principals = Principals::default();
        let (number, result) = principals.connect(control, "ann", &"/".into());
        result.expect("within limits");
        (principals, number)
    }

    #[test]
    fn a_verdict_is_asked_once_until_it_is_forgotten() {
        let control = &mut CountingControl::default();
        let (mut principals, ann) = connected(control);
        for _ in 0..3 {
            assert!(principals.allows(control, ann, Verb::Read, Resource::Queue, "mine"));
            assert!(!principals.allows(control, ann, Verb::Write, Resource::Exchange, ""));
        }
        assert_eq!(control.asked, 2);
        principals.forget(Some("bob"));
        assert!(principals.allows(control, ann, Verb::Read, Resource::Queue, "mine"));
        assert_eq!(control.asked, 2);
        principals.forget(Some("ann"));
        assert!(principals.allows(control, ann, Verb::Read, Resource::Queue, "mine"));
        assert_eq!((control.asked, principals.version), (3, 2));
    }

    #[test]
    fn keys_are_asked_about_only_where_they_matter() {
        let control = &mut CountingControl::default();
        let (mut principals, ann) = connected(control);
        assert!(principals.allows_topic(control, ann, Verb::Write, "e", "other"));
        control.has_topic_rules = true;
        principals.forget(None);
        assert!(!principals.allows_topic(control, ann, Verb::Write, "e", "other"));
        assert!(principals.allows_topic(control, ann, Verb::Write, "e", "mine"));
        assert!(principals.allows_topic(control, ann, Verb::Write, "e", "mine"));
        assert_eq!(control.asked, 2);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let control = &mut CountingControl::default();
        let (mut principals, ann) = connected(control);
        for name in rounds(0..3 * VERDICTS_MAX) {
            principals.allows(control, ann, Verb::Write, Resource::Exchange, &name.to_string());
        }
        assert!(principals.slab[ann].verdicts.iter().all(|verdicts| verdicts.len() <= VERDICTS_MAX));
    }

    #[test]
    fn a_user_has_no_more_than_the_limits() {
        let control = &mut CountingControl { most: Some(1), ..CountingControl::default() };
        let (mut principals, ann) = connected(control);
        let user = Arc::clone(&principals.get(ann).user);
        let (again, result) = principals.connect(control, "ann", &"/".into());
        assert_eq!((again, result.is_err()), (ann, true));
        assert!(principals.add_queue(control, &user).is_ok() && principals.add_queue(control, &user).is_err());
        principals.disconnect(ann);
        principals.disconnect(ann);
        principals.remove_queue(&user);
        assert_eq!((principals.slab.len(), principals.users.len()), (0, 0));
    }
}
