# Every target that a person calls carries a `## text`; `make help` prints them.
.DEFAULT_GOAL := help
SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c

# The toolchain on the machine is the one that is tested; no other is fetched
# behind the developer's back.
export GOTOOLCHAIN := local

# Two cores are what the checks are sized for. A time limit, here and below, ends what
# hangs; what works is far from it on a busy machine too.
TEST_FLAGS ?= -race -p 2 -timeout 40m
PACKAGES   ?= ./...

BIN           := $(CURDIR)/.bin
GOLANGCI      := $(BIN)/golangci-lint
GOLANGCI_V    := 2.15.0
GORELEASER    := $(BIN)/goreleaser
GORELEASER_V  := 2.15.1
GOVULNCHECK_V := 1.9.0
# The vulnerability database as a Go module, so that no other host is asked.
VULNDB_V      := v0.0.0-20261105234957-e22db6528018

# Debian's packages, over a network that may fail for once.
APT := DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3

##@ Use

.PHONY: build
build: ## Build ./dlockctl
	CGO_ENABLED=0 go build -trimpath -o dlockctl ./cmd/dlockctl

.PHONY: demo
demo: ## Play the whole story on two real PostgreSQL instances
	go run ./cmd/dlockctl demo

##@ Check

.PHONY: test
test: ## Run every test, on PostgreSQL 16 and 15, with the race detector
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; go test $(TEST_FLAGS) $(PACKAGES)

.PHONY: lint
lint: lint-tool ## Run golangci-lint and check the formatting
	$(GOLANGCI) config verify
	$(GOLANGCI) run
	$(GOLANGCI) fmt --diff

.PHONY: lint-fix
lint-fix: lint-tool ## Format the code as the linter wants it
	$(GOLANGCI) fmt

.PHONY: cross
cross: ## Compile for every system that is released
	for os in linux darwin windows; do \
	  CGO_ENABLED=0 GOOS=$$os go build -trimpath -o /dev/null ./... || exit; \
	done # -trimpath: what is compiled here need not be compiled for the packages

.PHONY: flyway
flyway: flyway-tool ## Take turns with a real Flyway on one database
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; go test -tags flyway -timeout 15m ./test/flyway/

.PHONY: pooler
pooler: ## Run the lock store behind PgBouncer in transaction mode (installs it on Debian as root)
	@if ! command -v pgbouncer >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "pgbouncer is missing: install Debian's package pgbouncer" >&2; exit 1; \
	  fi; \
	  $(APT) update && $(APT) install -y --no-install-recommends pgbouncer >/dev/null; \
	fi
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; go test -tags pooler -timeout 15m ./test/pooler/

.PHONY: shells
shells: ## Complete live keys with Tab in zsh and fish; not in PowerShell, which Debian has not (installs the two as root)
	@if ! command -v zsh >/dev/null || ! command -v fish >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "zsh or fish is missing: install Debian's packages zsh and fish" >&2; exit 1; \
	  fi; \
	  $(APT) update && $(APT) install -y --no-install-recommends zsh fish >/dev/null; \
	fi
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; go test -tags shells -timeout 15m -run 'TestZsh|TestFish' ./test/shells/

.PHONY: pgbackrest
pgbackrest: ## Restore, fail over, clone and upgrade by the runbooks' own words with pgBackRest (installs it on Debian as root)
	@if ! command -v pgbackrest >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "pgbackrest is missing: install Debian's package pgbackrest" >&2; exit 1; \
	  fi; \
	  $(APT) update && $(APT) install -y --no-install-recommends pgbackrest >/dev/null; \
	fi
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; go test -tags pgbackrest -timeout 15m -run TestRunbooksWithPgBackRest ./test/runbook/

.PHONY: report-check
report-check: ## Look at the reconcile report in headless Chromium (installs it on Debian as root)
	@if ! command -v chromium >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "chromium is missing: install Debian's package chromium" >&2; exit 1; \
	  fi; \
	  $(APT) update && $(APT) install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	fi
	go test -tags chromium -timeout 15m ./internal/reconcile/html

.PHONY: clauses
clauses: ## Print clause, test and mutation; fail for a clause without both
	go run ./internal/tools/clauses

.PHONY: verify
verify: ## Fail when a generated page is not what the tree says
	go run ./internal/tools/clauses -verify
	go run ./internal/tools/terminal -verify
	go run ./internal/tools/backends -verify

