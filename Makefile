# make run: install what is needed, build, gauge this node.   make test: run all tests.
.PHONY: run build test check bench install clean

run: build
	@./target/release/nodegauge run $(ARGS)

build:
	@./scripts/setup run
	@cargo build --release --locked --package nodegauge

test:
	@./scripts/setup run test
	cargo test --workspace --locked

# What continuous integration asks beyond the tests.
check:
	@./scripts/setup run
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked

# nodegauge beside its peers and beside compilers; STREAM_C=path/to/stream.c adds the original.
bench:
	@./scripts/setup run bench
	cargo bench --package nodegauge --bench peers --locked
	cargo bench --package nodegauge --bench compilers --locked

PREFIX ?= /usr/local
install: build
	install -D -m 755 target/release/nodegauge $(DESTDIR)$(PREFIX)/bin/nodegauge
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	./target/release/nodegauge man > $(DESTDIR)$(PREFIX)/share/man/man1/nodegauge.1

clean:
	cargo clean
