# Two commands: `make demo` and `make test`. Each sets up .venv on first use; with CPU=1 without CUDA.
PYTHON ?= python3
READY := .venv/.ready

.PHONY: demo test docs browser-test lint bench clean

demo: $(READY)
	.venv/bin/g2netpl demo --output runs/demo

# A process per core, of one thread: the tensors of tests are small, and threads would only wait for each other.
test: lint
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile

browser-test: $(READY)  # needs node and chromium (or CHROMIUM=path)
	npm install --prefix tests/browser --no-package-lock --ignore-scripts --no-audit --no-fund
	.venv/bin/python -m pytest tests/browser/test_review_browser.py -rs

lint: $(READY)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy --platform win32 --cache-dir .mypy_cache/win32
	.venv/bin/mypy --platform darwin --cache-dir .mypy_cache/darwin

# The docs as a site in site/; a link that leads nowhere is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict

# A table of ratios and their bars.
bench: $(READY)
	.venv/bin/python benchmarks/run_all.py

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "g2netpl needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --upgrade pip
ifdef CPU  # the newest builds without CUDA that the package index has for this Python
	for package in torch torchvision; do \
	  build=$$(.venv/bin/python -m pip index versions $$package 2>/dev/null | grep -o '[0-9.]*+cpu' | head -n 1); \
	  test -n "$$build" || { echo "no CPU build of $$package on the package index for this Python: docs/tutorials/install.md" >&2; exit 2; }; \
	  builds="$$builds $$package==$$build"; \
	done; \
	.venv/bin/python -m pip install --quiet $$builds
endif
	.venv/bin/python -m pip install --quiet --editable '.[export,hub,raw,remote,dev,docs]'
	touch $(READY)

clean:
	rm -rf .venv runs site