.PHONY: generate
generate: ## Write the generated pages again
	go run ./internal/tools/clauses -write
	go run ./internal/tools/terminal -write
	go run ./internal/tools/backends -write
	go test ./internal/service/document ./internal/doctor ./internal/cli -run 'TestOpenAPIDocuments|TestHTTPReference|TestPageShowsTheTable|TestDefinition' -update

.PHONY: alerts
alerts: ## Fire each alert rule by Prometheus' own engine, and keep it quiet (builds it once, 3 minutes)
	cd test/alerts && go test ./...

.PHONY: vuln
vuln: ## Look the modules up in the Go vulnerability database (optional)
	GOBIN=$(BIN) go install golang.org/x/vuln/cmd/govulncheck@v$(GOVULNCHECK_V)
	GOBIN=$(BIN) go install golang.org/x/vulndb/cmd/indexdb@$(VULNDB_V)
	osv="$$(go mod download -json golang.org/x/vulndb@$(VULNDB_V) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/data/osv"; \
	$(BIN)/indexdb -vulns "$$osv" -out $(BIN)/vulndb
	$(BIN)/govulncheck -db file://$(BIN)/vulndb ./...

.PHONY: goreleaser-tool
goreleaser-tool:
	@if [ "$$($(GORELEASER) --version 2>/dev/null | sed -n 's/^GitVersion: *v\{0,1\}//p')" != "$(GORELEASER_V)" ]; then \
	  GOBIN=$(BIN) go install github.com/goreleaser/goreleaser/v2@v$(GORELEASER_V); \
	fi

.PHONY: snapshot
snapshot: goreleaser-tool ## Make every package without publishing any, install and run the deb (builds goreleaser once, 3 minutes)
	$(GORELEASER) check
	deploy/package/snapshot.sh $(GORELEASER)

.PHONY: snapshot-if-changed
snapshot-if-changed: ## Make the packages when what makes them has changed since the commit before, or that cannot be told
	@if git diff --quiet HEAD~1 -- .goreleaser.yaml deploy/package deploy/systemd Makefile 2>/dev/null; then \
	  echo "nothing that makes the packages has changed since $$(git rev-parse --short HEAD~1)"; \
	else \
	  $(MAKE) --no-print-directory snapshot; \
	fi

.PHONY: reproducible
reproducible: ## Build the binary twice, elsewhere and at another time, and want one hash
	deploy/package/reproducible.sh

.PHONY: size
size: ## Compare the binary with the size written down in docs/dependencies.md
	deploy/package/size.sh

##@ Measure

.PHONY: bench
bench: ## Measure beside pgx, pgbench, psql, etcd and pglock (about half an hour)
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; cd test/bench; \
	  go run . -json "results/$$(date -u +%Y%m%dT%H%M%SZ).json" $(BENCH_FLAGS)

.PHONY: bench-check
bench-check: ## Compare the newest result of bench with test/bench/targets.json
	cd test/bench; go test ./...; go run . -check

.PHONY: soak
soak: ## Check histories, crashes and deadlocks for SOAK (10m) instead of a minute, payouts' lives by the thousand, and the services
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; DLOCKCTL_SOAK=$(or $(SOAK),10m) go test -race -timeout 90m \
	  -run 'TestHistory|TestNoDeadlocks|TestSessionsAndRevocation' ./internal/lockstore/postgres
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; go test -race -timeout 60m -run 'TestLife$$' ./test/life -rapid.checks=2000
	postgres="$$(test/postgres.sh)"; eval "$$postgres"; DLOCKCTL_SOAK=$(or $(SOAK),10m) go test -timeout 90m -run TestNemesis ./test/services

.PHONY: syncguard-peer
syncguard-peer: ## Contend with the SyncGuard library itself, from its checkout SYNCGUARD=FOLDER (node, npm)
	@bundle="$$(test/syncguard/peer.sh "$(SYNCGUARD)")"; postgres="$$(test/postgres.sh)"; eval "$$postgres"; \
	  PEER_BUNDLE="$$bundle" go test -tags peer -count=1 -timeout 15m ./test/syncguard/

##@ Tools

.PHONY: lint-tool
lint-tool: ## Build the pinned golangci-lint into .bin when it is not there
	@if [ "$$($(GOLANGCI) version --short 2>/dev/null)" != "$(GOLANGCI_V)" ]; then \
	  echo "building golangci-lint $(GOLANGCI_V) (about two minutes, once)"; \
	  GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_V); \
	fi

.PHONY: flyway-tool
flyway-tool: ## Fetch and build the Flyway peer with Maven
	cd test/flyway && mvn -q -B package

.PHONY: clean
clean: ## Remove what make built
	rm -rf $(BIN) dist dlockctl test/flyway/target

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
