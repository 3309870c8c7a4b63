# The commands of the project. `make help` lists them.

PREFIX ?= /usr/local
# rustup's place, for shells that have not read its profile yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
# The pinned tool chain, by the name that it has here.
RUSTUP_TOOLCHAIN := $(or $(RUSTUP_TOOLCHAIN),$(shell scripts/toolchain))
export RUSTUP_TOOLCHAIN
# Where cargo puts what it builds.
target := $(or $(CARGO_TARGET_DIR),target)

.PHONY: wheel wheel-deps wheel-check help test-all test-vm crashes soak deps lint-deps bench-deps vm-deps build query demo test bench lint fuzz fuzz-deps fuzz-guided clean install deb-deps deb deb-check image image-check book-deps book

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

deps: ## install the Debian packages that are missing (as root), check cargo
	@scripts/deps

lint-deps: ## install also what lint needs: cargo-deny, by cargo
	@scripts/deps lint

bench-deps: ## install also what the measurements compare with (as root)
	@scripts/deps bench

vm-deps: ## install also what tests in the emulated machine use (as root)
	@scripts/deps vm

fuzz-deps: ## install also what guided fuzzing needs (as root)
	@scripts/deps fuzz

deb-deps: ## install also what packages are made and checked with (as root), some of it by cargo
	@scripts/deps deb

wheel-deps: ## install also what makes a wheel for Python: virtual environments (as root)
	@scripts/deps wheel

book-deps: ## install also what builds the documentation as a site: mdBook, by cargo
	@scripts/deps book

build: deps ## build target/release/ringside and the library for programs with libpcap
	cargo build --release --package ringside-cli --package ringside-pcap
	@test -e $(target)/release/libringside_dpdk.so && echo "with the plug-in for DPDK" || \
		echo "without the plug-in for DPDK: \`apt-get install libdpdk-dev\` (docs/dpdk.md)"

query: deps ## build target/release/ringside-query, which answers SQL about stored records (takes minutes, once)
	cargo build --release --locked --manifest-path query/Cargo.toml --target-dir $(target)/query
	install -m 755 -D $(target)/query/release/ringside-query $(target)/release/ringside-query

demo: root build ## record real programs on a private test network (as root), in less than a minute
	$(target)/release/ringside demo

test: deps ## run every check and test in short; the last line counts them (as root, to skip none)
	@cargo xtask test

test-all: root bench-deps vm-deps lint-deps ## run everything, for hours: long counts, all captures, emulated machine
	@cargo xtask test --all --record bench/record/test-all.txt

test-vm: vm-deps ## test network cards in an emulated machine (downloads 200 MB once, keeps 280 MB)
	@cargo xtask test --only vm

bench: root bench-deps build ## measure this machine on a private test network (as root)
	RINGSIDE_BIN=$(target)/release/ringside bench/run

lint: lint-deps ## formatting, clippy, the house rules, the documentation's links, dependencies
	@cargo xtask test --only format,clippy,tidy,docs,deny

fuzz: deps ## run the tests with RINGSIDE_FUZZ_TIMES (100) times the inputs of each fuzz test
	RINGSIDE_FUZZ_TIMES=$${RINGSIDE_FUZZ_TIMES:-100} \
		cargo test --workspace --exclude ringside-cli -- --show-output

fuzz-guided: fuzz-deps ## fuzz guided by coverage, RINGSIDE_FUZZ_SECONDS (3600) over all targets
	cargo xtask fuzz --seconds $${RINGSIDE_FUZZ_SECONDS:-3600}

crashes: root build ## kill a recorder at 1,000 random moments, and with its keeper at 200 (as root)
	RINGSIDE_KILLS=1000 RINGSIDE_BIN=$(target)/release/ringside \
		cargo test -p ringside-cli --test all -- --test-threads=1 --nocapture crashes::

soak: root build ## record at full rate for half an hour within a limit of 2 GB (as root)
	RINGSIDE_SOAK_SECONDS=1800 RINGSIDE_BIN=$(target)/release/ringside \
		cargo test -p ringside-cli --test all -- --nocapture retention::a_soak

book: book-deps ## build the documentation as a site: target/book/index.html
	@cargo xtask book
	@mdbook build

deb: deb-deps build ## make Debian packages of what was built, in target/debian
	@packaging/deb $(target)

deb-check: root deb-deps build ## install, run, upgrade, remove and purge the package in a system of its own (as root)
	@packaging/deb-check $(target)

image: root deb-deps build ## make an OCI image of what was built, in target/image.tar (as root)
	@packaging/image $(target)

image-check: image ## run that image on a capture in a network namespace (as root)
	@packaging/image-check $(target)

wheel: wheel-deps ## make a wheel for Python, in target/wheels (downloads maturin)
	@packaging/wheel $(target)

wheel-check: wheel ## install that wheel in an environment of its own, and run the notebook there
	@packaging/wheel-check $(target)

clean: ## remove what was built
	cargo clean

install: ## put what was built into PREFIX (/usr/local); `make build` comes first
	install -D -m 755 $(target)/release/ringside $(DESTDIR)$(PREFIX)/bin/ringside
	install -D -m 644 $(target)/release/libringside_pcap.so $(DESTDIR)$(PREFIX)/lib/libringside_pcap.so
	test ! -e $(target)/release/libringside_dpdk.so || install -D -m 644 \
		$(target)/release/libringside_dpdk.so $(DESTDIR)$(PREFIX)/lib/ringside/libringside_dpdk.so
	test ! -e $(target)/release/ringside-query || install -D -m 755 \
		$(target)/release/ringside-query $(DESTDIR)$(PREFIX)/lib/ringside/ringside-query
	$(target)/release/ringside manual $(DESTDIR)$(PREFIX)/share/man/man1
	$(call completions,bash,bash-completion/completions/ringside)
	$(call completions,zsh,zsh/site-functions/_ringside)
	$(call completions,fish,fish/vendor_completions.d/ringside.fish)

# What a shell completes by, to its place below share.
define completions
	@mkdir -p $(dir $(DESTDIR)$(PREFIX)/share/$(2))
	$(target)/release/ringside completions $(1) >$(DESTDIR)$(PREFIX)/share/$(2)
endef

# Packet sockets, namespaces and BPF need it. Asked before the build, which takes minutes.
.PHONY: root
root:
	@test "$$(id -u)" = 0 || { \
		echo "needs root for network namespaces and BPF: sudo env \"PATH=\$$PATH\" make $(MAKECMDGOALS)" >&2; \
		exit 1; }
