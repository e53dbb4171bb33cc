# The front door: `make` alone lists what it can do. Where there is no make, the recipes below show
# what it calls, with `python tools/set_up.py` in place of the set-up.
#
# For GNU make 3.81 (macOS) and newer, with sh (on Windows: git-bash). Nothing here may hold an
# absolute path: make takes a space in one for the end of a word.
#
# make itself exits with 2 whenever a command fails, so `make check` does where `grader check` exits
# with 1. Scripts should ask for "not 0", or call `.venv/bin/python -m grader` themselves.

MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.NOTPARALLEL:
# What is called says then what to type next in make's words.
export GRADER_CALLED_BY := make

# ---- what people may set: make check ONLY=attention --------------------------------------------

# The unit or exercise to look at (several: ONLY="masks attention")
ONLY =

# The folder with the exercises, if it isn't exercises/
EXERCISES =

# progress: check everything first (CHECK=yes); hint: no further one, only those before (AGAIN=yes)
CHECK =
AGAIN =

# BEGIN STAFF (cut from what students get, as all such parts)
# doctor: show the walls around what `grade` runs, each as tried on this machine (WALLS=yes)
WALLS =

# grade: a folder submissions (left out: the bundled sample class), and where results go
SUBMISSIONS =
OUT = grades

# release: where it goes, and whether Gradescope may grade without walls (UNSAFE=yes: docs/release.md)
DIST = dist
UNSAFE =

# END STAFF
# Which torch, asked for once and remembered in .venv until `make clean` or TORCH=default:
#   TORCH=cpu              PyTorch's CPU build: 200 MB where Linux's usual one takes gigabytes
#   TORCH=cu126            any other build that has an index at download.pytorch.org/whl
#   TORCH="torch==2.8.0"   what pip understands: versions, a wheel's path or URL; what is named
#                          here (numpy too: "torch==2.8.0 numpy<2") overrules constraints.txt
TORCH ?=

# Which Python makes .venv: the first that is new enough, unless named (PYTHON=python3.12, or, with
# a space in its path, PYTHON='"/c/Program Files/Python312/python.exe"')
PYTHON ?= $(eval PYTHON := $(shell $(FIND_PYTHON)))$(PYTHON)

# Which versions: constraints.txt, another such file, or none
CONSTRAINTS ?= constraints.txt

# 'a b' -> 'a b' as one word for sh, whatever is in it
quote = '$(subst ','\'',$(1))'

# ---- set-up -------------------------------------------------------------------------------------

PYTHONS := python3 python python3.15 python3.14 python3.13 python3.12 python3.11 python3.10 py
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 10))
FIND_PYTHON = for p in $(PYTHONS); do $$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && echo $$p && break; done

# Of what is piped into it, what follows a tab comes out in the reader's language.
TELL = $(if $(PYTHON),$(PYTHON) tools/tell.py,tr -d '\t')
told = $(shell printf '\t%s\n' $(call quote,$(1)) | $(TELL))

ifeq ($(OS),Windows_NT)
RUN := .venv/Scripts/python.exe
else
RUN := .venv/bin/python
endif

# Each is the record of what was installed; tools/set_up.py writes it.
CORE := .venv/set-up/core
NOTEBOOKS := .venv/set-up/lab.extra
# BEGIN STAFF
GRADING := .venv/set-up/instructor.extra
WORKING := .venv/set-up/dev.extra
MEASURING := .venv/set-up/notebooks.extra
WRITING := .venv/set-up/docs.extra
# END STAFF

# Make sees by these files' age what is out of date. tools/set_up.py looks into what it can't see:
# a choice on the command line, or a .venv whose Python has been removed.
INPUTS := pyproject.toml constraints.txt tools/set_up.py tools/install.py
CHOSEN_TORCH := $(shell test -x $(RUN) && cat .venv/set-up/torch 2>/dev/null)
ifneq ($(or $(TORCH),$(CHOSEN_TORCH)),$(or $(CHOSEN_TORCH),none))
INPUTS += ask
endif
ifneq ($(filter-out constraints.txt,$(CONSTRAINTS))$(filter command,$(origin PYTHON)),)
INPUTS += ask
endif

