# What is wrong, and what is missing: one line each.
import warnings

good, cut, text = sys.argv[1:]
packets = ringside.open(good)


def what(work):
    try:
        return work()
    except Exception as error:
        return [type(error).__name__, str(error)]


for work in [
    lambda: ringside.open(),
    lambda: ringside.open("/none"),
    lambda: packets.filter("porrt 5").count(),
    lambda: packets.between("noon"),
    lambda: packets.between(packets),
    lambda: packets.last("-5s"),
    lambda: ringside.open(text).count(),
    lambda: packets.save(good),
    lambda: next(rows(packets.filter("porrt 5").batches())),
    lambda: ringside.attach("/none").count(),
    lambda: ringside.attach("/none").between(1),
    lambda: list(packets.flows(active="1000000d")),
    lambda: packets.filter("tcp) or (udp"),
    lambda: packets.last(0),
    lambda: packets.between(float("nan")),
    lambda: packets.limit(time=1e19),
    lambda: packets.between("-1m").between(5),
    lambda: packets.filter("porrt 5").save(cut),
]:
    print(json.dumps(what(work)))

for work in [
    lambda packets: packets.count(),
    lambda packets: len(list(packets)),
    lambda packets: len(list(rows(packets.batches()))),
    lambda packets: sum(map(len, packets.batches())),
]:
    with warnings.catch_warnings(record=True) as said:
        found = work(ringside.open(cut))
    print(json.dumps([found, [[one.category.__name__, str(one.message)] for one in said]]))

warnings.simplefilter("ignore")
print(json.dumps(ringside.open(cut).ledger()["end"]))
warnings.simplefilter("error")
print(json.dumps(what(lambda: ringside.open(cut).count())[0]))
