# Belljar. `make help` lists what there is.

GO      ?= go
VERSION ?= dev
# The version names the commit if git knows it; the build does not depend on it. A source folder may be inside another git repository.
OWN     := git ls-files --error-unmatch go.mod >/dev/null 2>&1
COMMIT  ?= $(shell $(OWN) && git rev-parse --short=12 HEAD 2>/dev/null)
ARCHES  := amd64 arm64
AGENTS  := cmd/belljar/agent
FUZZTIME ?= 20s
BENCHFLAGS ?=
LOADFLAGS ?=

# The compiler collects its garbage less often: an eighth less time for all that is compiled in a fresh clone. Tests do not inherit it.
EAGER := GOGC=400

# Linters and scanners have a module of their own, so that what they need is not in go.mod.
TOOL       := $(GO) tool -modfile=tools/go.mod
GORELEASER := $(GO) run github.com/goreleaser/goreleaser/v2@v2.16.0

# Static binaries, the same bytes from the same source wherever they are built. -buildvcs=false: a checkout that git
# does not trust would otherwise fail the build. What vets and tests says -trimpath, too, or all of it would be compiled once
# more, and again in every clone.
export CGO_ENABLED = 0
BUILD := $(EAGER) $(GO) build -trimpath -buildvcs=false

# npm asks for nothing that its cache has: the lock files name the bytes. It writes .package-lock.json last, so what is installed stays
# until the lock file changes.
%/node_modules/.package-lock.json: %/package-lock.json %/package.json
	@command -v npm >/dev/null || .ci/packages npm
	cd $* && npm ci --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error
	@touch $@

# What the tests use beyond Go: languages to run, peers to compare with, and a machine for other cgroup versions.
PACKAGES := python3 nodejs perl ruby bash curl wget git jq sqlite3 python3-websockets gcc g++ libc6-dev musl-tools uidmap util-linux e2fsprogs strace bubblewrap busybox-static \
            qemu-system-x86 cpio ca-certificates mmdebstrap docker.io python3-pytest python3-pytest-asyncio python3-pip python3-setuptools \
            python3-wheel python3-yaml mypy chromium-headless-shell default-jdk-headless

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: agents ## build bin/belljar, static, with the agent inside
	$(BUILD) -ldflags '-s -w -X main.linkedVersion=$(VERSION) -X main.linkedCommit=$(COMMIT)' -o bin/belljar ./cmd/belljar

.PHONY: live-sprites
live-sprites: ## try the runtime sprites against a real sprite, if SPRITES_* are set
	CGO_ENABLED=0 $(GO) test -count=1 -v -run TestLive ./internal/runtime/sprites

.PHONY: agents
agents:
	@for arch in $(ARCHES); do \
		GOOS=linux GOARCH=$$arch $(BUILD) -ldflags '-s -w' -o $(AGENTS)/belljar-agent-linux-$$arch ./cmd/belljar-agent || exit 1; \
	done

.PHONY: gvisor
gvisor: ## build bin/belljar-runsc, gVisor as the gvisor runtime uses it; the first time takes minutes
	@cd gvisor && version=$$($(GO) list -m -f '{{.Version}}' gvisor.dev/gvisor) && \
		$(BUILD) -tags belljar_memory_limit -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=$$version" -o ../bin/belljar-runsc . && \
		chmod a+rx ../bin/belljar-runsc # sandboxes have users of their own

.PHONY: sdk
sdk: sdk/typescript/node_modules/.package-lock.json ## build the TypeScript SDK and its tests
	cd sdk/typescript && npm run --silent pretest

.PHONY: web
web: web/node_modules/.package-lock.json ## build the web page into web/dist, which is committed
	cd web && npm run --silent build

# The committed page is what the source builds, and the types are right. The build compiles each component, and fails at a warning.
.PHONY: web-check
web-check: web/node_modules/.package-lock.json
	cd web && node_modules/.bin/svelte-check --fail-on-warnings --tsconfig tsconfig.json --tsgo --diagnostic-sources js,css && node script/same.js

