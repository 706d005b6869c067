# Every target makes the environment it needs from a bare Python 3.11 or later. Nothing else is installed by hand.
PYTHON ?= python3
WORKERS ?= 3  # one more than a small machine has cores: many tests wait for the disk
UV := .venv-frameworks/uv/bin/uv pip install -q  # many and large environments, in a tenth of the time
PIP := -m pip --disable-pip-version-check --no-input -q

FRAMEWORKS := a2a adk agent_framework anthropic claude langgraph llama_index openai_agents providers pydantic_ai strands
ADAPTERS_langgraph := langgraph langchain
ADAPTERS_providers := render providers

.PHONY: demo test tests conformance conformance-mcp conformance-gateway conformance-inspector inspector inspector-check frameworks quick check bench soak twins reference picture pictures browser docs lock clean

demo: .venv-demo/ready  ## the main job on the embedded default
	@.venv-demo/bin/python examples/demo.py

test: .venv/ready  ## style, types, and all tests that need no program but Python and PostgreSQL
	$(MAKE) --no-print-directory -j 2 check tests

tests: .venv/ready
	.venv/bin/python -m pytest -n $(WORKERS) --dist worksteal --promises --ignore tests/inspector/chromium

conformance:  ## with the programs and suites of other people: browser, agents, protocols, frameworks, the documentation site; two at a time
	$(MAKE) --no-print-directory -j 2 --output-sync=target conformance-mcp conformance-gateway conformance-inspector inspector-check frameworks docs

conformance-inspector: .venv/ready browser  ## the inspector, in a real Chromium
	.venv/bin/python -m pytest -q -n 2 --dist worksteal tests/inspector/chromium

conformance-mcp: .venv-conformance/ready  ## the suites of the Model Context Protocol, against the server
	.venv-conformance/bin/python -m tests.conformance_mcp run .venv-conformance/npm

conformance-gateway: .venv-conformance/agents/ready  ## Claude Code and Codex, with and without the gateway
	.venv-conformance/bin/python -m tests.conformance_gateway run .venv-conformance/agents

inspector: .venv-inspector/ready  ## the page of the inspector, from its sources; nobody who uses it needs Node
	.venv-inspector/bin/python -m tools.inspector_build build

inspector-check: .venv-inspector/ready  ## types, and whether the built page is what its sources give
	.venv-inspector/bin/python -m tools.inspector_build check

frameworks: $(FRAMEWORKS:%=framework-%)  ## the adapters, each in an environment with its framework

framework-%: .venv-frameworks/%/ready
	.venv-frameworks/$*/bin/python -m mypy --cache-dir .mypy_cache/$* $$(find $(patsubst %,src/holdfast/%,$(or $(ADAPTERS_$*),$*)) tests/frameworks/$* -name '*.py')
	.venv-frameworks/$*/bin/python -m pytest -q -o filterwarnings=ignore tests/frameworks/$* tests/frameworks/test_pages.py

quick: .venv/ready  ## for every edit: style, the core, properties in memory
	.venv/bin/ruff check
	HOLDFAST_QUICK=1 .venv/bin/python -m pytest -n $(WORKERS) --dist worksteal -q tests/core tests/text tests/render tests/tidy -k "not busy"

check: .venv/ready  ## style, types, import rules
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

soak: .venv/ready  ## the promises at their full figures; takes hours
	HOLDFAST_SOAK=1 .venv/bin/python -m pytest tests/crash tests/property tests/conformance tests/edges tests/server tests/client tests/mcp tests/access -n $(WORKERS) --timeout 0 --promises

bench: .venv/ready  ## measurements, each a ratio in one run; peers go into an environment of their own
	.venv/bin/python -m benchmarks

.venv/ready: requirements/dev.lock pyproject.toml .venv-frameworks/uv/ready
	$(PYTHON) -m venv .venv
	$(UV) --python .venv/bin/python --require-hashes -r requirements/dev.lock
	$(UV) --python .venv/bin/python --no-deps --no-build-isolation -e .
	@touch $@

.venv-demo/ready: requirements/core.lock requirements/build.lock pyproject.toml
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python $(PIP) install --require-hashes -r requirements/core.lock -r requirements/build.lock
	.venv-demo/bin/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

