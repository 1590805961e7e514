# make run: install required packages, build, and measure this node.   make test: run the tests.
.PHONY: run build build-tests test test-all check bench gallery install uninstall release deb rpm wheel archive packages packages-test check-release test-oldest release-arm full-release deny book clean

run: build
	@./target/release/nodegauge run $(ARGS)

build:
	@./scripts/setup run
	@cargo build --release --locked --package nodegauge

build-tests:
	@./scripts/setup run test
	cargo test --workspace --locked --no-run
	cargo test --workspace --test machines --locked --no-run

# Every gauge and mode, the golden pages, the contract, real MPIs, a browser, and meanwhile two virtual machines, which
# use one CPU each. A test of the second tier has `thorough::` in its path.
MACHINES = cargo test --workspace --test machines --locked --
test: build-tests
	./scripts/beside "$(MACHINES) two t2k" \
		cargo test --workspace --locked --no-fail-fast -- --skip thorough::

# The tests above, then those with faults, killed processes, Slurm clusters, stand-ins and reference programs, and
# meanwhile more virtual machines. Tests of the second tier mostly wait, so more of them run at once than there are CPUs.
test-all: test
	./scripts/beside "$(MACHINES) --skip two --skip t2k" \
		cargo test --workspace --test cli --locked -- --test-threads=$$((2 * $$(nproc))) thorough::

# Checks of continuous integration in addition to the tests.
check:
	@./scripts/setup run check
	cargo fmt --all --check
	cargo test --package nodegauge-structure --locked
	./scripts/minimum-rust
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --workspace --test machines --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked
	./scripts/beside "./scripts/memcheck && ./scripts/arm" ./scripts/processors

# Comparisons of nodegauge with reference programs; each file under benches/ describes its variables, e.g.
# STREAM_C=path/to/stream.c. To run one of them: make bench BENCHES=tune
# Results go to benches/results, and from there into the tables of docs/benchmarks.md.
BENCHES = memory compilers tune caches hpl io mpi apps programs trapezoid roofline device history readers fleet ledger fuzz
bench:
	@./scripts/setup run bench
	for bench in $(BENCHES); do \
		cargo bench --package nodegauge --bench $$bench --locked || exit 1; \
	done
	@./scripts/benchmarks

# Pictures of docs/gallery.md from short runs on this node, so that a change of style is seen in one commit.
gallery: build
	@./scripts/gallery target/release/nodegauge

# Installs the built program, man pages, completions and units of systemd; needs no compiler, so root needs no cargo.
PREFIX ?= /usr/local
PROGRAM ?= target/release/nodegauge
install:
	@./scripts/install $(PROGRAM) $(DESTDIR)$(PREFIX) $(PREFIX)

# Removes what `make install` installed. The histories of users stay.
uninstall:
	@./scripts/install --remove $(DESTDIR)$(PREFIX)

# One file for every Linux with glibc 2.28, its packages, and their checks. `make test` can test the same file:
# NODEGAUGE_BIN=target/release-files/nodegauge-VERSION-x86_64-linux make test
release:
	@./scripts/setup release
	@./scripts/release --file

deb rpm wheel archive: release
	@./scripts/package $@

packages: release
	@./scripts/package

check-release: packages
	@./scripts/package --check

# Tests the recipes of packaging/ with their tools and the packages above: each is installed, run and removed, or only
# validated. Tests whose tool is not available are skipped, with the reason. One tool: make packages-test TESTS=spack
TESTS =
packages-test:
	@./scripts/setup packages
	@[ -e target/release-files/SHA256SUMS ] || $(MAKE) packages
	@./packaging/test $(TESTS)

# The end-to-end tests with the file of `make release` in a root of Debian 11; needs root.
test-oldest: release
	@./scripts/oldest --skip thorough::

# All files of a release, as the workflows make them for a tag; scripts/release describes the steps.
full-release:
	@./scripts/setup release
	@./scripts/release

# A preview of the file for Arm; it is started under qemu-aarch64 as a test.
release-arm:
	@./scripts/setup release
	@./scripts/release --arm

# Licences and sources of all crates, by deny.toml; `make deny CHECKS=advisories` needs the database of RustSec.
CHECKS = licenses bans sources
DENY = 0.20.2
deny:
	@[ -x target/release-build/cargo-deny-$(DENY)/bin/cargo-deny ] || \
		cargo install cargo-deny --version $(DENY) --locked --root target/release-build/cargo-deny-$(DENY)
	target/release-build/cargo-deny-$(DENY)/bin/cargo-deny check $(CHECKS)

# The documentation as a book: target/book/html/index.html
book:
	@./scripts/book

clean:
	cargo clean