.PHONY: vscode
vscode: editors/vscode/node_modules/.package-lock.json ## build the extension for VS Code
	cd editors/vscode && node_modules/.bin/tsc --noEmit -p . && node script/build.js

# The licences of what releases contain: the Go modules of programs, and the npm packages of the page and the extension.
.PHONY: notices
notices: web/node_modules/.package-lock.json editors/vscode/node_modules/.package-lock.json
	$(GO) run -trimpath ./scripts/notices THIRD_PARTY_NOTICES cmd gvisor web editors/vscode

.PHONY: vscode-package
vscode-package: vscode tools/vsce/node_modules/.package-lock.json ## make editors/vscode/dist/belljar.vsix, which VS Code installs
	$(GO) run -trimpath ./scripts/notices editors/vscode/dist/THIRD_PARTY_NOTICES editors/vscode
	cd editors/vscode && ../../tools/vsce/node_modules/.bin/vsce package $(filter-out dev,$(VERSION)) --no-dependencies --no-update-package-json --no-git-tag-version --out dist/belljar.vsix

.PHONY: demo
demo: build ## run the examples, friendly and hostile, and show what happened to each
	@$(GO) run ./examples/demo -belljar bin/belljar

# The race detector is on for the packages of RACE, but not where one goroutine does all: in the packages of CALM, and in the tests of
# BOTH whose names begin like PLAIN, where that saves more than a second binary costs. Those run once, without it, with the packages that have
# no part here: they test programs from outside, which are built without it, or use SQLite, which takes minutes to compile and run with
# it. make soak has it on for all. Those of BOTH that take longest come first.
RACE := ./client/... ./internal/agent/... ./internal/api/... ./internal/egress ./internal/event/... ./internal/image ./internal/image/archive ./internal/image/registry ./internal/image/stream ./internal/logbook/... \
        ./internal/runtime/pool ./internal/service/... ./internal/store/memory
CALM := ./client/agentfile $(addprefix ./internal/agent/guest/, confine file identity process warm) ./internal/api/preview ./internal/api/web \
        ./internal/image/archive ./internal/image/registry \
        $(addprefix ./internal/service/, admission fault git idempotency outcome pace placement retry run secret session snapshot)
BOTH := ./internal/service ./internal/agent/guest ./internal/api/rest ./client ./internal/image ./internal/api/workspace ./internal/runtime/pool ./internal/api/mcp \
        ./internal/agent ./internal/api/thread ./internal/logbook/dir ./internal/service/box
PLAIN := '^(TestPlain|TestSpec|TestTranscripts|Fuzz)'

SOAKFLAGS := -trimpath -count=1 -vet=off -timeout 240m

# Editors that make soak tries belljar lsp in, and libraries whose values contexts show.
EDITORS   := neovim emacs-nox elpa-eglot
LIBRARIES := python3-pandas python3-matplotlib python3-pil ipython3

# with-programs runs a command with the programs that tests start, built once, in a folder that every user can read.
define with-programs
@set -e; umask 022; dir=$$(mktemp -d -p "$$GOTMPDIR"); trap 'rm -rf "$$dir"' EXIT; chmod 755 "$$dir"; \
$(EAGER) $(GO) run -trimpath ./test/build/programs "$$dir"; export BELLJAR_TEST_PROGRAMS="$$dir"; set -x; failed=0; $(1) \
[ $$failed = 0 ]
endef

# A program with the race detector would sleep for a second at its end (GORACE).
#
# The packages that take longest start first, or one of them would run alone in the end.
LONGEST := ./test/e2e ./test/security ./internal/runtime/gvisor ./test/examples ./test/vm ./internal/cli ./internal/runtime/docker ./internal/runtime/native

.PHONY: test
test: ## everything that can be tested here; as root on Debian it installs what it needs
	@.ci/scratch $(MAKE) --no-print-directory test-here

