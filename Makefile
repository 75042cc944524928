# karp: everything here works from a clean clone with Go and make only.
SHELL := /bin/sh
.DEFAULT_GOAL := help

VERSION ?= v0.1.0-dev
LDFLAGS := -s -w -X main.version=$(VERSION)
GO_TEST := go test
TOOL := go tool -modfile=test/tools/go.mod

.PHONY: help build sandbox demo demo-down test unit scenario real plans race bench gen verify fmt lint image release-dry-run clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: bin/karp-agent bin/kubectl-karp ## build the agent and the plugin into bin/

bin/karp-agent: FORCE
	@echo 'building $@ (some minutes the first time)'
	@go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/agent

bin/kubectl-karp: FORCE
	@echo 'building $@'
	@go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/kubectl-karp

sandbox: ## build the sandbox: a control plane, kwok and simaws in one binary (minutes the first time)
	cd test/sandbox && go run ./build

demo: build sandbox ## start a cluster in which pending pods get nodes, and see why one does not
	@go run ./test/demo up

demo-down: ## stop what make demo left running
	@go run ./test/demo down

test: verify build sandbox ## run all tests
	$(GO_TEST) -timeout 40m ./...
	cd test/sandbox && $(GO_TEST) -timeout 40m ./...
	cd test/release && $(GO_TEST) -timeout 40m ./...

unit: ## tests that need no control plane
	$(GO_TEST) -short ./...

scenario: ## the engine's and the plugin's scenario files; REWRITE=-rewrite records new outcomes
	$(GO_TEST) ./pkg/engine ./test/scenario/... $(REWRITE)

real: build sandbox ## tests against a real control plane: kinds, simulated AWS, end to end, the agent killed at every write
	$(GO_TEST) -timeout 40m ./pkg/kube ./manifests/... ./test/cluster/... ./test/crd/... ./test/simaws/... ./test/e2e/... ./test/fault/...

plans: build sandbox ## bind plans by the real kube-scheduler, with and without placement hints (minutes)
	$(GO_TEST) -timeout 40m ./test/e2e/plans -plans -v

race: ## unit tests under the race detector
	$(GO_TEST) -race ./pkg/... ./test/simaws/...

bench: ## speed and price of plans, one JSON line a workload
	$(GO_TEST) -run '^$$' -bench . -benchmem ./pkg/engine/...
	go run ./test/bench

gen: ## regenerate CRDs, deep copies, the pages of settings and commands
	$(TOOL) controller-gen object crd paths=./pkg/apis/... output:crd:dir=manifests/crds
	$(GO_TEST) ./pkg/config -update
	$(GO_TEST) ./pkg/cli -run TestPages -update

verify: ## generated files are up to date, sources are formatted and vetted
	go vet ./pkg/... ./cmd/... ./test/...
	$(GO_TEST) ./test/arch/...

fmt: ## format the sources
	gofmt -w cmd pkg test

lint: ## golangci-lint and govulncheck
	@go run ./test/lint

image: ## the agent's image as an OCI layout in dist/image, built without Docker
	cd test/release && go run . -root ../.. -out ../../dist -version $(VERSION) -platforms linux/amd64,linux/arm64 image

release-dry-run: ## everything a release ships, signed by a key made for the run (builds for six platforms: slow)
	cd test/release && go run . -root ../.. -out ../../dist -version $(VERSION) -key test all

clean: ## remove built binaries
	rm -rf bin dist

FORCE:
