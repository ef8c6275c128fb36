# Targets for people. `make` alone lists them.
#
# One set of build flags for every target: the go command keeps separate cache
# entries for each, and a second set would compile Kubernetes a second time
# (minutes). So nothing here sets -trimpath or CGO_ENABLED, and -race only where
# little of Kubernetes is linked; put such flags into GOFLAGS for all targets alike
# if you want them.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO    ?= go
TOOL  := $(GO) tool -modfile=tools.mod
PKG   ?= ./...
BENCH ?= .

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
up: build ## build, then start a whole cluster on this machine (UP="--nodes 5" adds flags)
	@exec ./bin/mlbatch up $(UP)

.PHONY: build
build: ## build bin/mlbatch; the first build compiles Kubernetes and takes minutes
	@GO='$(GO)' .ci/build

.PHONY: check
check: ## format, vet, house rules, unit tests and transcripts: seconds, needs no cluster
	@GO='$(GO)' .ci/check

.PHONY: test
test: build ## every test, end to end included
	@GO='$(GO)' .ci/test

.PHONY: realpods
realpods: build ## tests in real containers: as root, with the packages that mlbatch up --runtime containerd names
	@MLBATCH_TEST_BINARY=$$PWD/bin/mlbatch $(GO) test -vet off -count 1 -timeout 30m ./test/realpods

.PHONY: installed
installed: build ## mlbatch installed from its image archive into real nodes, and end-to-end tests there: as realpods
	@MLBATCH_TEST_BINARY=$$PWD/bin/mlbatch $(GO) test -vet off -count 1 -timeout 30m ./test/installed
	@cd test/chart && MLBATCH_TEST_BINARY=$(CURDIR)/bin/mlbatch MLBATCH_CHART_LIVE=1 $(GO) test -vet off -count 1 -timeout 30m -run TestChartOnACluster .
	@MLBATCH_TEST_BINARY=$$PWD/bin/mlbatch MLBATCH_E2E_INSTALLED=1 MLBATCH_E2E_LIST=installed $(GO) test -vet off -count 1 -timeout 60m ./test/e2e

.PHONY: race
race: ## the tests of what starts goroutines and links little of Kubernetes, with the race detector
	@GO='$(GO)' .ci/race

.PHONY: lint
lint: ## golangci-lint (PKG=./internal/engine/... narrows it)
	@$(TOOL) golangci-lint run $(PKG)

.PHONY: fix
fix: ## format, and let the linters correct what they can
	@$(TOOL) golangci-lint fmt
	@$(TOOL) golangci-lint run --fix $(PKG)

.PHONY: gen
gen: ## write deepcopy functions and CRDs from the Go types in api/
	@GO='$(GO)' .ci/gen

.PHONY: verify-gen
verify-gen: ## fail if generated files are not current (and bring them up to date)
	@GO='$(GO)' .ci/gen --verify
	@.ci/web --verify

.PHONY: web
web: ## build the page from web/ (needs Node.js; what is built is committed)
	@.ci/web

.PHONY: web-test
web-test: web ## every screen of the page in Chromium, with axe (needs Node.js and chromium)
	@MLBATCH_BROWSER=1 $(GO) test -vet off -count 1 -v -timeout 20m -run '^TestThePageInABrowser$$' ./internal/page

.PHONY: bench
bench: build ## engine benchmarks, then end-to-end figures (BENCH=regexp chooses)
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./internal/engine/...
	@$(GO) test -v -run '^$$' -bench '$(BENCH)' -timeout 90m ./test/bench/... ./test/ha

.PHONY: cost
cost: build ## what a job costs, beside the program of half a day before (MLBATCH_BEFORE names another commit)
	@GO='$(GO)' .ci/cost

.PHONY: pictures
pictures: build ## draw the pictures in docs/ afresh, from real runs
	@mkdir -p docs/pictures && bin/mlbatch simulate --quiet --svg docs/pictures/simulate.svg >/dev/null
	@GO='$(GO)' docs/pictures/up.sh

.PHONY: soak
soak: ## break the engine in made-up worlds (WORLDS=10000, SEED=1, or MINUTES=10)
	@MLBATCH_SIM_WORLDS='$(WORLDS)' MLBATCH_SIM_SEED='$(SEED)' MLBATCH_SIM_MINUTES='$(MINUTES)' \
	  $(GO) test -v -count 1 -timeout 0 -run '^TestWorlds$$' -artifacts -outputdir "$${TMPDIR:-/tmp}" ./internal/sim/chaos

.PHONY: fuzz
fuzz: ## inputs that nobody wrote, for every target that takes some (TIME=10m ONLY=FuzzRead SKIP=internal/record)
	@GO='$(GO)' TIME='$(or $(TIME),1m)' ONLY='$(ONLY)' SKIP='$(SKIP)' .ci/fuzz

.PHONY: mutants
mutants: ## small mistakes in PKG that no test notices (PKG=./internal/engine/quota N=60 SEED=1)
	@$(GO) run ./tools/mutate -n '$(or $(N),60)' -seed '$(or $(SEED),1)' '$(PKG)'

.PHONY: keep-data
keep-data: build ## keep a data directory as this program leaves it, for later ones to come up on (test/upgrade/testdata)
	@test/upgrade/keep.sh bin/mlbatch "test/upgrade/testdata/schema-$$(sed -n 's/^const schema = //p' internal/local/datadir.go)-kubernetes-$$(sed -n 's/^const Release = "v\([0-9]*\.[0-9]*\).*/\1/p' internal/local/kubeversion/kubeversion.go).tar.gz"

.PHONY: images
images: ## container images of the program without the control plane: dist/*.oci.tar (PLATFORMS="linux/amd64 linux/arm64")
	@GO='$(GO)' PLATFORMS='$(PLATFORMS)' .ci/images

.PHONY: clean
clean: ## remove what was built; clusters and Go's build cache stay
	@rm -rf bin dist
