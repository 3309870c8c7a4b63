# A reading that waits for packets which never come, until a signal, which may come at once.
try:
    live = ringside.attach(sys.argv[1]).filter("udp port 9")
    ways = {
        "count": live.count,
        "one by one": lambda: next(iter(live)),
        "columns": lambda: list(rows(live.flows())),
    }
    print("ready", file=sys.stderr, flush=True)
    ways[sys.argv[2]]()
except (KeyboardInterrupt, RuntimeError) as error:
    print(f"{type(error).__name__} {error}")
