use super::*;
use ringside_balance::Config;
use ringside_testkit::Random;

/// Counters of a driver, by index.
#[derive(Default)]
struct Driver {
    vips: Vec<[u64; Count::ALL]>,
    reals: Vec<[u64; 2]>,
    seen: u64,
}

impl Counted for Driver {
    fn vip(&self, index: u32) -> [u64; Count::ALL] {
        self.vips[index as usize]
    }

    fn real(&self, index: u32) -> [u64; 2] {
        self.reals[index as usize]
    }
}

impl Driver {
    fn forward(&mut self, vip: u32, real: u32) {
        self.seen += 1;
        self.vips[vip as usize][Count::Forwarded as usize] += 1;
        self.reals[real as usize][0] += 1;
        self.reals[real as usize][1] += 100;
    }

    fn drop(&mut self, vip: u32) {
        self.seen += 1;
        self.vips[vip as usize][Count::NoReal as usize] += 1;
    }
}

fn config(vips: &[(u64, Vec<u64>)]) -> Config {
    let mut text = "source_v4 = \"10.9.0.0/16\"\n".to_owned();
    for (vip, reals) in vips {
        text += &format!("[[vip]]\nname = \"v{vip}\"\naddress = \"192.0.2.{vip}\"\nslots = 251\n");
        text += "protocol = \"tcp\"\n";
        for real in reals {
            text += &format!("[[vip.real]]\naddress = \"10.0.0.{real}\"\n");
        }
    }
    Config::read(text.as_bytes()).unwrap()
}

/// VIPs and reals come and go in any way: every frame is in one count, and in that of its VIP.
#[test]
fn no_count_is_lost_or_anothers_whoever_comes_and_goes() {
    let mut random = Random::new(1);
    let draw = |random: &mut Random| -> Vec<(u64, Vec<u64>)> {
        let vips: Vec<u64> = (1..=6).filter(|_| random.below(2) == 1).collect();
        let reals = |random: &mut Random| (1..=5).filter(|_| random.below(2) == 1).collect();
        vips.into_iter().map(|vip| (vip, reals(random))).collect()
    };
    let mut tables = Tables::new(&config(&draw(&mut random)), 0);
    let zeros = (vec![[0; Count::ALL]; 32], vec![[0; 2]; 128]);
    let mut driver = Driver { vips: zeros.0, reals: zeros.1, seen: 0 };
    let mut books = Books::empty(32, 128).next(&tables, &driver);
    // What each VIP counted since it came, by its name.
    let mut model = std::collections::BTreeMap::<String, u64>::new();
    for _ in 0..ringside_testkit::by_run(300, 5_000) {
        for _ in 0..random.below(20) {
            let live = |index: &u32| tables.vip_name(*index).is_some();
            let vips: Vec<u32> = (0..tables.vips.len() as u32).filter(live).collect();
            let Some(&vip) = vips.get(random.below(vips.len().max(1))) else { continue };
            let its =
                |real: &u32| tables.has_real(*real) && tables.reals[*real as usize].vip == vip;
            let reals: Vec<u32> = (0..tables.reals.len() as u32).filter(its).collect();
            match reals.get(random.below(reals.len().max(1))) {
                Some(real) => driver.forward(vip, *real),
                None => driver.drop(vip),
            }
            *model.entry(tables.vip_name(vip).unwrap().to_owned()).or_default() += 1;
        }
        let next = tables.next(&config(&draw(&mut random)), 0);
        books = books.next(&next, &driver);
        model.retain(|name, _| (0..32).any(|index| next.vip_name(index) == Some(name)));
        tables = next;
        check(&books, &driver, &model);
    }
}

fn check(books: &Books, driver: &Driver, model: &std::collections::BTreeMap<String, u64>) {
    let there = (0u32..).zip(&books.vips).filter(|(_, vip)| vip.state != Owned::None);
    let (mut fates, mut serials) = (books.gone.counts.iter().sum::<u64>(), Vec::new());
    let mut to_reals = books.gone.reals[0];
    for (index, vip) in there {
        let counts = since(&driver.vip(index), &vip.before);
        fates += counts.iter().sum::<u64>();
        let its = (0u32..)
            .zip(&books.reals)
            .filter(|(_, real)| real.state != Owned::None && real.vip == vip.serial);
        let frames: u64 = its.map(|(at, real)| driver.real(at)[0] - real.before[0]).sum();
        assert_eq!(frames + vip.gone[0], counts[Count::Forwarded as usize], "{vip:?}");
        to_reals += frames + vip.gone[0];
        serials.push(vip.serial);
        if vip.state == Owned::Live {
            let counted = model.get(&vip.name).copied().unwrap_or(0);
            assert_eq!(counts.iter().sum::<u64>(), counted, "{vip:?}");
        }
        let words: Vec<u64> = vip.words().collect();
        assert_eq!(VipOwner::of_words(words[..].try_into().unwrap()), *vip);
    }
    assert_eq!(fates, driver.seen);
    let forwarded: u64 = driver.vips.iter().map(|counts| counts[Count::Forwarded as usize]).sum();
    assert_eq!(to_reals, forwarded);
    let live = books.reals.iter().filter(|real| real.state != Owned::None);
    serials.extend(live.clone().map(|real| real.serial));
    let count = serials.len();
    serials.sort_unstable();
    serials.dedup();
    assert_eq!(serials.len(), count, "each has its own");
    for real in live {
        assert_eq!(RealOwner::of_words(&real.words()), *real);
    }
    assert_eq!(Gone::of_words(&books.gone.words().collect::<Vec<_>>()), books.gone);
}
