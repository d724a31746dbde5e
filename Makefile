# The two commands to know: `make demo` and `make test`. Each does all its own set-up and is fast the second time.
PYTHON = .venv/bin/python
# For two cores: tests wait for programs more than they compute.
JOBS ?= 3
SHELLS = bash=bash dash=dash zsh=zsh fish=fish rsync=rsync
HOSTS = ssh=openssh-client sshd=openssh-server dockerd=docker.io docker=docker.io podman=podman runc=runc \
	catatonit=catatonit bwrap=bubblewrap socat=socat busybox=busybox-static ip=iproute2 unshare=util-linux gh=gh \
	slurmctld=slurm-wlm munged=munge

# Pinned in scripts/agents.sh; older ones by their version.
AGENTS = claude codex opencode
OLDER = claude@2.1.197 codex@0.150.0 opencode@1.15.0
OTHERS = gemini pi aider gemini@0.47.0 pi@0.67.1 aider@0.84.0

# Libraries of engines, pinned in engines/: the newest that we support, and the oldest.
ENGINES = modal modal@1.5.5 ray

# What a stub in the place of the program shows of our own tests; in `test`, of those that changed and of some others.
AUDIT = MNGR_TEST_SCALE= .venv/bin/mngr -q e2e audit --jobs $(JOBS)
AUDITED = tests/e2e/tutorial tests/cli
SINCE = $$(git merge-base HEAD origin/HEAD 2>/dev/null || git rev-parse -q --verify HEAD~1 || echo HEAD)

.PHONY: setup demo test test-all test-agents check bench docs lock clean
.NOTPARALLEL:

setup:
	@sh scripts/setup.sh

demo: setup
	@PATH="$(CURDIR)/.venv/bin:$$PATH" sh examples/demo.sh

test:
	@sh scripts/setup.sh $(SHELLS) $(HOSTS) node=nodejs npm=npm chromium=chromium
	@sh scripts/agents.sh $(AGENTS)
	@sh scripts/engines.sh $(ENGINES)
	@$(PYTHON) -m pytest -n $(JOBS) --dist worksteal --agents "$(AGENTS)"
	@$(AUDIT) $(AUDITED) --modes nop,help --within 30s --sample 8 --seed "$${MNGR_TEST_SEED:-0}" --changed-since "$(SINCE)"

test-all: export MNGR_TEST_SCALE = full
test-all: AGENTS += $(OLDER)
test-all: test
	@$(AUDIT) $(AUDITED) --modes nop,help
	@$(AUDIT) tests/e2e/tutorial

# All coding agents for real, each in two versions.
test-agents: AGENTS += $(OLDER) $(OTHERS)
test-agents:
	@sh scripts/setup.sh node=nodejs npm=npm
	@sh scripts/agents.sh $(AGENTS)
	@$(PYTHON) -m pytest -n $(JOBS) --dist worksteal --agents "$(AGENTS)" tests/agents

check: setup
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports

# All of it, or some: make bench PARTS="hosts modal".
bench:
	@sh scripts/setup.sh $(HOSTS) node=nodejs npm=npm
	@sh scripts/agents.sh claude
	@sh scripts/engines.sh modal ray
	@$(PYTHON) -m tests.bench $(PARTS)

docs: setup
	@$(PYTHON) scripts/reference.py docs

# Pins the newest versions that pyproject.toml allows, for every platform at once; needs uv.
lock:
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile pyproject.toml --group dev --universal \
		--python-version 3.11 --upgrade --generate-hashes --no-annotate -q -o requirements.txt
	for pair in 'modal modal<1.7' 'modal@1.5.5 modal==1.5.5' 'ray ray<3'; do \
		echo "$${pair#* }" | UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile - --universal \
			--python-version 3.11 --upgrade --generate-hashes --no-annotate -q -o "engines/$${pair%% *}.txt"; \
	done

clean:
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis build dist
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