.PHONY: test-here
test-here:
	@$(MAKE) --no-print-directory node
	@$(MAKE) --no-print-directory -j3 packages sdk vetted web-check
	@$(MAKE) --no-print-directory -kj2 test-go test-sdk test-web

# Packages are installed and TypeScript is compiled on one processor each, so this runs alongside. Each step begins when the one in front of it has succeeded.
# Tests start sandboxes of this architecture only, so bin/belljar has one agent here; make build gives it both.
.PHONY: vetted
vetted:
	@for step in lint-quick "build ARCHES=$$($(GO) env GOARCH)" gvisor; do $(MAKE) --no-print-directory $$step || exit 1; done

# Tests with sandboxes wait most of the time: those of LONGEST run alongside all others, which compute. Binaries of tests need no
# symbols and no debug information (-s): linking takes a third less. Folders of tests (T.TempDir) are not where go builds (GOTMPDIR).
TEST := $(EAGER) $(GO) test -exec 'env -u GOGC -u GOTMPDIR'
TESTFLAGS := -trimpath -ldflags=-s -shuffle=on -vet=off -timeout 60m
.PHONY: test-go
test-go:
	$(call with-programs, \
		{ raced=$$($(GO) list $(RACE) | grep -vxF "$$($(GO) list $(CALM))"); \
		CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(TEST) -race $(TESTFLAGS) -skip $(PLAIN) $(BOTH) || failed=1; \
		CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(TEST) -race $(TESTFLAGS) $$(echo "$$raced" | grep -vxF "$$($(GO) list $(BOTH))") || failed=1; \
		$(TEST) $(TESTFLAGS) -run $(PLAIN) $(BOTH) || failed=1; \
		$(TEST) $(TESTFLAGS) $$($(GO) list ./... | grep -vxF "$$raced$$(echo; $(GO) list $(LONGEST))") || failed=1; exit $$failed; } & others=$$!; \
		$(TEST) -p 3 $(TESTFLAGS) $(LONGEST) || failed=1; \
		wait $$others || failed=1;)

# The SDKs are tested alongside, and print when they are done. A failure hides no other test.
.PHONY: test-sdk
test-sdk:
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; failed=0; \
	{ (cd gvisor && $(TEST) -trimpath -vet=off ./...) || failed=1; (cd sdk/typescript && node script/test.js) || failed=1; \
	{ $(MAKE) --no-print-directory vscode && (cd editors/vscode && node --test --test-reporter=spec test/extension.test.mjs); } || failed=1; \
	/usr/bin/python3 -m pytest -q sdk/python || failed=1; } >"$$log" 2>&1; \
	cat "$$log"; exit $$failed

# Two Chromiums and one server for all tests of the page. They start when the SDKs have been tested.
.PHONY: test-web
test-web:
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; (cd web && node script/test.js) >"$$log" 2>&1; status=$$?; cat "$$log"; exit $$status

.PHONY: soak
soak: ## the long tests: many rounds of what make test does once, and the race detector everywhere
	@.ci/scratch $(MAKE) --no-print-directory soak-here

# Long tests measure, so each of their packages has the machine for itself.
.PHONY: soak-here
soak-here: packages node build gvisor sdk vscode web/node_modules/.package-lock.json
	@.ci/packages $(EDITORS) $(LIBRARIES)
	$(call with-programs, \
		$(TEST) -p 1 -tags soak $(SOAKFLAGS) -run '^TestSoak' $$(grep -rl --include='*_test.go' '^func TestSoak' . | xargs -n 1 dirname | sort -u) || failed=1; \
		CGO_ENABLED=1 $(TEST) -race -tags soak -shuffle=on $(SOAKFLAGS) -skip '^TestSoak' ./... || failed=1; \
		$(MAKE) --no-print-directory soak-unraced || failed=1; \
		(cd web && BELLJAR_TEST_SOAK=1 node script/test.js) || failed=1;)

