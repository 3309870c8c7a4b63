//! Actions as text.

use super::{separated, word_or_quoted};
use crate::language::actions::{Actions, InterfaceName, Next, Redirect, Trim, Verdict};
use crate::language::show::term::ranges;
use std::fmt::{self, Display, Formatter};

impl Display for Actions {
    /// Without any action there is no text that could be read back; `continue` says the same.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<&dyn Display> = Vec::new();
        if let Some(verdict) = &self.verdict {
            parts.push(verdict);
        }
        if let Some(redirect) = &self.redirect {
            parts.push(redirect);
        }
        let mirror = self.mirror.as_ref().map(Mirror);
        if let Some(mirror) = &mirror {
            parts.push(mirror);
        }
        if let Some(trim) = &self.trim {
            parts.push(trim);
        }
        let sample = self.sample.map(|sample| format!("sample 1/{}", sample.0));
        if let Some(sample) = &sample {
            parts.push(sample);
        }
        if self.count {
            parts.push(&"count");
        }
        if self.digest {
            parts.push(&"digest");
        }
        if self.pin {
            parts.push(&"pin");
        }
        if self.next != self.usual_next() || parts.is_empty() {
            parts.push(&self.next);
        }
        separated(f, parts, ", ", |part, f| part.fmt(f))
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Pass => "pass",
            Verdict::Take => "take",
            Verdict::Drop => "drop",
        })
    }
}

impl Display for Next {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Next::Continue => "continue",
            Next::Stop => "stop",
        })
    }
}

impl Display for Trim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Trim::Cap(bytes) => write!(f, "cap {bytes}"),
            Trim::Keep(kept) => {
                f.write_str("keep ")?;
                ranges(kept, ",", f)
            }
        }
    }
}

struct Mirror<'a>(&'a InterfaceName);

impl Display for Mirror<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("mirror ")?;
        word_or_quoted(self.0.as_str(), f)
    }
}

impl Display for Redirect {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Redirect::Queue(queue) => write!(f, "redirect queue {queue}"),
            Redirect::Cpu(cpu) => write!(f, "redirect cpu {cpu}"),
            Redirect::Interface(name) => {
                f.write_str("redirect ")?;
                match name.as_str() {
                    // Without quotation marks these would begin the other forms.
                    name @ ("queue" | "cpu") => super::in_quotes(name.as_bytes(), f),
                    name => word_or_quoted(name, f),
                }
            }
        }
    }
}
