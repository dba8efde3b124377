# Two commands do everything on a machine with Python 3.11 or newer and make:
#   make demo    both phases on a generated example
#   make test    lint, types and the tests, every behaviour once
# Each creates its own environment in .venv first; nothing already installed is used.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
# One BLAS thread a process: the tests run in parallel already, and small matrices gain nothing from more.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# What drives a browser is tested where there is one; make browser sees to that.
FIND_BROWSER := { command -v chromium || command -v chromium-browser || command -v google-chrome; }
IN_BROWSER := tests/report/test_report_browser.py
NOT_IN_BROWSER := --ignore=$(IN_BROWSER)
WITH_TORCH := tests/kernels/test_array_backend.py tests/reading tests/study/test_baseline_hard_sharing.py \
	tests/study/test_loss_weightings.py

.PHONY: help demo test check coverage lint backends lowest browser networks bench scaling all-pairs basins rivals reproduce own-inputs po-vhi evidence any-regressor figures api clean

help:
	@echo "make demo     run both phases on a generated example, write the result to demo_output/"
	@echo "make test     lint, types and the tests: every behaviour once"
	@echo "make check    everything else: other configurations, the study, a browser, torch, the lowest"
	@echo "              versions of what the core needs"
	@echo "make coverage how many lines of ctfa the tests of make test reach"
	@echo "make backends all tests by numpy alone, then with every compiled scan"
	@echo "make lowest   the tests of make test with the lowest supported versions of the core dependencies"
	@echo "make browser  the report in a real browser; installs Chromium where there is none and it can"
	@echo "make networks the tests that need torch: networks that tasks share, arrays; installs it first"
	@echo "make bench    ratios against refitting and against one least-squares fit"
	@echo "make scaling  time and memory against rows, targets, features, workers: half an hour; results/scaling/"
	@echo "make all-pairs all pairs of 29,934 tasks with inputs of their own, on the device named by DEVICE"
	@echo "make basins   tasks with inputs of their own: 29,934 of them against as many separate fits"
	@echo "make rivals   every method on schools and a robot arm, from the folder named by CTFA_DATA:"
	@echo "              an hour, resumable; tables and plots go to results/baselines/"
	@echo "make reproduce the paper's numbers, ours, and why they differ (real data from CTFA_DATA): an"
	@echo "              hour on two cores, resumable; REPRODUCE='--quick' for a short form"
	@echo "make own-inputs targets with inputs or rows of their own on real data, with rivals (needs"
	@echo "              CTFA_DATA); a quarter of an hour, OWN='--sets School' for some of it"
	@echo "make po-vhi    windows of time on the authors' own drought task (needs CTFA_DATA)"
	@echo "make evidence what users get, and every rival, on generated families (some built to break the"
	@echo "              rule) and on the real sets in the folder named by CTFA_DATA (those that are"
	@echo "              there); an hour on two cores, resumable; tables and plots go to"
	@echo "              results/evidence/. EVIDENCE='--quick' for a short form, '--help' for options"
	@echo "make any-regressor groups that forests, boosting, kernels, networks judge themselves, against one"
	@echo "              such model per target; half an hour; results/any_regressor/"
	@echo "make figures  the pictures of README and docs from generated data, into docs/img/"
	@echo "make api      docs/api.md, the reference of every public name, from the docstrings"
	@echo "make clean    remove the environments and caches"

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "ctfa needs Python 3.11 or newer; set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $(READY)

demo: $(READY)
	$(BIN)/ctfa demo --output demo_output

test: $(READY) lint
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 $(NOT_IN_BROWSER)

# Three at a time: what asks other processes waits for them.
check: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 3 --rest $(NOT_IN_BROWSER)
	$(MAKE) browser networks lowest

.venv/.coverage: $(READY)
	$(BIN)/python -m pip install --quiet --group coverage
	@touch .venv/.coverage

coverage: .venv/.coverage
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 $(NOT_IN_BROWSER) --cov=ctfa --cov-report=term:skip-covered

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/api.py --check

