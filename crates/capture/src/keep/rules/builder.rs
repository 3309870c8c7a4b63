//! Rules before a run: what is known of them is asked here, and what they need is said here.

use super::{Book, Rules, RulesError, check, digests, keep, mirrors, passes};
use crate::keep::digests::DigestReader;
use crate::keep::mirrors::MirrorReader;
use crate::keep::pre_filters::{InterfacePreFilter, PreFilterRequest, PreFilters};
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_rules::engine::Live;
use ringside_rules::language::{Ranges, RuleId, RuleSet};
use std::sync::{Arc, Mutex};

/// Rules that are not at work yet. It is consumed when they are put to work, so that all that is
/// said of them is said before; in which order does not matter.
pub struct RulesBuilder {
    set: Arc<RuleSet>,
    compiler: Compiler,
    pre_filters: PreFilters,
    mirrors: Option<MirrorReader>,
    digests: Option<DigestReader>,
    may_pass: bool,
}

impl RulesBuilder {
    /// Rules to be judged by in user space. `compiler` compiles the filter expressions in them.
    ///
    /// # Errors
    /// A rule asks for what user space cannot do.
    pub fn new(set: RuleSet, compiler: Compiler) -> Result<RulesBuilder, RulesError> {
        set.rules.iter().try_for_each(check)?;
        Ok(RulesBuilder {
            pre_filters: PreFilters::new(&set),
            set: Arc::new(set),
            compiler,
            mirrors: None,
            digests: None,
            may_pass: true,
        })
    }

    /// The rules.
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// True if some frames are to go on to the host.
    pub fn pass_some(&self) -> bool {
        passes(&self.set)
    }

    /// Interfaces that copies go to, each with the first rule that says so, in the order of these.
    pub fn mirrors(&self) -> Vec<(RuleId, String)> {
        mirrors(&self.set)
    }

    /// The first rule that digests frames.
    pub fn digests(&self) -> Option<RuleId> {
        digests(&self.set)
    }

    /// The lists of pieces that rules keep.
    pub(in crate::keep) fn keeps(&self) -> Vec<Arc<Ranges<u32>>> {
        self.set.rules.iter().filter_map(keep).cloned().collect()
    }

    /// For backends that have filters in the kernel.
    pub fn pre_filter_request(&self) -> PreFilterRequest {
        PreFilterRequest { set: self.set.clone(), switch: self.pre_filters.switch() }
    }

    /// What backends made of that, by interface.
    #[must_use]
    pub fn with_pre_filters(
        mut self,
        made: impl IntoIterator<Item = (String, InterfacePreFilter)>,
    ) -> RulesBuilder {
        self.pre_filters.add(made);
        self
    }

    /// No rule may come that leaves frames to the host: it does not get them.
    #[must_use]
    pub fn forbid_pass(self) -> RulesBuilder {
        RulesBuilder { may_pass: false, ..self }
    }

    /// Copies are sent, and counted there; else none can be.
    #[must_use]
    pub(in crate::keep) fn with_mirrors(self, reader: Option<MirrorReader>) -> RulesBuilder {
        RulesBuilder { mirrors: reader, ..self }
    }

    /// Records are written, and counted there; else none are.
    #[must_use]
    pub(in crate::keep) fn with_digests(self, reader: Option<DigestReader>) -> RulesBuilder {
        RulesBuilder { digests: reader, ..self }
    }

    /// Puts the rules to work on frames of these link types.
    ///
    /// # Errors
    /// A rule wants copies or records that there are none of, they are too many, or a filter
    /// expression is wrong.
    pub fn build(self, links: impl IntoIterator<Item = LinkType>) -> Result<Rules, RulesError> {
        if let (None, Some((id, name))) = (&self.mirrors, self.mirrors().into_iter().next()) {
            return Err(RulesError::Mirror { id, name });
        }
        if let (None, Some(id)) = (&self.digests, self.digests()) {
            return Err(RulesError::Digest { id });
        }
        let mut lives: Vec<(LinkType, Live)> = Vec::new();
        for link in links {
            if !lives.iter().any(|(known, _)| *known == link) {
                lives.push((link, Live::new((*self.set).clone(), link, &self.compiler)?));
            }
        }
        let keeps = self.keeps();
        let RulesBuilder { set, pre_filters, mirrors, digests, may_pass, .. } = self;
        let book = Book { set, lives, keeps, mirrors, digests, may_pass, pre_filters };
        Ok(Rules(Arc::new(Mutex::new(book))))
    }
}
