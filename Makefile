# The front door. Each target installs what is missing, builds what changed, and is quiet when all
# is well. On a system without the Debian packages: SETUP=0, with the libraries on CMAKE_PREFIX_PATH.
SETUP ?= 1
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
REPRODUCE ?= all
ASAN ?=
space := $(subst ,, )

.PHONY: help demo build test asan bench reproduce install python format clean setup setup-python

help:
	@echo "make demo       train the NRU and an LSTM side by side on the copying task"
	@echo "make build      the program, build/nru"
	@echo "make test       build and run all tests (make asan: the torch-free ones under sanitizers,"
	@echo "                ASAN=\"support tasks\" only these)"
	@echo "make bench      time fused, reference and torch's own layers"
	@echo "make reproduce  make the paper's runs, or go on with them (REPRODUCE=\"copy-100 --quick\")"
	@echo "make install    install program, library and headers (PREFIX=/usr/local)"
	@echo "make python     build the Python module and install it into .venv"
	@echo "make format     clang-format all C++ files"
	@echo "make clean      delete build/"

setup:
	@[ "$(SETUP)" = 0 ] || tools/setup

setup-python:
	@[ "$(SETUP)" = 0 ] || tools/setup python

build: setup
	@JOBS=$(JOBS) tools/build release all

demo: build
	@tools/demo

test: setup-python
	@JOBS=$(JOBS) tools/build release all nru_tests
	@JOBS=$(JOBS) tools/run-tests build

asan: setup
	@JOBS=$(JOBS) tools/build asan $(if $(ASAN),$(ASAN:%=%_tests),nru_tests)
	@JOBS=$(JOBS) tools/run-tests build/asan $(if $(ASAN),-R '^($(subst $(space),|,$(strip $(ASAN))))$$')

bench: build
	@build/nru bench

reproduce: build
	@build/nru reproduce $(REPRODUCE)

install: build
	@cmake --install build --prefix "$(PREFIX)" >/dev/null
	@echo "installed nru under $(PREFIX)"

python: setup-python
	@JOBS=$(JOBS) tools/build release nru_python
	@tools/install-python build .venv

format:
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -r clang-format -i

clean:
	@rm -rf build