ONLY_THESE = $(foreach target,$(ONLY),$(call quote,$(target)))
THERE = $(if $(EXERCISES),--path $(call quote,$(EXERCISES)))

# In both languages: without a Python, nothing translates.
define set-up
@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 || { \
  echo "This course needs Python 3.10 or newer. $(if $(PYTHON),$(PYTHON) is none; it says: $$($(PYTHON) --version 2>&1 | tail -n 1),There is none among: $(PYTHONS))"; \
  echo "Install one from https://www.python.org/downloads, or name one that you have: make $(MAKECMDGOALS) PYTHON=python3.12"; \
  echo "课程需要 Python 3.10 或更新的版本：请从 https://www.python.org/downloads 安装，或者指定已有的一个：make $(MAKECMDGOALS) PYTHON=python3.12"; \
  exit 1; } >&2
@$(PYTHON) tools/set_up.py $(1) --constraints $(call quote,$(CONSTRAINTS)) \
  $(if $(TORCH),--torch $(call quote,$(TORCH))) $(if $(filter command,$(origin PYTHON)),--this-python)
endef

$(CORE): $(INPUTS)
	$(call set-up)
$(NOTEBOOKS): $(INPUTS)
	$(call set-up,lab)
# BEGIN STAFF
$(GRADING): $(INPUTS)
	$(call set-up,instructor)
$(WORKING): $(INPUTS)
	$(call set-up,instructor dev docs notebooks)
$(MEASURING): $(INPUTS)
	$(call set-up,instructor notebooks)
$(WRITING): $(INPUTS)
	$(call set-up,docs)
# END STAFF

.PHONY: ask
ask:

# ---- what would be passed over in silence, or refused too late -----------------------------------

SMALL := $(strip $(foreach name,only exercises check again torch python,$(if $(filter command,$(origin $(name))),$(name))))
ifneq ($(SMALL),)
$(error $(call told,Please write it in capitals:) make $(MAKECMDGOALS) $(foreach name,$(SMALL),$(shell echo $(name) | tr a-z A-Z)=$(call quote,$($(name)))))
endif

# make check attention
ifneq ($(word 2,$(MAKECMDGOALS)),)
NAMES := $(filter-out $(shell awk -F : '/^[a-z-]+:/ { print $$1 }' Makefile),$(MAKECMDGOALS))
ifneq ($(filter-out .%,$(NAMES)),)
$(error $(call told,Please say which after ONLY=:) make $(filter-out $(NAMES),$(MAKECMDGOALS)) ONLY=$(if $(word 2,$(NAMES)),"$(NAMES)",$(NAMES)))
endif
endif

# ---- targets ------------------------------------------------------------------------------------

.PHONY: help check watch hint progress reset compare submit doctor lab clean