# The tests of files with the build tag !race, which the race detector leaves out.
.PHONY: soak-unraced
soak-unraced:
	@files=$$(grep -rl --include='*_test.go' '^//go:build.*!race' .); \
	$(TEST) -tags soak $(SOAKFLAGS) -run "$$(sed -n 's/^func \(Test[A-Za-z0-9]*\).*/^\1$$/p' $$files | paste -sd '|')" $$(dirname $$files | sort -u)

# Packages that need no sandbox, no engine and no server.
UNITS := . ./client/agentfile ./docs ./internal/agent/wire ./internal/api ./internal/api/auth ./internal/archtest ./internal/blob/... ./internal/config \
         ./internal/event/... ./internal/linux/cgroup ./internal/linux/seccomp ./internal/linux/warden ./internal/logbook/... \
         ./internal/runtime ./internal/service/... ./internal/store/memory

.PHONY: check
check: lint-quick agents ## what to run at each save: format, vet, staticcheck, generated files, unit tests
	$(GO) tool staticcheck ./...
	$(GO) test -trimpath -vet=off $(UNITS)
	$(GO) test -trimpath -vet=off ./internal/api/rest -run 'TestSpec$$'

.PHONY: lint
lint: lint-quick ## gofmt, vet, golangci-lint, go.mod, workflows, and the other systems that belljar is built for
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd tools/actionlint && $(GO) mod tidy -diff
	cd gvisor && $(GO) vet -trimpath ./...
	$(TOOL) golangci-lint run
	$(GO) tool -modfile=tools/actionlint/go.mod actionlint
	@for os in darwin windows; do echo "building for $$os"; GOOS=$$os $(GO) build -o /dev/null ./cmd/belljar && GOOS=$$os $(GO) vet ./client/... || exit 1; done

.PHONY: lint-quick
lint-quick:
	@if $(OWN); then files=$$(git ls-files '*.go' | grep -vxF "$$(git ls-files -d '*.go')"); \
	else files=$$(find . -name node_modules -prune -o -name '*.go' -print); fi; \
	unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$files </dev/null) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(EAGER) $(GO) vet -trimpath ./...

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in what belljar and belljar-runsc are built from; asks vuln.go.dev
	$(TOOL) govulncheck ./...
	cd gvisor && $(GO) tool -modfile=../tools/go.mod govulncheck -tags belljar_memory_limit ./...

# belljar-runsc names the version of gVisor.
release release-check snapshot: export GVISOR_VERSION = $(shell cd gvisor && $(GO) list -m -f '{{.Version}}' gvisor.dev/gvisor)

.PHONY: release-check
release-check: ## check what a release is made of
	$(GORELEASER) check

.PHONY: snapshot
snapshot: vscode-package ## build a release into out/, without publishing it and without the container image
	$(GORELEASER) release --snapshot --clean --skip=docker

.PHONY: release
release: ## publish the release of the tag that is checked out, after make vscode-package; the workflow does this
	$(GORELEASER) release --clean

.PHONY: bench
bench: build gvisor ## measure the promises of docs/specification.md on this machine; the comparison goes into docs/benchmarks.csv
	@GO="$(GO)" COMMIT="$(COMMIT)" LOADFLAGS="$(LOADFLAGS)" test/performance/bench.sh bin/belljar $(BENCHFLAGS)

.PHONY: images
images: ## build and try all images of Debian packages: shell, python, node, go, java
	$(GO) test -count=1 -timeout 60m -v -run TestImages ./test/image -args -images=shell,python,node,go,java

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@packages=$$($(GO) list ./...) || exit 1; \
	for pkg in $$packages; do \
		list=$$($(GO) test -list '^Fuzz' $$pkg) || { echo "$$list"; exit 1; }; \
		for target in $$(echo "$$list" | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg </dev/null || exit 1; \
		done; \
	done

.PHONY: packages
packages:
	@.ci/packages $(PACKAGES)

# Debian's Node is installed only if there is no other that fits.
.PHONY: node
node:
	@.ci/node 2>/dev/null || { $(MAKE) --no-print-directory packages && .ci/node; }

.PHONY: clean
clean: ## remove what was built
	rm -rf bin $(AGENTS)/belljar-agent-linux-*