twins: .venv/ready  ## the async twins of the objects that users hold
	.venv/bin/python tools/twins.py

reference: .venv/ready  ## the tables of the reference, from the code
	.venv/bin/python -m tests.docs.reference

picture: .venv/ready  ## the picture of `holdfast pack` in the documentation
	.venv/bin/python -m tools.pack_picture

pictures: .venv/ready browser  ## the pictures of the inspector in the documentation
	.venv/bin/python -m tools.inspector_pictures

browser: .venv/ready  ## the Chromium that the tests of the inspector use; installed as root on Debian, else named
	@.venv/bin/python -m tools.browser --install

docs: .venv-docs/ready  ## the documentation site, in docs/_build/html; warnings are errors
	.venv-docs/bin/python -m sphinx -q -b html -j auto -E -a -n -W --keep-going -d docs/_build/doctrees docs docs/_build/html

.venv-conformance/ready: requirements/conformance.lock tests/conformance_mcp/package-lock.json pyproject.toml
	$(PYTHON) -m venv .venv-conformance
	.venv-conformance/bin/python $(PIP) install --require-hashes -r requirements/conformance.lock
	.venv-conformance/bin/python $(PIP) install --no-deps --no-build-isolation -e .
	.venv-conformance/bin/python -m tests.conformance_mcp install .venv-conformance/npm
	@touch $@

.venv-conformance/agents/ready: .venv-conformance/ready tests/conformance_gateway/package-lock.json
	.venv-conformance/bin/python -m tests.conformance_gateway install .venv-conformance/agents
	@touch $@

.venv-inspector/ready: requirements/inspector.lock inspector/package-lock.json
	$(PYTHON) -m venv .venv-inspector
	.venv-inspector/bin/python $(PIP) install --require-hashes -r requirements/inspector.lock
	.venv-inspector/bin/python -m tools.inspector_build install
	@touch $@

.venv-frameworks/uv/ready: requirements/install.lock
	$(PYTHON) -m venv .venv-frameworks/uv
	.venv-frameworks/uv/bin/python $(PIP) install --require-hashes -r requirements/install.lock
	@touch $@

.PRECIOUS: .venv-frameworks/%/ready
.venv-frameworks/%/ready: requirements/frameworks/%.lock pyproject.toml .venv-frameworks/uv/ready
	$(PYTHON) -m venv .venv-frameworks/$*
	$(UV) --python .venv-frameworks/$*/bin/python --require-hashes -r requirements/frameworks/$*.lock
	$(UV) --python .venv-frameworks/$*/bin/python --no-deps --no-build-isolation -e .
	@touch $@

.venv-docs/ready: requirements/docs.lock pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(PIP) install --require-hashes -r requirements/docs.lock
	.venv-docs/bin/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

lock:  ## pin the newest versions that pyproject.toml allows, with hashes
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python $(PIP) install uv
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 pyproject.toml -o requirements/core.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 --group build -o requirements/build.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 pyproject.toml --group dev -o requirements/dev.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 pyproject.toml --group docs -o requirements/docs.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 pyproject.toml --group conformance -o requirements/conformance.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 --group install -o requirements/install.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 --group inspector -o requirements/inspector.lock
	for name in $(FRAMEWORKS); do .venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --upgrade --python-version 3.11 pyproject.toml --group $$(echo $$name | tr _ -) -o requirements/frameworks/$$name.lock || exit 1; done
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 benchmarks/agents.in -o benchmarks/agents.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --prerelease allow --python-version 3.11 benchmarks/server.in -o benchmarks/server.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 benchmarks/gateway/headroom.in -o benchmarks/gateway/headroom.lock
	.venv-lock/bin/uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 pyproject.toml benchmarks/statebench.in -o benchmarks/statebench.lock

clean:
	rm -rf .venv .venv-conformance .venv-inspector inspector/node_modules .venv-frameworks .venv-demo .venv-docs .venv-lock .venv-bench .venv-agents .venv-statebench .venv-server .mypy_cache .ruff_cache .pytest_cache .hypothesis docs/_build
