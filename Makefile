# The two commands to know: `make demo` and `make test`. Each does all its own set-up and is fast the second time.
PYTHON = .venv/bin/python
# For two cores: tests wait for programs more than they compute.
JOBS ?= 3
# Small programs, which `make test` installs; each other target installs what its tests need in addition.
LIGHT = bash=bash dash=dash zsh=zsh fish=fish busybox=busybox-static rsync=rsync ssh=openssh-client sshd=openssh-server \
	bwrap=bubblewrap unshare=util-linux openssl=openssl
HOSTS = dockerd=docker.io docker=docker.io podman=podman runc=runc catatonit=catatonit ip=iproute2 \
	slurmctld=slurm-wlm munged=munge git-lfs=git-lfs
NODE = node=nodejs npm=npm
WEB = $(NODE) chromium=chromium gh=gh

# The coding agents, with the versions that scripts/agents.sh pins; `make test-all` adds older versions and other agents.
AGENTS = claude codex opencode
OLDER = claude@2.1.197 codex@0.150.0 opencode@1.15.0
OTHERS = gemini pi aider gemini@0.47.0 pi@0.67.1 aider@0.84.0

# The libraries of engines that engines/ pins: the newest supported version, and of Modal the oldest too.
ENGINES = modal modal@1.5.5 ray

# pytest keeps compiled tests, even where the environment says otherwise: that saves a quarter of a minute.
PYTEST = PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n $(JOBS) --dist worksteal
# With clusters, containers, coding agents and browsers, and in CI, a test that failed runs once more, alone; one that passes then is named as flaky.
ENGINE_PYTEST = PYTHONDONTWRITEBYTECODE= $(PYTHON) scripts/test_with_engines.py -n $(JOBS) --dist worksteal

# Runs tests with a stub in place of the program: a test that still passes checks nothing.
# mngr asks for trust in this project's own settings; the answer is kept in a home inside .venv.
AUDIT = export MNGR_HOME="$(CURDIR)/.venv/mngr-home"; .venv/bin/mngr -q trust --yes >/dev/null && \
	MNGR_TEST_SCALE= .venv/bin/mngr -q e2e audit --jobs $(JOBS)
AUDITED = tests/docs/tutorial tests/agents
SINCE = $$(git merge-base HEAD origin/HEAD 2>/dev/null || git rev-parse -q --verify HEAD~1 || echo HEAD)

.PHONY: setup demo test test-hosts test-agents test-web test-all check bench docs pictures lock clean
.NOTPARALLEL:

setup:
	@sh scripts/setup.sh

demo: setup
	@PATH="$(CURDIR)/.venv/bin:$$PATH" sh examples/demo.sh

# Every package, with light programs only: at most 5 minutes on two cores.
test: JOBS = 4
test:
	@sh scripts/setup.sh $(LIGHT)
	@$(if $(CI),$(ENGINE_PYTEST),$(PYTEST)) -m "not hosts and not agents and not web"

# Containers, Modal, Ray, Slurm, machines that crash, and ssh at length.
test-hosts:
	@sh scripts/setup.sh $(LIGHT) $(HOSTS)
	@sh scripts/engines.sh $(ENGINES)
	@$(ENGINE_PYTEST) -m "hosts and not agents"

# Coding agents with a scripted model. Some of these tests run in containers too, but only in `make test-all`.
test-agents:
	@sh scripts/setup.sh $(LIGHT) $(NODE) $(if $(filter full,$(MNGR_TEST_SCALE)),$(HOSTS))
	@sh scripts/agents.sh $(AGENTS)
	@$(ENGINE_PYTEST) -m "agents" --agents "$(AGENTS)"

# Pages in a browser, pull requests by the GitHub CLI, and a stub in place of mngr in tests that changed and in some others.
test-web:
	@sh scripts/setup.sh $(LIGHT) $(WEB)
	@sh scripts/site.sh >/dev/null
	@$(ENGINE_PYTEST) -m "web and not hosts and not agents"
	@$(AUDIT) $(AUDITED) --modes nop,help --within 30s --sample 8 --seed "$${MNGR_TEST_SEED:-0}" \
		--changed-since "$(SINCE)" -- -m "not hosts and not agents"

# All targets with every count, every version and every agent.
test-all: export MNGR_TEST_SCALE = full
test-all: AGENTS += $(OLDER) $(OTHERS)
test-all: test test-hosts test-agents test-web
	@$(AUDIT) $(AUDITED) --modes nop,help
	@$(AUDIT) tests/docs/tutorial

check: setup
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports

# All of it, or some: make bench PARTS="hosts modal".
bench:
	@sh scripts/setup.sh $(LIGHT) $(HOSTS) $(NODE)
	@sh scripts/agents.sh claude
	@sh scripts/engines.sh modal ray
	@$(PYTHON) -m tests.bench $(PARTS)

# The reference from the code, and the documentation site in build/site.
docs: setup
	@$(PYTHON) scripts/reference.py docs
	@sh scripts/site.sh

# The pictures of the documentation, from a real session and a real run.
pictures:
	@sh scripts/setup.sh $(LIGHT) $(WEB)
	@sh scripts/agents.sh claude
	@sh scripts/pictures.sh

# Pins the newest versions that pyproject.toml allows, for every platform at once; needs uv.
lock:
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile pyproject.toml --group dev --universal \
		--python-version 3.11 --upgrade --generate-hashes --no-annotate -q -o requirements.txt
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile docs/requirements.in --universal \
		--python-version 3.11 --upgrade --generate-hashes --no-annotate -q -o docs/requirements.txt
	for pair in 'modal modal<1.7' 'modal@1.5.5 modal==1.5.5' 'ray ray<3'; do \
		echo "$${pair#* }" | UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile - --universal \
			--python-version 3.11 --upgrade --generate-hashes --no-annotate -q -o "engines/$${pair%% *}.txt"; \
	done

clean:
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis build dist
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