backends: $(READY)
	CTFA_BACKEND=numpy $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --everything $(NOT_IN_BROWSER)
	CTFA_BACKEND=numba $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --everything $(NOT_IN_BROWSER)

.venv-lowest/.ready: pyproject.toml tests/lowest.txt
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-lowest/bin/python -m pip install --quiet --editable . --group test --constraint tests/lowest.txt
	@touch .venv-lowest/.ready

lowest: .venv-lowest/.ready
	$(ONE_THREAD) .venv-lowest/bin/python -m pytest -n 2 $(NOT_IN_BROWSER)

browser: $(READY)
	@if [ -n "$$CTFA_BROWSER" ] || $(FIND_BROWSER) >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; \
	else \
		echo "No browser: install Chromium or Chrome (on Debian: sudo apt-get install chromium),"; \
		echo "or name one that is installed: CTFA_BROWSER=/path/to/chrome make browser"; exit 1; \
	fi
	CTFA_BROWSER_TESTS=required $(ONE_THREAD) $(BIN)/python -m pytest --everything $(IN_BROWSER)

.venv/.networks: $(READY)
	$(BIN)/python -m pip install --quiet --group networks
	@touch .venv/.networks

networks: .venv/.networks
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --everything -k "torch or hard_sharing or loss_weightings" $(WITH_TORCH)

bench: $(READY)
	$(ONE_THREAD) $(BIN)/python benchmarks/speed.py

# Options, such as SCALING="rows --upto 1e8".
SCALING ?= all
scaling: $(READY)
	$(ONE_THREAD) $(BIN)/python benchmarks/scaling.py $(SCALING)
	$(BIN)/python benchmarks/scaling_figure.py

# A library of arrays and its device, such as DEVICE=torch:cuda; that library is yours to install.
DEVICE ?= torch:cuda
all-pairs: $(READY)
	$(BIN)/python benchmarks/all_pairs.py 29934 --device $(DEVICE)

# Options, such as BASINS="5000 --quick" or BASINS="--all-pairs".
BASINS ?=
basins: $(READY)
	$(ONE_THREAD) $(BIN)/python benchmarks/basins.py $(BASINS)

# Options, such as RIVALS="--quick" or RIVALS="--jobs 2".
RIVALS ?=
rivals: $(READY)
	$(ONE_THREAD) $(BIN)/ctfa baselines --data school-27 --data school -o results/baselines $(RIVALS)
	$(ONE_THREAD) $(BIN)/ctfa baselines --data sarcos --split random -o results/baselines/random $(RIVALS)
	$(ONE_THREAD) $(BIN)/ctfa baselines --data sarcos -o results/baselines $(RIVALS)

# Options, such as REPRODUCE="--quick" or REPRODUCE="--networks".
REPRODUCE ?=
reproduce: $(READY)
	$(ONE_THREAD) $(BIN)/ctfa reproduce all --jobs 2 -o results/reproduction --page docs/reproduction.md $(REPRODUCE)

# Options, such as OWN="--sets School Parkinson --seeds tuning".
OWN ?=
own-inputs: $(READY)
	$(ONE_THREAD) $(BIN)/python -m ctfa_study.evidence.own_inputs $(OWN)

po-vhi: $(READY)
	$(ONE_THREAD) $(BIN)/python -m ctfa_study.evidence.po_vhi

.venv/.study: $(READY)
	$(BIN)/python -m pip install --quiet --group study
	@touch .venv/.study

# Options of the study, such as EVIDENCE="--quick" or EVIDENCE="--seeds tuning".
EVIDENCE ?=
evidence: .venv/.study
	$(ONE_THREAD) $(BIN)/python -m ctfa_study.evidence $(EVIDENCE)

# Options, such as ANY="--regressors kernel ridge".
ANY ?=
any-regressor: .venv/.study
	$(ONE_THREAD) $(BIN)/python -m ctfa_study.evidence.any_regressor $(ANY)

figures: $(READY)
	$(ONE_THREAD) $(BIN)/python docs/figures.py

api: $(READY)
	$(BIN)/python docs/api.py

clean:
	rm -rf .venv .venv-lowest .pytest_cache .hypothesis .mypy_cache .ruff_cache demo_output
