//! The E-model (ITU-T G.107, 06/2015): from what impairs a connection to R, and from R to MOS.
//!
//! All parameters have their default values but those of [`Impairments`]. Narrowband only: for
//! wideband there is G.107.1, with other codecs' numbers.

/// What is known to impair a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairments {
    /// One way from mouth to ear, in milliseconds (Ta; echoes take the same).
    pub delay_ms: f64,
    /// Equipment impairment of the codec (Ie, by G.113).
    pub ie: f64,
    /// Packet-loss robustness of the codec (Bpl, by G.113).
    pub bpl: f64,
    /// Packets that are lost, in percent of those of the interval (Ppl).
    pub loss_percent: f64,
    /// Mean length of runs of losses, over what it were if losses were independent (BurstR).
    pub burst_ratio: f64,
}

/// R: 93.2 for nothing but what is always there.
pub fn r_factor(of: &Impairments) -> f64 {
    let noise = noise();
    let ro = 15.0 - 1.5 * (SLR + noise);
    let loss = of.loss_percent.clamp(0.0, 100.0);
    let ratio = of.burst_ratio.max(1.0);
    let robust = loss / ratio + of.bpl;
    // Without loss there is nothing to be robust against.
    let lost = if loss > 0.0 { (95.0 - of.ie) * loss / robust } else { 0.0 };
    ro - simultaneous(noise, ro, of.delay_ms) - delayed(noise, ro, of.delay_ms) - (of.ie + lost)
}

/// The mean opinion score that R stands for: 1 to 4.5.
pub fn mos(r: f64) -> f64 {
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        // Between 0 and 6.5 the polynomial is below 1.
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

// The defaults, table 3.
const SLR: f64 = 8.0;
const RLR: f64 = 2.0;
const STMR: f64 = 15.0;
const DS: f64 = 3.0;
const DR: f64 = 3.0;
const TELR: f64 = 65.0;
const WEPL: f64 = 110.0;
const NC: f64 = -70.0;
const NFOR: f64 = -64.0;
const PS: f64 = 35.0;
const PR: f64 = 35.0;
const QDU: f64 = 1.0;

fn power(db: f64) -> f64 {
    10f64.powf(db / 10.0)
}

/// No: all noise, in dBm0p (equations 3 to 7).
fn noise() -> f64 {
    let olr = SLR + RLR;
    let nos = PS - SLR - DS - 100.0 + 0.004 * (PS - olr - DS - 14.0).powi(2);
    let pre = PR + 10.0 * (1.0 + power(10.0 - (STMR + DR))).log10();
    let nor = RLR - 121.0 + pre + 0.008 * (pre - 35.0).powi(2);
    let nfo = NFOR + RLR;
    10.0 * (power(NC) + power(nos) + power(nor) + power(nfo)).log10()
}

/// Is: what comes along with speech (equations 8 to 17).
fn simultaneous(noise: f64, ro: f64, delay_ms: f64) -> f64 {
    let xolr = SLR + RLR + 0.2 * (64.0 + noise - RLR);
    let iolr = 20.0 * ((1.0 + (xolr / 8.0).powi(8)).powf(1.0 / 8.0) - xolr / 8.0);
    let stmro = -10.0 * (power(-STMR) + (-delay_ms / 4.0).exp() * power(-TELR)).log10();
    let ist = 12.0 * (1.0 + ((stmro - 13.0) / 6.0).powi(8)).powf(1.0 / 8.0)
        - 28.0 * (1.0 + ((stmro + 1.0) / 19.4).powi(35)).powf(1.0 / 35.0)
        - 13.0 * (1.0 + ((stmro - 3.0) / 33.0).powi(13)).powf(1.0 / 13.0)
        + 29.0;
    let q = 37.0 - 15.0 * QDU.log10();
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let iq = 15.0 * (1.0 + 10f64.powf(y) + 10f64.powf(z)).log10();
    iolr + ist + iq
}

/// Id: echoes and delay (equations 18 to 28).
fn delayed(noise: f64, ro: f64, delay_ms: f64) -> f64 {
    let t = delay_ms.max(0.0);
    let terv =
        TELR - 40.0 * ((1.0 + t / 10.0) / (1.0 + t / 150.0)).log10() + 6.0 * (-0.3 * t * t).exp();
    let re = 80.0 + 2.5 * (terv - 14.0);
    let roe = -1.5 * (noise - RLR);
    let half = (roe - re) / 2.0;
    let talker = (half + (half * half + 100.0).sqrt() - 1.0) * (1.0 - (-t).exp());
    // A four-wire loop takes twice the delay.
    let rle = 10.5 * (WEPL + 7.0) * (2.0 * t + 1.0).powf(-0.25);
    let half = (ro - rle) / 2.0;
    let listener = half + (half * half + 169.0).sqrt();
    let absolute = if t <= 100.0 {
        0.0
    } else {
        let x = (t / 100.0).log2();
        25.0 * ((1.0 + x.powi(6)).powf(1.0 / 6.0) - 3.0 * (1.0 + (x / 3.0).powi(6)).powf(1.0 / 6.0)
            + 2.0)
    };
    talker + listener + absolute
}

#[cfg(test)]
mod tests;
