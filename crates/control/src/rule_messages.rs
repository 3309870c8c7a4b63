//! What is asked and answered about rules.

use crate::side_effects::SideEffectsStatus;
use ringside_rules::Rule;
use ringside_rules::engine::Counts;
use serde::{Deserialize, Serialize};

/// Characters of one piece of an upload: as JSON, with every character escaped, it fits a line.
pub const UPLOAD_CHARS: usize = 8 << 10;

/// What a client asks about rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum RulesCommand {
    /// Adds text to an upload, whose number the client chooses.
    Upload {
        /// The upload.
        upload: u64,
        /// The address file that the text is of; none for rules.
        #[serde(default)]
        set: Option<String>,
        /// A piece of it.
        text: String,
    },
    /// Replaces all rules by those of an upload.
    Load {
        /// The upload.
        upload: u64,
    },
    /// Adds rules, one a line; one without an id gets one more than the highest.
    Add {
        /// The rules.
        rules: String,
        /// Where the address files are that they name.
        #[serde(default)]
        upload: Option<u64>,
    },
    /// Deletes rules; those that do not exist are reported.
    Delete {
        /// Ids of the rules.
        ids: Vec<u32>,
    },
    /// The rules by id, with what they counted.
    List {
        /// Those behind this one; the first ones if none.
        #[serde(default)]
        after: Option<u32>,
    },
    /// Deletes all rules.
    Flush {},
}

/// The answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RulesReply {
    /// How many rules there are now.
    pub rules: usize,
    /// Rules that came or went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<u32>,
    /// From when the request was read to when all frames are judged so: nanoseconds.
    pub took_ns: u64,
    /// When the request was read: nanoseconds since 1970, UTC.
    pub read_ns: u64,
    /// Of a list: rules by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<RuleStatus>>,
    /// Of a list: there are more, behind the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Of a list: frames that no rule decided about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultStatus>,
    /// Of a list: side effects of the rules.
    #[serde(default, rename = "beside", skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffectsStatus>,
}

/// A rule, and what it counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Its id.
    pub id: u32,
    /// Frames that it decided about.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Where it is decided about.
    pub place: String,
    /// The rule, in its canonical form without the id.
    pub text: String,
}

/// Frames that no rule decided about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultStatus {
    /// What became of them.
    pub verdict: String,
    /// Number of these frames.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of filters in the kernel that turn away some of them before they are copied: how it stands,
    /// a line for each interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pre_filters: Vec<String>,
}

impl RuleStatus {
    pub(super) fn of(rule: &Rule, Counts { frames, bytes }: Counts, place: &str) -> RuleStatus {
        RuleStatus { id: rule.id.0, frames, bytes, place: place.into(), text: rule.to_string() }
    }
}