help: ## list what make can do
	@{ awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  \t%s\n", $$1, $$2 }' Makefile; \
	echo; \
	printf '  make check ONLY=attention    \tone unit, or ONLY=attention.stable_softmax\n'; \
	printf '  make check TORCH=cpu         \ton Linux: torch without CUDA, a small download (said once)\n'; \
	echo; \
	printf '\tEach installs what it needs into .venv, once.\n'; \
	printf '\tWhat else can be set is told in the first lines of the Makefile.\n'; } | $(TELL)

check: $(CORE) ## check your exercises
	@$(RUN) -m grader check $(ONLY_THESE) $(THERE)

watch: $(CORE) ## check again at every save
	@$(RUN) -m grader watch $(ONLY_THESE) $(THERE)

hint: $(CORE) ## the next hint of an exercise: ONLY=stable_softmax
	@$(RUN) -m grader hint $(ONLY_THESE) $(if $(AGAIN),--again) $(THERE)

progress: $(CORE) ## where you stand
	@$(RUN) -m grader progress $(ONLY_THESE) $(if $(CHECK),--check) $(THERE)

reset: $(CORE) ## a fresh stub: ONLY=stable_softmax (what you had is kept)
	@$(RUN) -m grader reset $(ONLY_THESE) $(THERE)

compare: $(CORE) ## what the reference does otherwise, once yours has passed
	@$(RUN) -m grader compare $(ONLY_THESE) $(THERE)

submit: $(CORE) ## pack your work for handing in: submission.zip
	@$(RUN) -m grader submit $(THERE)

# BEGIN STAFF
# To try walls takes what they are made of.
ifneq ($(WALLS),)
doctor: $(GRADING)
endif
# END STAFF
# It needs no set-up: it may be what is wrong.
doctor: ## find out what is wrong with this machine
	@if $(RUN) -c '' 2>/dev/null; then $(RUN) -m grader doctor $(if $(WALLS),--walls); \
	else $(or $(PYTHON),python3) -m grader doctor; fi

lab: $(NOTEBOOKS) ## open the notebooks in exercises/, in JupyterLab
# BEGIN STAFF
	@$(RUN) -m release notebooks exercises
# END STAFF
	@$(RUN) -m jupyter lab exercises

# BEGIN STAFF
.PHONY: grade validate calibrate pairs mutants stubs answers release test test-slow test-all bench
.PHONY: docs lint format

grade: $(GRADING) ## grade a class: SUBMISSIONS=folder OUT=folder (ONLY="attention masks")
	@$(RUN) -m grader grade $(if $(SUBMISSIONS),$(call quote,$(SUBMISSIONS))) --out $(call quote,$(OUT)) \
	  $(if $(ONLY),--only $(call quote,$(ONLY)))

validate: $(GRADING) ## prove the course: reference, stubs, known mistakes
	@$(RUN) -m grader validate $(ONLY_THESE)

calibrate: $(GRADING) ## show that tolerances lie between right answers and mistakes
	@$(RUN) -m grader calibrate $(ONLY_THESE)

pairs: $(GRADING) ## what is said of two mistakes at once
	@$(RUN) -m grader pairs $(ONLY_THESE)

mutants: $(WORKING) ## change the reference mechanically, and see it noticed
	@$(RUN) -m grader mutants $(ONLY_THESE)

stubs: $(CORE) ## write exercises/ again from solutions/
	@$(RUN) -m grader stubs

answers: $(CORE) ## record again what the public suite compares with
	@$(RUN) -m grader answers

release: $(MEASURING) ## what students and platforms get, in DIST=dist
	@$(RUN) -m release build --out $(call quote,$(DIST)) $(if $(UNSAFE),--unsafe)

test: $(WORKING) ## test the project itself, in minutes
	@$(RUN) -m pytest -m "not slow"
	@$(RUN) -m grader validate

# pytest exits with 5 where it finds no test
test-slow: $(WORKING) ## the project's slow tests alone
	@$(RUN) -m pytest -m slow || test $$? -eq 5

test-all: test test-slow ## both

bench: $(MEASURING) ## measure the grader's speed, beside nbgrader's
	@$(RUN) -m bench

docs: $(WRITING) ## the site, into build/docs; a dead link is an error
	@$(RUN) -m sphinx -nW --keep-going -q docs build/docs
	@echo build/docs/index.html

WORKFLOWS = $(wildcard $(addsuffix *.yml,.github/workflows/ $(addsuffix .github/workflows/,release/template/student/ release/template/classroom/*/)))

lint: $(WORKING) ## style, types, import directions, workflows
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy $(wildcard grader release solutions bench tools)
	@$(RUN) -c "from importlinter.cli import lint_imports_command as lint; lint()" --no-logo
	@$(RUN) -m check_jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	@$(dir $(RUN))zizmor --offline --quiet --config .github/zizmor.yml .github $(WORKFLOWS)

format: $(WORKING) ## put imports and layout in order
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

# END STAFF
clean: ## remove what make made, .venv too (never your exercises)
	rm -rf .venv build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
