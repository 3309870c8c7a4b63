# A capture that runs, read along: some packets, and all of them as columns.
live = ringside.attach(sys.argv[1])
some = iter(live.limit(packets=1000))
columns = iter(live.batches())
print("ready", file=sys.stderr, flush=True)
print(json.dumps([len(list(some)), some.ledger()]))
print(json.dumps([sum(map(len, columns)), columns.ledger()]))
