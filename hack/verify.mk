# Tests that take long or need more than `make test`: a target verify-GROUP for each group. FORM=short takes at most ten minutes on two
# cores; FORM=long has no limit. docs/develop/testing.md describes each group.

GROUPS ?= redis etcd mysql backup platform upgrade chaos transitions faults alerts security olm bench load
FORM   ?= short
FULL   := $(if $(filter long,$(FORM)),full)
# The seed of random choices: constant in the short form, the time in the long form. The last line of verify prints the seed.
SEED   := $(or $(SEED),$(if $(FULL),$(shell date +%s),1))
export SEED

##@ Verification

.PHONY: verify $(GROUPS:%=verify-%)
verify: ## Run groups of long tests, and print the seconds and result of each (GROUPS='redis etcd mysql backup platform upgrade chaos transitions faults alerts security olm bench load', FORM=short or long, SEED).
	@hack/steps.sh $(foreach group,$(GROUPS),'verify-$(group) FORM=$(FORM) SEED=$(SEED)')

# Show the output of tests that pass, because it has their measurements.
SUITE_TEST = $(TEST_ENVIRONMENT) '$(GOTESTSUM)' --format standard-verbose --hide-summary=skipped -- $(LINK) -count 1 -timeout 8h
AGENT_TEST = cd cmd/agent && $(SUITE_TEST)
SUITE_TOOLS := cluster-tools $(GOTESTSUM) $(SOURCE_LINK)

# Real Redis clusters: each known fault, moves, sizes, kills of the operator at its steps; and a model of its decisions.
.PHONY: suite-redis model-redis
verify-redis: suite-redis model-redis
suite-redis: $(SUITE_TOOLS) $(REDIS)/redis-server
	REDIS_TESTS=$(FULL) $(SUITE_TEST) -parallel $(if $(FULL),2,3) $(ARGS) ./test/rediscluster
model-redis: $(GOTESTSUM)
	REDIS_MODEL_RUNS=$(if $(FULL),300,10) $(SUITE_TEST) -run TestModel ./internal/redis/topology

# Real etcd clusters, 3.4 to 3.7: faults, upgrades, certificates, kills of the operator at its side effects; and a model of members,
# compared with etcd.
.PHONY: suite-etcd model-etcd
verify-etcd: suite-etcd model-etcd
suite-etcd: $(SUITE_TOOLS) $(ETCDS)
	ETCD_TESTS=$(FULL) $(SUITE_TEST) -parallel $(if $(FULL),2,4) $(ARGS) ./test/etcdcluster
	$(AGENT_TEST) $(ARGS) ./internal/member/etcd ./internal/snapshot/etcd
model-etcd: $(GOTESTSUM) $(ETCDS)
	ETCD_MODEL=$(FULL) $(SUITE_TEST) -run 'TestExplore|TestTheModelIsAsEtcd' ./internal/etcd/membership

# Replicated MySQL of Debian's unstable release: losses, sizes, failovers, the agent; a model of three members; the guard of a single
# server; log-ins of a Java program with the urls of the product's services.
.PHONY: suite-mysql suite-mysql-agent suite-guard suite-jdbc model-mysql
verify-mysql: suite-mysql suite-mysql-agent suite-guard suite-jdbc model-mysql
suite-mysql: $(SUITE_TOOLS) $(MYSQL)/mysqld
	@'$(MYSQL)/mysqld' --no-defaults --version
	MYSQL_TESTS=$(FULL) MYSQL_STORIES='$(STORIES)' $(SUITE_TEST) -parallel $(if $(STORIES),2,1) -tags mysql $(ARGS) ./test/mysqlcluster
suite-mysql-agent: $(GOTESTSUM) $(MYSQL)/mysqld
	MYSQL_TESTS=$(FULL) $(AGENT_TEST) -p 1 -parallel 2 -tags mysql $(ARGS) ./internal/member/mysql/...
suite-guard: $(SUITE_TOOLS)
	GUARD_TESTS=$(FULL) $(SUITE_TEST) $(ARGS) ./test/guard
# JDBC_DRIVER=FILE runs the suite with MySQL's own driver, a jar file.
suite-jdbc: $(GOTESTSUM) $(SOURCE_LINK) $(JAVA)/java $(MYSQL)/mysqld $(MARIADB)/mysqld
	JDBC_DRIVER='$(JDBC_DRIVER)' $(SUITE_TEST) -tags mysql $(ARGS) ./test/jdbc
model-mysql: $(GOTESTSUM)
	MYSQL_MODEL=$(FULL) $(SUITE_TEST) -run 'TestExplore|TestControls' ./internal/mysql/replication

# Backups, archives and restores of real databases, with each known fault.
.PHONY: suite-backup suite-backup-agent
verify-backup: suite-backup-agent suite-backup
suite-backup-agent: $(GOTESTSUM) $(MARIADB)/mysqld $(MYSQL)/mysqld $(REDIS)/redis-server $(ETCDS)
	@'$(MYSQL)/mysqld' --no-defaults --version
	BACKUP_TESTS=$(FULL) $(AGENT_TEST) -parallel 4 $(ARGS) ./test
suite-backup: $(SUITE_TOOLS) $(MARIADB)/mysqld $(MYSQL)/mysqld $(REDIS)/redis-server $(ETCDS)
	$(SUITE_TEST) $(ARGS) ./test/backup

# The tests that `make test` omits and that no other group has: the operator on a simulated cluster, the API, charts and packages without side
# effects. FORM=long runs these packages in full, and `make test` on the oldest Kubernetes.
OTHER_GROUPS := test/(backup|[a-z]*cluster|guard|example)|internal/(metrics|redis/topology|etcd/membership|mysql/replication)
.PHONY: suite-platform suite-emulator suite-oldest
verify-platform: suite-platform suite-emulator $(if $(FULL),suite-oldest)
suite-platform: test-tools $(MONGODB_OPERATOR) $(FERRETDB)
	$(SUITE_TEST) $(or $(ARGS),$(if $(FULL),$$(go list ./... | grep -vE '/($(OTHER_GROUPS))$$'),$$(hack/omitted.sh '$(OTHER_GROUPS)')))
	$(if $(ARGS),,$(SUITE_TEST) -tags example ./test/example)
# Programs run as the processes of simulated pods.
suite-emulator: $(SUITE_TOOLS)
	$(SUITE_TEST) -tags emulator $(ARGS) ./test/harness/emulator
suite-oldest:
	$(MAKE) test KUBERNETES=oldest

# The last release and then this version on one cluster: only pods whose chart has changed restart.
.PHONY: suite-upgrade suite-ha suite-chart
verify-upgrade: suite-upgrade suite-ha suite-chart
suite-upgrade: $(SUITE_TOOLS)
	KUBECONFIG= $(SUITE_TEST) -tags released $(ARGS) ./test/upgrade
# Stops, kills, freezes and disconnects the leader; a standby must become leader. HA_RUNS is the number of rounds.
suite-ha: $(SUITE_TOOLS)
	KUBECONFIG= $(SUITE_TEST) -tags ha $(ARGS) ./test/ha
# The Helm chart: installed, upgraded and uninstalled while a platform runs, and installed over kustomize's objects.
suite-chart: $(SUITE_TOOLS) $(HELM)
	KUBECONFIG= $(SUITE_TEST) -tags helm $(ARGS) ./test/chart

# Crashes the operator at each write, makes requests fail, and compares the end states with the end state of a run without faults.
# FORM=long: each sample.
.PHONY: suite-chaos
verify-chaos: suite-chaos
suite-chaos: $(SUITE_TOOLS)
	CHAOS=$(FULL) $(SUITE_TEST) -tags chaos $(ARGS) ./test/chaos

# Changes each property of running DataServices and restores it, and sets hostile input (ARGS='-seed N' replays).
.PHONY: suite-transitions suite-bad-input suite-fuzz
verify-transitions: suite-transitions suite-bad-input suite-fuzz
suite-transitions suite-bad-input: cluster-tools
	TRANSITIONS=$(FULL) $(ON_CLUSTER) go run ./test/transitions -suite $(@:suite-%=%) $(ARGS)
suite-fuzz:
	@FUZZTIME=$(or $(FUZZTIME),$(if $(FULL),5m,5s)) hack/fuzz.sh

# The kubectl plugin, and `why` on the corpus of faults. FORM=long kills adopt after each write.
.PHONY: suite-faults
verify-faults: suite-faults
suite-faults: $(SUITE_TOOLS) $(REDIS)/redis-server $(ETCDS) $(MARIADB)/mysqld $(MYSQL)/mysqld
	cd cmd/kubectl-dataservice && FAULTS=$(FULL) $(SUITE_TEST) $(ARGS) ./...

# A real Prometheus scrapes the operator: each panel has data, and each alert fires for its fault only.
.PHONY: suite-alerts
verify-alerts: suite-alerts
suite-alerts: $(SUITE_TOOLS) $(REDIS)/redis-server $(MYSQL)/mysqld $(PROMETHEUS)/promtool
	$(SUITE_TEST) ./internal/metrics
	KUBECONFIG= ALERTS=$(FULL) $(SUITE_TEST) -tags alerts $(ARGS) ./test/alerts

.PHONY: security
verify-security: security
security: $(GOLANGCI_LINT) $(KUSTOMIZE) $(KUBE_SCORE) $(GOVULNCHECK) $(SOURCE_LINK) ## Check pods, manifests and dependencies (SECURITY.md); needs no cluster.
	go test $(LINK) ./test/security
	@hack/kube-score.sh
	@hack/govulncheck.sh

# The operator as catalogs deliver it: bundles, the catalog, images, the plugin's archives, and a real node with OLM (root).
.PHONY: catalog-verify images-verify mirror-verify plugin-verify suite-e2e
verify-olm: bundle-validate catalog-verify suite-e2e $(if $(FULL),images-verify mirror-verify plugin-verify)
catalog-verify: $(OPM)
	@hack/verify-generated.sh catalog
suite-e2e:
	@$(if $(filter-out 0,$(shell id -u)),sudo --preserve-env) $(MAKE) e2e $(if $(FULL),E2E=full)
images-verify: $(CYCLONEDX)
	@hack/images-verify.sh
mirror-verify: $(OPM) $(TOOLS)/registry
	@hack/mirror-verify.sh
plugin-verify: $(KREW) $(TOOLS)/kubectl $(SOURCE_LINK)
	go test -tags krew -count 1 -timeout 1h -v ./test/krew

.PHONY: bench
verify-bench: bench
verify-load:
	@$(MAKE) bench $(if $(FULL),LOAD=100$(comma)300$(comma)1000,LOAD=50 ARGS='-clusters 2 $(ARGS)')
bench: cluster-tools $(REDIS)/redis-server ## Measure the operator with many DataServices (LOAD=100,300,1000: with these numbers, an hour or more).
	$(ON_CLUSTER) go run ./test/bench $(if $(LOAD),-only middleware$(comma)tenants$(comma)load -sizes '$(LOAD)') $(ARGS)
